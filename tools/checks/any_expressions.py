"""Computes which share of each package's expressions mypy knows only as Any.

`python tools/checks/any_expressions.py` checks all packages anew, which takes a minute, and renews
`tools/checks/any_expressions.toml`; `any_expressions_test.py` fails if a share is above the one written there.
"""

import math
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path

from cleanroom import ROOT

GOLDEN = Path(__file__).with_suffix(".toml")

_HEAD = (
  "# The share of expressions that mypy knows only as Any, in percent. Renew with tools/checks/any_expressions.py.\n"
)
_ROW = re.compile(r"\s*graftax\.(\w+)\S*\s+(\d+)\s+(\d+)\s")


def report() -> list[str]:
  """Returns the lines of mypy's report, a module in each, for the configuration in pyproject.toml."""
  with tempfile.TemporaryDirectory() as folder:
    command = [sys.executable, "-m", "mypy", "--cache-dir", f"{folder}/cache", "--any-exprs-report", folder]
    subprocess.run(command, cwd=ROOT, check=True)
    return Path(folder, "any-exprs.txt").read_text(encoding="utf-8").splitlines()


def shares(lines: Iterable[str]) -> dict[str, float]:
  """Returns the share of Any in percent, rounded up to a tenth, of each package of mypy's report.

  Example:
    >>> shares(["graftax.convert.api  1  30  96.67%", "graftax.convert  0  10  100.00%", "jax.core  5  5  0.00%"])
    {'convert': 2.5}
  """
  counts: dict[str, tuple[int, int]] = {}
  for row in filter(None, map(_ROW.match, lines)):
    num_any, total = counts.get(row[1], (0, 0))
    counts[row[1]] = (num_any + int(row[2]), total + int(row[3]))
  return {name: math.ceil(1000 * num_any / total) / 10 for name, (num_any, total) in counts.items() if total}


def risen(found: Mapping[str, float], allowed: Mapping[str, float]) -> dict[str, float]:
  """Returns the packages whose share is above the allowed one.

  Example:
    >>> risen({"convert": 2.6, "hub_io": 1.0}, {"convert": 2.5, "hub_io": 1.1})
    {'convert': 2.6}
  """
  return {name: share for name, share in found.items() if share > allowed.get(name, 0.0)}


def golden() -> dict[str, float]:
  """Returns the shares that are allowed."""
  return tomllib.loads(GOLDEN.read_text(encoding="utf-8"))


if __name__ == "__main__":
  GOLDEN.write_text(
    _HEAD + "".join(f"{name} = {share}\n" for name, share in sorted(shares(report()).items())), encoding="utf-8"
  )
