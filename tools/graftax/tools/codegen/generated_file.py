"""The command line of generators that write one file: they write it, or check that it is current."""

import argparse
import pathlib
import runpy
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

__all__ = ["REPOSITORY", "Release", "run_generator", "run_release_generator"]

REPOSITORY = pathlib.Path(__file__).resolve().parents[4]

Release = tuple[int, int]
"""Major and minor version of TensorFlow."""

_Row = TypeVar("_Row")


def run_generator(
  description: str, module: str, target: pathlib.Path, make_text: Callable[[], str], args: Sequence[str] | None
) -> int:
  """Runs the command of a generator and returns its exit status.

  Args:
    description: what it writes; the first line is shown by `--help`.
    module: the name of the module to run again if the file is out of date.
    target: the file.
    make_text: returns what the file has to hold.
    args: the arguments; None for those of the process.
  """
  options = _parser(description, module).parse_args(args)
  return _write(target, make_text(), module, check=options.check)


def run_release_generator(
  description: str,
  module: str,
  target: pathlib.Path,
  read_row: Callable[[str], Mapping[Release, _Row]],
  format_table: Callable[[Mapping[Release, _Row]], str],
  args: Sequence[str] | None,
) -> int:
  """Runs the command of a generator of a table with a row for each release of TensorFlow; returns its exit status.

  Rows of releases that are not read stay.

  Args:
    description: what it writes; the first line is shown by `--help`.
    module: the name of the module to run again if the file is out of date.
    target: the file, a Python module whose `__all__` has only the table.
    read_row: returns the row of the TensorFlow of a Python interpreter.
    format_table: returns the text of the module with the table.
    args: the arguments; None for those of the process.
  """
  parser = _parser(description, module)
  parser.add_argument("interpreters", nargs="*", default=[sys.executable], help="with a TensorFlow each")
  options = parser.parse_args(args)
  written = runpy.run_path(str(target))
  table: dict[Release, _Row] = dict(written[written["__all__"][0]])
  for interpreter in options.interpreters:
    table |= read_row(interpreter)
  return _write(target, format_table(table), module, check=options.check)


def _parser(description: str, module: str) -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(prog=f"python -m {module}", description=description.partition("\n")[0])
  parser.add_argument("--check", action="store_true", help="exit 1 if the file is out of date, and write nothing")
  return parser


def _write(target: pathlib.Path, text: str, module: str, *, check: bool) -> int:
  if not check:
    target.write_text(text, encoding="utf-8")
  elif target.read_text(encoding="utf-8") != text:
    print(f"{target} is out of date; run python -m {module}", file=sys.stderr)
    return 1
  return 0
