"""The pages and tables of ops are current, complete, and name real files."""

import json
import re
import subprocess
import sys

from cleanroom import ROOT

from graftax.graphdef_ir import OpSignatures

_DOCS = ROOT / "docs"
_CHECK = """
import importlib, sys
names = ("lowering_modules", "outward_ops", "op_sources", "op_index", "primitive_index", "stablehlo_index")
mains = [importlib.import_module(f"graftax.tools.codegen.generate_{name}").main for name in names]
sys.exit(max([main(["--check"]) for main in mains]))
"""


def test_the_checked_in_pages_are_current():
  # In a process of its own, because other tests register ops.
  assert subprocess.run([sys.executable, "-c", _CHECK]).returncode == 0, "run `make op-index`"


def _rows(page: str) -> dict[str, list[str]]:
  lines = (line.split("|")[1:-1] for line in (_DOCS / page).read_text(encoding="utf-8").splitlines() if "|" in line)
  cells = ([cell.strip().replace("\\", "") for cell in line] for line in lines if line)
  return {op: rest for op, *rest in cells if op not in ("op", "---")}


def test_the_page_has_every_op_of_tensorflow_with_its_forms_or_a_reason():
  rows = _rows("ops.md")
  assert OpSignatures().keys() <= rows.keys()
  without = {op: cells[0] for op, cells in rows.items() if len(cells) == 1}
  assert [op for op, reason in without.items() if len(reason) < 20] == []
  assert [op for op, cells in rows.items() if len(cells) > 1 and not cells[0]] == []
  assert "jax.lax.psum" in without["CollectiveGatherV2"]
  assert rows["GatherV2"][0] == "JAX bounded outward"
  assert rows["AddV2"][0] == "JAX bounded pairs outward"
  assert rows["StringLower"][0] == "host"
  assert rows["Switch"][0] == "raised"


def test_no_op_that_tensorflow_compiles_lacks_a_lowering_because_nobody_wrote_it():
  compiled = (ROOT / "tools/graftax/tools/codegen/tf2xla_ops.txt").read_text(encoding="utf-8").split()
  without = {op: cells[0] for op, cells in _rows("ops.md").items() if len(cells) == 1}
  assert "TensorFlow's compiler does not have it" in without["IsotonicRegression"]
  assert [op for op in compiled if "compiler does not have it" in without.get(op, "")] == []
  assert [op for op in without if op in OpSignatures() and "fallback=" in without[op]] == []


def test_the_page_says_what_checks_showed():
  rows = _rows("ops.md")
  assert rows["MatMul"][1].startswith("floats, int32, int64, complex")
  assert rows["MatMul"][2:6] == ["yes", "yes", "yes", "yes"]
  assert rows["Where"][2] == "none"
  assert rows["StatelessWhile"][2:4] == ["programs", "programs"]
  assert "known: `axis`" in rows["GatherV2"][6]
  checks = json.loads((ROOT / "tools/graftax/tools/facts/op_checks.json").read_text(encoding="utf-8"))
  assert checks.keys() <= rows.keys()


def test_every_op_links_to_the_file_of_its_lowering():
  page = (_DOCS / "op_sources.md").read_text(encoding="utf-8")
  rows = dict(re.findall(r"^\| (\w+) \| \[[\w.]+\]\(([^)]+)\)", page, re.MULTILINE))
  assert rows["TopKV2"].endswith("array/sort_search.py")
  assert [path for path in set(rows.values()) if not (_DOCS / path).is_file()] == []


def test_every_form_of_an_op_and_its_tests_are_found_from_it():
  cells = {op: [re.sub(r"\([^)]*\)", "", cell) for cell in rest] for op, rest in _rows("op_sources.md").items()}
  assert cells["GatherV2"][:2] == ["[array.gather]", "[gather]"]
  assert "[gathering]" in cells["GatherV2"][4]
  assert cells["GatherV2"][5].startswith("[gather_test]")
  assert cells["Abs"][2] == "[arithmetic_ops]"
  assert cells["StringLower"][3] == "[strings]"
  assert [op for op, forms in cells.items() if not forms[5]] == []


def test_the_test_of_a_module_is_listed_first_for_all_of_its_ops():
  # Ops whose names a test puts together, too: the file is not searched for them.
  page = (_DOCS / "op_sources.md").read_text(encoding="utf-8")
  rows = re.findall(r"^\| (\w+) \| \[[\w.]+\]\(([^)]+)\.py\).*\| \[[\w.]+\]\(([^)]+)\)[^|]*\|$", page, re.MULTILINE)
  own = {op: (f"{home}_test.py", first) for op, home, first in rows if (_DOCS / f"{home}_test.py").is_file()}
  assert {op: first for op, (beside, first) in own.items() if beside != first} == {}
  assert len(own) > 500
  tests = {op: first.rpartition("/")[2] for op, _, first in rows}
  assert tests["SegmentMax"] == "segment_test.py"
  assert tests["While"] == tests["If"] == "control_flow_test.py"
