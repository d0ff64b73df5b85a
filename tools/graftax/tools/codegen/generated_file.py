"""The command line of generators that write one file: they write it, or check that it is current."""

import argparse
import pathlib
import sys
from collections.abc import Callable, Sequence

__all__ = ["REPOSITORY", "run_generator"]

REPOSITORY = pathlib.Path(__file__).resolve().parents[4]


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
  parser = argparse.ArgumentParser(prog=f"python -m {module}", description=description.partition("\n")[0])
  parser.add_argument("--check", action="store_true", help="exit 1 if the file is out of date, and write nothing")
  options = parser.parse_args(args)
  text = make_text()
  if not options.check:
    target.write_text(text, encoding="utf-8")
  elif target.read_text(encoding="utf-8") != text:
    print(f"{target} is out of date; run python -m {module}", file=sys.stderr)
    return 1
  return 0
