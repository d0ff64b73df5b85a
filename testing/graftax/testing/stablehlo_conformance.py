"""Runs a folder of StableHLO specification modules: `python -m graftax.testing.stablehlo_conformance FOLDER`.

The modules are text. With `--via bytes` each is first written as a portable artifact, so that the artifact is what is
read. `--version` says for which StableHLO: "newest", "oldest" (the oldest that can express the module), or a number.
With `--way embed` the modules are embedded, not lifted. With `--processes N` each module is the only one of its
process, N of them at a time, and one that ends its process is an error like others.

Each module computes its own inputs and expected outputs, and ends in `check.expect_*` custom calls that say how the two
are to be compared: `expect_eq` exactly (NaN equals NaN), `expect_close` and `expect_almost_eq` within a tolerance that
depends on the width of the type.
"""

import argparse
import dataclasses
import functools
import glob
import multiprocessing.pool
import pathlib
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

import jax
import numpy as np

from graftax.testing.harness.compare import difference
from graftax.xla_call_module import Module, VersionError, embed, lift, mlir

__all__ = ["Outcome", "compare", "main", "read", "run_file", "run_folder"]

_CHECKS = ("check.expect_eq", "check.expect_close", "check.expect_almost_eq")
# The call of a check in a module's text, with its operands and their types, and the ends of the function that has it.
_CALL = re.compile(r"^ *stablehlo\.custom_call @(check\.expect_\w+)\((.*?)\).* : \((.*)\) -> \(\)\n", re.MULTILINE)
_RESULT_TYPES = re.compile(r"(func\.func public @main\(\)) -> .*? (?=\{$)", re.MULTILINE)
_RETURN = re.compile(r"^ *return .*?(?= *\}|$)", re.MULTILINE)
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


Way = Literal["lift", "embed"]
# The name of a check, what the module computed, and what it says is right.
_Checked = tuple[str, Any, Any]
_STATUSES = ("right", "wrong", "error", "unwritable")
# The line in which a process of one module says what became of it.
_COUNTS = re.compile("^" + ", ".join(rf"(\d+) {status}" for status in _STATUSES) + "$", re.MULTILINE)


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

  Example:
    >>> text = "func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> { return %x : tensor<3xf32> }"
    >>> read(text, via="bytes", version="oldest")
    Module(float32[3]) -> (float32[3])
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


def run_file(path: pathlib.Path, via: str = "text", version: str = "newest", way: Way = "lift") -> Outcome:
  """Returns the outcome of running one module, lifted or embedded.

  Args:
    path: an MLIR text file. An error in reading or running it is an outcome, too.
    via: as for `read`.
    version: as for `read`.
    way: "lift" to run JAX ops, "embed" to run the module as it is.
  """
  try:
    text = path.read_text()
    found = _lifted(read(text, via, version)) if way == "lift" else _embedded(text, via, version)
    # A device can report an error when its results are read.
    results = [(check, np.asarray(actual), np.asarray(expected)) for check, actual, expected in found]
  except VersionError as error:
    return Outcome(path, "unwritable", str(error))
  except Exception as error:  # every failure is an outcome to report
    return Outcome(path, "error", f"{type(error).__name__}: {error}")
  if not results:
    return Outcome(path, "error", "the module checks nothing")
  for check, actual, expected in results:
    problem = compare(check, actual, expected)
    if problem:
      return Outcome(path, "wrong", problem)
  return Outcome(path, "right")


def _lifted(module: Module) -> list[_Checked]:
  checks: list[str] = []
  kept: list[Any] = []

  def expect(op: Any, *operands: Any) -> tuple[()]:
    checks.append(op.attrs["call_target_name"])
    kept.append(operands)
    return ()

  function = lift(module, custom_calls=dict.fromkeys(_CHECKS, expect))

  def run() -> Any:
    checks.clear()
    kept.clear()
    function._run()  # the checks are the results; main's own result repeats one of them
    return [tuple(operands[:2]) for operands in kept]

  results = jax.jit(run)()
  return [(check, *operands) for check, operands in zip(checks, results, strict=True)]


