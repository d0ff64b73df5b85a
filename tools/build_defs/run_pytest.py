"""Runs pytest inside a Bazel test with the settings of the repository."""

import os
import sys
from pathlib import Path

import pytest


def main() -> int:
  scratch = os.environ["TEST_TMPDIR"]
  os.environ.setdefault("HOME", scratch)
  # The files of a test are links into the workspace, so those of its models lead out of their folders.
  os.environ["GRAFTAX_ALLOW_FILES_IN"] = str(Path(__file__).resolve().parents[2])
  # CI runs all tests once, under `make test-all`. Bazel adds that each target sees nothing but its declared
  # dependencies, which a few rows of the fast tests show. `--test_arg=--most-rows=1000` runs all rows. In CI a quarter
  # of these tests run, as few of them import something later than their file does.
  options = [
    "-p",
    "no:cacheprovider",
    f"--basetemp={scratch}/pytest",
    f"--rootdir={os.getcwd()}",
    "--verbose",
    "-m",
    "not slow",
    "--most-rows=2",
  ]
  if "XML_OUTPUT_FILE" in os.environ:
    options.append(f"--junit-xml={os.environ['XML_OUTPUT_FILE']}")
  status = pytest.main([*options, *sys.argv[1:]])
  # A package may have no tests in one of the rings.
  return 0 if status == pytest.ExitCode.NO_TESTS_COLLECTED else status


if __name__ == "__main__":
  sys.exit(main())
