"""Runs a script over models in another interpreter: a model at which it dies costs that model and no other one.

The script runs without graftax, takes paths as arguments, and prints a line `{"path": ...}` of JSON for each, in order.
"""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

from graftax.testing.pytrees import Json

__all__ = ["run_script"]

_ROW = '{"path"'
_MOST_CHARACTERS = 300


def run_script(
  python: str, script: Path, paths: Sequence[Path], timeout_s: float | None = None
) -> dict[Path, dict[str, Json]]:
  """Returns the row of each path.

  Args:
    python: the interpreter.
    script: the script.
    paths: its arguments. The one at which it ends gets a row with `right`, which is false, and `error`; the script then
      starts again with the rest.
    timeout_s: how long a path may take, on average; by default as long as it takes.
  """
  found: dict[Path, dict[str, Json]] = {}
  while rest := [path for path in paths if path not in found]:
    command = [python, str(script), *map(str, rest)]
    try:
      limit = None if timeout_s is None else timeout_s * len(rest)
      done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=limit)
      printed, error = done.stdout, f"exit {done.returncode}: {done.stderr[-_MOST_CHARACTERS:]}"
    except subprocess.TimeoutExpired as e:
      # What was printed is bytes, although the process prints text.
      printed, error = (e.stdout or b"").decode(errors="replace"), f"no answer within {limit:.0f} s"
    rows = [json.loads(line) for line in printed.splitlines() if line.startswith(_ROW)]
    found |= dict(zip(rest, rows, strict=False))
    if len(rows) < len(rest):
      lost = rest[len(rows)]
      found[lost] = {"path": str(lost), "right": False, "error": error}
  return found