def _embedded(text: str, via: str, version: str) -> list[_Checked]:
  checks, text = return_what_is_checked(text)
  results = list(embed(read(text, via, version), x64="enable")())
  return list(zip(checks, results[::2], results[1::2], strict=True))


def return_what_is_checked(text: str) -> tuple[list[str], str]:
  """Returns the names of a module's checks, and its text with their operands as results in place of the checks.

  An embedded module is opaque, so nothing can run where it calls a check.
  """
  calls = _CALL.findall(text)
  names = ", ".join(operands for _, operands, _ in calls)
  types = ", ".join(kinds for _, _, kinds in calls)
  head, signature, body = text.partition("func.func public @main")
  body = _RESULT_TYPES.sub(rf"\1 -> ({types}) ", signature + _CALL.sub("", body), count=1)
  return [check for check, _, _ in calls], head + _RETURN.sub(f"return {names} : {types}", body, count=1)


def compare(check: str, actual: np.ndarray, expected: np.ndarray) -> str:
  """Returns what differs, or an empty string if the check holds.

  Args:
    check: name of the custom call.
    actual: what the module computed.
    expected: what it says is right; same shape and dtype.

  Example:
    >>> compare("check.expect_close", np.float32([1.0001]), np.float32([1.0]))
    ''
  """
  real = expected.dtype.itemsize // (2 if expected.dtype.kind == "c" else 1)
  tolerance = 0.0 if check == "check.expect_eq" else _TOLERANCE[real]
  return difference(actual, expected, tolerance, tolerance)


def run_folder(
  folder: pathlib.Path, pattern: str = "*.mlir", via: str = "text", version: str = "newest", way: Way = "lift"
) -> Iterator[Outcome]:
  """Yields the outcome of every module of a folder, in order of name.

  Args:
    folder: folders in it are not searched.
    pattern: which of its files, as for `Path.glob`.
    via: as for `read`.
    version: as for `read`.
    way: as for `run_file`.
  """
  for path in sorted(folder.glob(pattern)):
    yield run_file(path, via, version, way)


def _run_alone(path: pathlib.Path, options: Sequence[str]) -> Outcome:
  """Returns the outcome of a module that is the only one of its process."""
  command = [sys.executable, "-m", "graftax.testing.stablehlo_conformance", str(path.parent), *options]
  run = subprocess.run([*command, "--pattern", glob.escape(path.name)], capture_output=True, text=True, check=False)
  counts = _COUNTS.search(run.stdout)
  if counts and run.returncode in (0, 1):
    status = _STATUSES[counts.groups().index("1")]
    return Outcome(path, status, run.stdout.partition(f"{path.name}: ")[2].partition("\n")[0])
  return Outcome(path, "error", f"the process ended with {run.returncode}: {run.stderr[-300:]}")


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
  parser.add_argument("--way", choices=["lift", "embed"], default="lift", help="how to run, default %(default)s")
  parser.add_argument("--processes", type=int, help="run each module in a process of its own, so many at a time")
  arguments = parser.parse_args(argv)
  start = time.perf_counter()
  if arguments.processes:
    options = [f"--{name}={getattr(arguments, name)}" for name in ("via", "version", "way")]
    with multiprocessing.pool.ThreadPool(arguments.processes) as pool:
      run_alone = functools.partial(_run_alone, options=options)
      status = _report(pool.imap(run_alone, sorted(arguments.folder.glob(arguments.pattern))))
  else:
    jax.config.update("jax_enable_x64", True)
    status = _report(run_folder(arguments.folder, arguments.pattern, arguments.via, arguments.version, arguments.way))
  print(f"{time.perf_counter() - start:.0f} s")
  return status


if __name__ == "__main__":
  sys.exit(main())
