"""Runs a folder of StableHLO specification modules: `python -m graftax.testing.stablehlo_conformance FOLDER`.

The modules are text. With `--via bytes` each is first written as a portable artifact, so that the artifact is what is
read. `--version` says for which StableHLO: "newest", "oldest" (the oldest that can express the module), or a number.

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

from graftax.xla_call_module import Module, VersionError, lift, mlir

__all__ = ["Outcome", "compare", "main", "read", "run_file", "run_folder"]

_CHECKS = ("check.expect_eq", "check.expect_close", "check.expect_almost_eq")
_TOLERANCE = {1: 1e-1, 2: 2e-2, 4: 2e-4, 8: 1e-6}


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
  """The result of one module.

  Attributes:
    path: the file.
    status: "right", "wrong", "error", or "unwritable" if no artifact of the wanted version can hold the module.
    detail: the first difference, or the text of the error.
  """

  path: pathlib.Path
  status: str
  detail: str = ""


_STATUSES = ("right", "wrong", "error", "unwritable")


def _versions(wanted: str) -> list[str]:
  """Returns the StableHLO versions to try in turn."""
  newest = mlir.current_version()
  if wanted == "newest":
    return [".".join(map(str, newest))]
  if wanted != "oldest":
    return [wanted]
  minors = [f"{newest[0]}.{minor}.0" for minor in range(newest[1] + 1)]
  return [mlir.oldest_version(), *minors]


def read(text: str, via: str = "text", version: str = "newest") -> Module:
  """Returns the module that `text` spells.

  Args:
    text: MLIR text.
    via: "text" to read it as it is, "bytes" to write it as a portable artifact and read that.
    version: the StableHLO version of the artifact: "newest", "oldest" (the oldest that can express the module), or a
      number such as "1.0.0".

  Raises:
    VersionError: the module cannot be written in that version.
  """
  if via == "text":
    return Module.from_text(text)
  if via != "bytes":
    raise ValueError(f"via={via!r}; expected 'text' or 'bytes'.")
  return Module.from_bytes(_written(text, _versions(version)))


def _written(text: str, versions: Sequence[str]) -> bytes:
  for candidate in versions[:-1]:
    try:
      return mlir.serialize(text, version=candidate)
    except VersionError:
      continue
  return mlir.serialize(text, version=versions[-1])


def run_file(path: pathlib.Path, via: str = "text", version: str = "newest") -> Outcome:
  """Returns the outcome of lifting and running one module; see `read` for `via` and `version`."""
  try:
    module = read(path.read_text(), via, version)
  except VersionError as error:
    return Outcome(path, "unwritable", str(error))
  except Exception as error:  # every failure is an outcome to report
    return Outcome(path, "error", f"{type(error).__name__}: {error}")
  return _run(path, module)


def _run(path: pathlib.Path, module: Module) -> Outcome:
  checks: list[str] = []
  kept: list[Any] = []

  def expect(op: Any, *operands: Any) -> tuple[()]:
    checks.append(op.attrs["call_target_name"])
    kept.append(operands)
    return ()

  try:
    function = lift(module, custom_calls=dict.fromkeys(_CHECKS, expect))

    def run() -> Any:
      checks.clear()
      kept.clear()
      function._run()  # the checks are the results; main's own result repeats one of them
      return [tuple(operands[:2]) for operands in kept]

    results = jax.jit(run)()
  except Exception as error:  # every failure is an outcome to report
    return Outcome(path, "error", f"{type(error).__name__}: {error}")
  if not checks:
    return Outcome(path, "error", "the module checks nothing")
  for check, (actual, expected) in zip(checks, results, strict=True):
    problem = compare(check, np.asarray(actual), np.asarray(expected))
    if problem:
      return Outcome(path, "wrong", problem)
  return Outcome(path, "right")


def compare(check: str, actual: np.ndarray, expected: np.ndarray) -> str:
  """Returns what differs, or an empty string if the check holds.

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


def run_folder(
  folder: pathlib.Path, pattern: str = "*.mlir", via: str = "text", version: str = "newest"
) -> Iterator[Outcome]:
  """Yields the outcome of every module of a folder, in order of name."""
  for path in sorted(folder.glob(pattern)):
    yield run_file(path, via, version)


def _report(outcomes: Iterable[Outcome]) -> int:
  counts = dict.fromkeys(_STATUSES, 0)
  for outcome in outcomes:
    counts[outcome.status] += 1
    if outcome.status not in ("right", "unwritable"):
      print(f"{outcome.status}: {outcome.path.name}: {outcome.detail}")
  print(", ".join(f"{count} {status}" for status, count in counts.items()))
  return 1 if counts["wrong"] + counts["error"] else 0


def main(argv: Sequence[str] | None = None) -> int:
  """Runs the folder named on the command line; returns 0 if every module that can be written is right."""
  parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
  parser.add_argument("folder", type=pathlib.Path)
  parser.add_argument("--pattern", default="*.mlir", help="which files of the folder, default %(default)s")
  parser.add_argument("--via", choices=["text", "bytes"], default="text", help="how to read, default %(default)s")
  parser.add_argument("--version", default="newest", help="newest, oldest or a number; for --via bytes")
  arguments = parser.parse_args(argv)
  jax.config.update("jax_enable_x64", True)
  start = time.perf_counter()
  status = _report(run_folder(arguments.folder, arguments.pattern, arguments.via, arguments.version))
  print(f"{time.perf_counter() - start:.0f} s")
  return status


if __name__ == "__main__":
  sys.exit(main())
