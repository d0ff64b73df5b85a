"""Writes JAX functions as plain ops, converts and runs them in other runtimes, and prints a table."""

import argparse
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import jax
import numpy as np

from graftax.graphdef_ir import GraftaxError
from graftax.savedmodel_io import save
from graftax.testing.harness.scripts import run_script
from graftax.testing.plain_consumers.functions import CASES, Case

_HERE = Path(__file__).parent
_CONSUMERS = ("tflite", "onnx", "tfjs")
# For each consumer the distributions whose versions the table shows.
_DISTRIBUTIONS = {
  "tflite": ("tensorflow_cpu",),
  "onnx": ("tf2onnx", "onnxruntime", "tensorflow_cpu"),
  "tfjs": ("tensorflowjs", "tensorflow_cpu"),
}


def _write(case: Case, path: Path, target: str) -> None:
  """Writes a function as plain ops, and its inputs and results beside it."""

  def function(*args: jax.Array) -> dict[str, jax.Array]:
    return {f"y{i}": y for i, y in enumerate(jax.tree.leaves(case.function(*args)))}

  arrays = {f"x{i}": np.asarray(x) for i, x in enumerate(case.inputs)}
  scope = jax.export.SymbolicScope()
  shapes = case.shapes or [str(tuple(x.shape)).strip("()") for x in arrays.values()]
  specs = [
    jax.ShapeDtypeStruct(jax.export.symbolic_shape(shape, scope=scope), x.dtype)
    for shape, x in zip(shapes, arrays.values(), strict=True)
  ]
  named = {1: lambda x0: function(x0), 2: lambda x0, x1: function(x0, x1), 3: lambda x0, x1, x2: function(x0, x1, x2)}
  save(path, (named[len(specs)], *specs), lowering="tf_ops", target=target, gradient_order=0, overwrite=True)
  results = {name: np.asarray(y) for name, y in jax.jit(function)(*arrays.values()).items()}
  np.savez(f"{path}.npz", **arrays, **results)  # type: ignore[arg-type]  # numpy has an option of another type


def _write_all(folder: Path, names: Sequence[str], target: str) -> Iterator[tuple[str, Path, str | None]]:
  """Yields each function's name, its model, and why it was not written."""
  folder.mkdir(parents=True, exist_ok=True)
  for name in names:
    path = folder / re.sub(r"\W+", "_", name)
    try:
      _write(CASES[name], path, target)
    except GraftaxError as e:
      yield name, path, f"{type(e).__name__}: {e}"
    else:
      yield name, path, None


def _run(python: str, consumer: str, paths: Sequence[Path]) -> dict[Path, str | None]:
  """Returns what went wrong with each model, and None for those that are right."""
  rows = run_script(python, _HERE / f"run_{consumer}.py", paths)
  return {path: None if row["right"] else row["error"] for path, row in rows.items()}


def _versions(python: str, consumer: str) -> str:
  names = ", ".join(f"'{name} ' + version('{name}')" for name in _DISTRIBUTIONS[consumer])
  code = f"from importlib.metadata import version; print({names}, sep=', ')"
  done = subprocess.run([python, "-c", code], check=True, capture_output=True, text=True)
  return done.stdout.strip()


def _outcome(error: str | None) -> str:
  if error is None:
    return "right"
  return error.partition(":")[0] if error.startswith(("refused", "wrong")) else "failed"


def _print_table(names: Sequence[str], found: Mapping[str, Mapping[str, str | None]]) -> None:
  print(f"| function | {' | '.join(found)} |\n| --- |{' --- |' * len(found)}")
  problems = []
  for name in names:
    print(f"| {name} | {' | '.join(_outcome(errors[name]) for errors in found.values())} |")
    problems += [f"{name}: {consumer}: {errors[name]}" for consumer, errors in found.items() if errors[name]]
  right = [sum(error is None for error in errors.values()) for errors in found.values()]
  print(f"| right of {len(names)} | {' | '.join(map(str, right))} |\n")
  print("\n".join(problems))


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument("folder", type=Path)
  for consumer in _CONSUMERS:
    parser.add_argument(f"--{consumer}", help="a Python with its converter")
  parser.add_argument("--only", action="append", help="the name of a function; by default all")
  arguments = parser.parse_args()
  names = arguments.only or list(CASES)
  found: dict[str, dict[str, str | None]] = {}
  for consumer in _CONSUMERS:
    if python := getattr(arguments, consumer):
      print(f"{consumer}: {_versions(python, consumer)}", flush=True)
      written = list(_write_all(arguments.folder / consumer, names, consumer))
      errors = _run(python, consumer, [path for _, path, refusal in written if refusal is None])
      found[consumer] = {
        name: errors[path] if refusal is None else f"refused: {refusal}" for name, path, refusal in written
      }
  _print_table(names, found)


if __name__ == "__main__":
  main()
