"""Computes which share of each package's expressions mypy knows only as Any.

`python tools/checks/any_expressions.py` checks all packages anew, which takes a minute, and renews
`tools/checks/any_expressions.toml`; `any_expressions_test.py` fails if a package has more than is written there, in
number and in share: the share alone rises when typed code is removed.
"""

import math
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from cleanroom import ROOT

GOLDEN = Path(__file__).with_suffix(".toml")

_HEAD = (
  "# The expressions that mypy knows only as Any: their number, and their share in percent.\n"
  "# Renew with tools/checks/any_expressions.py.\n"
)
_ROW = re.compile(r"\s*graftax\.(\w+)\S*\s+(\d+)\s+(\d+)\s")


class AnyExpressions(NamedTuple):
  """The expressions of a package that mypy knows only as Any: how many, and their share in percent."""

  number: int
  share: float


def report(*files: Path) -> list[str]:
  """Returns the lines of mypy's report, a module in each: of files, or of all packages.

  The configuration is that of pyproject.toml, and expressions whose type is an alias of Any are counted.
  """
  with tempfile.TemporaryDirectory() as folder:
    settings = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    plugins = f'[tool.mypy]\nplugins = ["{Path(__file__).with_name("any_names.py").as_posix()}"]\n'
    config = Path(folder, "pyproject.toml")
    config.write_text(settings.replace("[tool.mypy]\n", plugins, 1), encoding="utf-8")
    options = ["--config-file", str(config), "--cache-dir", f"{folder}/cache", "--any-exprs-report", folder]
    subprocess.run([sys.executable, "-m", "mypy", *options, *map(str, files)], cwd=ROOT, check=True)
    return Path(folder, "any-exprs.txt").read_text(encoding="utf-8").splitlines()


def any_expressions(lines: Iterable[str]) -> dict[str, AnyExpressions]:
  """Returns what mypy's report says about each package, with shares rounded up to a tenth.

  Example:
    >>> any_expressions(["graftax.convert.api  1  30  96.67%", "graftax.convert  0  10  100.00%", "jax.core  5  5  0%"])
    {'convert': AnyExpressions(number=1, share=2.5)}
  """
  counts: dict[str, tuple[int, int]] = {}
  for row in filter(None, map(_ROW.match, lines)):
    num_any, total = counts.get(row[1], (0, 0))
    counts[row[1]] = (num_any + int(row[2]), total + int(row[3]))
  return {
    name: AnyExpressions(num_any, math.ceil(1000 * num_any / total) / 10)
    for name, (num_any, total) in counts.items()
    if total
  }


def risen(found: Mapping[str, AnyExpressions], allowed: Mapping[str, AnyExpressions]) -> dict[str, AnyExpressions]:
  """Returns the packages with more expressions of type Any than are allowed, both in number and in share.

  Example:
    >>> allowed = {"convert": AnyExpressions(50, 2.5), "hub_io": AnyExpressions(9, 1.1)}
    >>> risen({"convert": AnyExpressions(51, 2.6), "hub_io": AnyExpressions(9, 1.2)}, allowed)
    {'convert': AnyExpressions(number=51, share=2.6)}
  """
  none = AnyExpressions(0, 0.0)
  return {
    name: here
    for name, here in found.items()
    if here.number > allowed.get(name, none).number and here.share > allowed.get(name, none).share
  }


def golden() -> dict[str, AnyExpressions]:
  """Returns what is allowed."""
  return {name: AnyExpressions(**row) for name, row in tomllib.loads(GOLDEN.read_text(encoding="utf-8")).items()}


if __name__ == "__main__":
  rows = sorted(any_expressions(report()).items())
  GOLDEN.write_text(
    _HEAD + "".join(f"{name} = {{ number = {here.number}, share = {here.share} }}\n" for name, here in rows),
    encoding="utf-8",
  )
