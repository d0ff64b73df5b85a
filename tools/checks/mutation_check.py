"""Breaks one place at a time and finds the tests that fail: `make mutation-check`.

The places are in `mutations.toml`. Each is broken in a copy of the tree. Then the tests run in stages, each only if the
stages before it noticed nothing: the test file beside the broken one, the files that the place names (`tests`), the
rest of `make test`, and what only `make test-all` runs, of the named files first. The table names the command that
found each place, and the first test that failed.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from cleanroom import PACKAGES, ROOT
from mutations import MUTATIONS, Mutation

# pytest's exit status if no test was collected.
_NO_TESTS = 5
_PYTEST = Path(sys.executable).with_name("pytest")
_LEAST_SHARE_OF_MAKE_TEST = 0.9
_NOT_COPIED = shutil.ignore_patterns(".git", ".venv", ".jax_cache", "__pycache__", ".*_cache", "dist", "bazel-*")


def main() -> int:
  parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
  parser.add_argument("names", nargs="*", help="which mutations (default: all)")
  parser.add_argument("--workers", type=int, default=2, help="test processes at once")
  options = parser.parse_args()
  chosen = [m for m in MUTATIONS if not options.names or m.name in options.names]
  rows = []
  with tempfile.TemporaryDirectory() as folder:
    tree = Path(shutil.copytree(ROOT, Path(folder) / "tree", ignore=_NOT_COPIED))
    for mutation in chosen:
      started = time.monotonic()
      with _broken(tree, mutation):
        found_by, test = _found_by(tree, mutation, options.workers)
      rows.append((mutation, found_by))
      print(f"{mutation.name:32} {found_by:28} {time.monotonic() - started:6.0f} s  {test}", flush=True)
  by_test = sum(found_by.startswith("make test:") for _, found_by in rows)
  by_all = sum(found_by.startswith("make test-all:") for _, found_by in rows)
  print(f"{len(rows)} broken places: {by_test} found by make test, {by_test + by_all} by make test and make test-all.")
  return 0 if by_test + by_all == len(rows) and by_test >= _LEAST_SHARE_OF_MAKE_TEST * len(rows) else 1


class _broken:
  """Applies a mutation to a tree while the context is open."""

  def __init__(self, tree: Path, mutation: Mutation):
    self._path = tree / mutation.path
    self._mutation = mutation

  def __enter__(self) -> None:
    self._text = self._path.read_text(encoding="utf-8")
    self._path.write_text(self._mutation.applied(self._text), encoding="utf-8")

  def __exit__(self, *_: object) -> None:
    self._path.write_text(self._text, encoding="utf-8")


def _found_by(tree: Path, mutation: Mutation, workers: int) -> tuple[str, str]:
  """Returns the command that notices the mutation with the stage in which it did, and the first test that failed."""
  for name, arguments in _stages(tree, mutation, workers):
    command = [str(_PYTEST), "-q", "-x", "-p", "no:cacheprovider", *arguments]
    result = subprocess.run(command, cwd=tree, env=_environment(tree), capture_output=True, text=True)
    # Not the exit status, which xdist sets to that of an interruption when it stops at the first failure.
    failed = re.search(r"^FAILED (\S+)", result.stdout, re.MULTILINE)
    if failed:
      return name, failed[1]
    if result.returncode not in (0, _NO_TESTS):
      return f"error: pytest ended with {result.returncode} in {name}", ""
  return "not found", ""


def _stages(tree: Path, mutation: Mutation, workers: int) -> Iterator[tuple[str, Sequence[str]]]:
  beside = Path(mutation.path).with_name(Path(mutation.path).stem + "_test.py")
  if (tree / beside).exists():
    yield "make test: beside", ["-m", "not slow", str(beside)]
  if mutation.tests:
    yield "make test: named", ["-m", "not slow", *mutation.tests]
  parallel = ["-n", str(workers), "--dist", "loadfile"]
  for ring in ("free", "tensorflow"):
    yield f"make test: ring {ring}", ["-m", "not slow", f"--ring={ring}", *parallel]
  if mutation.tests:
    yield "make test-all: named", ["-m", "slow", *mutation.tests]
  for ring in ("free", "tensorflow"):
    yield f"make test-all: ring {ring}", ["-m", "slow", f"--ring={ring}", *parallel]


def _environment(tree: Path) -> dict[str, str]:
  """Returns an environment in which `graftax` is the copy, not the editable installation."""
  folders = [str(tree / package) for package in PACKAGES]
  return {**os.environ, "PYTHONPATH": os.pathsep.join(folders), "TF_CPP_MIN_LOG_LEVEL": "2"}


if __name__ == "__main__":
  sys.exit(main())
