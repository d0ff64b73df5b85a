"""A script that dies at a path costs that path and no other one."""

import sys
from pathlib import Path

import pytest

from graftax.testing.harness.scripts import run_script

_SCRIPT = """
import json, os, sys
print("starts with", len(sys.argv) - 1)
for path in sys.argv[1:]:
  if path.startswith("die"):
    print(f"cannot run {path}", file=sys.stderr, flush=True)
    os._exit(3)
  print(json.dumps({"path": path, "right": path != "wrong", "given": sys.argv[1:]}), flush=True)
"""


@pytest.fixture
def script(tmp_path) -> Path:
  path = tmp_path / "script.py"
  path.write_text(_SCRIPT)
  return path


def test_the_paths_after_a_lost_one_run_in_a_new_process(script):
  paths = [Path(name) for name in ("a", "die1", "wrong", "b", "die2", "die3")]
  found = run_script(sys.executable, script, paths)
  assert {str(path): row["right"] for path, row in found.items()} == {
    "a": True, "die1": False, "wrong": False, "b": True, "die2": False, "die3": False,
  }  # fmt: skip
  assert found[Path("die2")]["error"] == "exit 3: cannot run die2\n"
  assert found[Path("b")]["given"] == ["wrong", "b", "die2", "die3"]


def test_a_path_that_takes_too_long_costs_that_path(script):
  script.write_text(_SCRIPT.replace("os._exit(3)", "import time; time.sleep(60)"))
  found = run_script(sys.executable, script, [Path("a"), Path("die")], timeout_s=2.0)
  assert found[Path("a")]["right"]
  assert found[Path("die")]["error"] == "no answer within 4 s"


def test_a_script_that_runs_nothing_loses_each_path(script):
  script.write_text("import no_such_module")
  found = run_script(sys.executable, script, [Path("a"), Path("b")])
  assert [("exit 1" in row["error"], "no_such_module" in row["error"]) for row in found.values()] == [(True, True)] * 2
