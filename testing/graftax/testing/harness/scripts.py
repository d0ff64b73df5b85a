"""Runs a script over models in another interpreter: a model at which it dies costs that model and no other one.

The script runs without graftax, takes paths as arguments, and prints a line `{"path": ...}` of JSON for each, in order.
"""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

__all__ = ["run_script"]

# `Any` in this module is what JSON can hold.

_ROW = '{"path"'
_MOST_CHARACTERS = 300


def run_script(python: str, script: Path, paths: Sequence[Path]) -> dict[Path, dict[str, Any]]:
  """Returns the row of each path.

  Args:
    python: the interpreter.
    script: the script.
    paths: its arguments. The one at which it ends gets a row with `right`, which is false, and `error`; the script then
      starts again with the rest.
  """
  found: dict[Path, dict[str, Any]] = {}
  while rest := [path for path in paths if path not in found]:
    done = subprocess.run([python, str(script), *map(str, rest)], check=False, capture_output=True, text=True)
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith(_ROW)]
    found |= dict(zip(rest, rows, strict=False))
    if len(rows) < len(rest):
      lost, error = rest[len(rows)], f"exit {done.returncode}: {done.stderr[-_MOST_CHARACTERS:]}"
      found[lost] = {"path": str(lost), "right": False, "error": error}
  return found
