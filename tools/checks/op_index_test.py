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
