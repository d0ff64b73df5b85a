"""The page of ops is current and names real files."""

import re
import subprocess
import sys

from cleanroom import ROOT

_DOCS = ROOT / "docs"


def test_the_checked_in_page_is_current():
  # In a process of its own, because other tests register ops.
  command = [sys.executable, "-m", "graftax.tools.codegen.generate_op_index", "--check"]
  assert subprocess.run(command).returncode == 0, "run `make op-index`"


def test_every_op_links_to_the_file_of_its_lowering():
  page = (_DOCS / "ops.md").read_text(encoding="utf-8")
  rows = dict(re.findall(r"^\| (\w+) \| \[[\w.]+\]\(([^)]+)\)", page, re.MULTILINE))
  assert rows["TopKV2"].endswith("array/sort_search.py")
  assert [path for path in set(rows.values()) if not (_DOCS / path).is_file()] == []


def test_every_form_of_an_op_and_its_tests_are_found_from_it():
  page = (_DOCS / "ops.md").read_text(encoding="utf-8")
  lines = (line.split("|")[1:-1] for line in page.splitlines() if line.count("|") > 3)
  cells = {op.strip(): [re.sub(r"\([^)]*\)", "", cell).strip() for cell in rest] for op, *rest in lines}
  assert cells["GatherV2"][:3] == ["[array.gather]", "`axis`", "[gather]"]
  assert "[gathering]" in cells["GatherV2"][5]
  assert cells["GatherV2"][6].startswith("[gather_test]")
  assert cells["Abs"][3] == "[arithmetic_ops]"
  assert cells["StringLower"][4] == "[strings]"
  assert [op for op, forms in cells.items() if op != "op" and not forms[6]] == []
