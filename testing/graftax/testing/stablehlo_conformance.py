"""Runs a folder of StableHLO specification modules: `python -m graftax.testing.stablehlo_conformance FOLDER`.

Each module computes its own inputs and expected outputs, and ends in `check.expect_*` custom calls that say how the two
are to be compared: `expect_eq` exactly (NaN equals NaN), `expect_close` and `expect_almost_eq` within a tolerance that
depends on the width of the type.
"""

import argparse
import dataclasses
import pathlib
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import jax
import numpy as np

from graftax.xla_call_module import Module, lift

__all__ = ["Outcome", "compare", "main", "run_file", "run_folder"]

_CHECKS = ("check.expect_eq", "check.expect_close", "check.expect_almost_eq")
_TOLERANCE = {1: 1e-1, 2: 2e-2, 4: 2e-4, 8: 1e-6}


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
  """What became of one module: "right", "wrong" or "error", with the first difference or the error's text."""

  path: pathlib.Path
  status: str
  detail: str = ""


def run_file(path: pathlib.Path) -> Outcome:
  """Lifts and runs one module and evaluates its checks."""
  pairs: list[tuple[str, int]] = []
  kept: list[Any] = []

  def expect(op: Any, *operands: Any) -> tuple[()]:
    pairs.append((op.attrs["call_target_name"], len(operands)))
    kept.append(operands)
    return ()

  try:
    function = lift(Module.from_text(path.read_text()), custom_calls=dict.fromkeys(_CHECKS, expect))

    def run() -> Any:
      pairs.clear()
      kept.clear()
      function._run()  # the checks are the results; main's own result repeats one of them
      return [tuple(operands[:2]) for operands in kept]

    results = jax.jit(run)()
  except Exception as error:  # every failure is an outcome to report
    return Outcome(path, "error", f"{type(error).__name__}: {error}")
  if not pairs:
    return Outcome(path, "error", "the module checks nothing")
  for (check, _), (actual, expected) in zip(pairs, results, strict=True):
    problem = compare(check, np.asarray(actual), np.asarray(expected))
    if problem:
      return Outcome(path, "wrong", problem)
  return Outcome(path, "right")


def compare(check: str, actual: np.ndarray, expected: np.ndarray) -> str:
  """Empty where the check holds, else what differs.

  Args:
    check: name of the custom call.
    actual: what the module computed.
    expected: what it says is right; same shape and dtype.
  """
  if actual.shape != expected.shape or actual.dtype != expected.dtype:
    return f"{actual.dtype}{actual.shape} instead of {expected.dtype}{expected.shape}"
  if check == "check.expect_eq":
    both_nan = (actual != actual) & (expected != expected)
    num_different = int(np.sum(~((actual == expected) | both_nan)))
    return f"{num_different} of {actual.size} elements differ" if num_different else ""
  real = actual.dtype.itemsize // (2 if actual.dtype.kind == "c" else 1)
  tolerance = _TOLERANCE[real]
  kind = np.complex128 if actual.dtype.kind == "c" else np.float64
  try:
    np.testing.assert_allclose(actual.astype(kind), expected.astype(kind), rtol=tolerance, atol=tolerance)
  except AssertionError as error:
    return " ".join(str(error).split())[:300]
  return ""


def run_folder(folder: pathlib.Path, pattern: str = "*.mlir") -> Iterator[Outcome]:
  """The outcome of every module of a folder, in order of name."""
  for path in sorted(folder.glob(pattern)):
    yield run_file(path)


def _report(outcomes: Iterable[Outcome]) -> int:
  counts = {"right": 0, "wrong": 0, "error": 0}
  for outcome in outcomes:
    counts[outcome.status] += 1
    if outcome.status != "right":
      print(f"{outcome.status}: {outcome.path.name}: {outcome.detail}")
  print(", ".join(f"{count} {status}" for status, count in counts.items()))
  return 1 if counts["wrong"] + counts["error"] else 0


def main(argv: Sequence[str] | None = None) -> int:
  """Runs the folder named on the command line; 0 where every module is right."""
  parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
  parser.add_argument("folder", type=pathlib.Path)
  parser.add_argument("--pattern", default="*.mlir", help="which files of the folder, default %(default)s")
  arguments = parser.parse_args(argv)
  jax.config.update("jax_enable_x64", True)
  start = time.perf_counter()
  status = _report(run_folder(arguments.folder, arguments.pattern))
  print(f"{time.perf_counter() - start:.0f} s")
  return status


if __name__ == "__main__":
  sys.exit(main())
