"""python -m graftax.testing.jax_libraries WORK [--tensorflow PYTHON ...] [--only LIBRARY ...]."""

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from graftax.testing.jax_libraries.programs import libraries, programs_of
from graftax.testing.jax_libraries.report import failures, table
from graftax.testing.jax_libraries.writing import write_outcomes, write_program

_RUNNER = Path(__file__).with_name("run_in_tensorflow.py")


def main(args: Sequence[str] | None = None) -> int:
  """Writes the programs, runs them with each interpreter's TensorFlow, prints the table; returns 1 if one is wrong."""
  parser = argparse.ArgumentParser(prog="python -m graftax.testing.jax_libraries")
  parser.add_argument("work", type=Path, help="folder for the models")
  parser.add_argument("--tensorflow", nargs="*", default=[], help="interpreters whose TensorFlow runs the models")
  parser.add_argument("--only", nargs="*", default=libraries(), choices=libraries(), metavar="LIBRARY")
  parser.add_argument("--report", action="store_true", help="print the table of what is in the folder")
  options = parser.parse_args(args)
  if not options.report:
    for library in options.only:
      # A process for each library, so that one that aborts or takes much memory does not end the others.
      subprocess.run([sys.executable, "-c", _WRITE, str(options.work), library], check=False)
    for interpreter in options.tensorflow:
      folders = [str(path) for path in sorted(options.work.iterdir()) if path.name.split("-")[0] in options.only]
      subprocess.run(
        [interpreter, str(_RUNNER), *folders], check=True, env={**os.environ, "CUDA_VISIBLE_DEVICES": "-1"}
      )
  print(table(options.work))
  wrong = failures(options.work)
  print("\n".join(wrong))
  return int(bool(wrong))


_WRITE = """
import sys
from pathlib import Path
from graftax.testing.jax_libraries.__main__ import write_library
write_library(Path(sys.argv[1]), sys.argv[2])
"""


def write_library(work: Path, library: str) -> None:
  """Writes all programs of a library."""
  for program in programs_of(library):
    folder = work / f"{library}-{program.name}"
    outcomes = write_program(program, folder)
    write_outcomes(folder, outcomes)
    print(folder.name, outcomes["write"], flush=True)


if __name__ == "__main__":
  sys.exit(main())
