"""The page of ops is current and names real files."""

import re

from cleanroom import ROOT

from graftax.ops_jax import lowering, register
from graftax.tools.codegen.generate_op_index import main, op_index

_DOCS = ROOT / "docs"


def test_the_checked_in_page_is_current():
  assert main(["--check"]) == 0, "run `make op-index`"


def test_ops_of_other_packages_are_not_on_the_page():
  before = op_index()

  @register("OpIndexTestOp")
  def lowered(x):
    return x

  assert lowering("OpIndexTestOp") is not None
  assert op_index() == before


def test_every_op_links_to_the_file_of_its_lowering():
  rows = dict(re.findall(r"^\| (\w+) \| \[[\w.]+\]\(([^)]+)\)", op_index(), re.MULTILINE))
  assert rows["TopKV2"].endswith("array/sort_search.py")
  assert [path for path in set(rows.values()) if not (_DOCS / path).is_file()] == []
