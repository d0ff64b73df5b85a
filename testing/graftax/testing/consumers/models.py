"""Writes functions and models of the zoo for a consumer, with their inputs and results."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import jax
import numpy as np

from graftax.convert.rewriting import Consumer
from graftax.graphdef_ir import GraftaxError
from graftax.savedmodel_io import JaxFunction, save, write_stablehlo
from graftax.testing.consumers.functions import CASES, Case
from graftax.testing.differential.oracle import Oracle
from graftax.testing.harness.conversion_case import ConversionCase
from graftax.testing.pytrees import Leaf
from graftax.testing.tensorflow_programs.catalogue import installed_models
from graftax.testing.zoo.saving import saved_copies

__all__ = ["Written", "write_functions", "write_models", "zoo_names"]

Written = tuple[str, Path, str | None]
"""The name of a function, what was written for it, and why it was not."""


def zoo_names() -> list[str]:
  """Returns the names of the models of the zoo that `jit` takes."""
  return [name for name, model in installed_models().items() if "jit" in model.checks]


def write_functions(folder: Path, names: Sequence[str], consumer: Consumer) -> Iterator[Written]:
  """Writes the functions of `functions`."""
  return _written(folder, names, lambda name, path: _write_case(CASES[name], path, consumer))


def write_models(folder: Path, names: Sequence[str], consumer: Consumer) -> Iterator[Written]:
  """Writes models of the zoo, which TensorFlow saved and graftax read as JAX functions."""
  models = installed_models()
  return _written(folder, names, lambda name, path: _write_model(models[name], path, consumer))


def _written(folder: Path, names: Sequence[str], write: Callable[[str, Path], None]) -> Iterator[Written]:
  folder.mkdir(parents=True, exist_ok=True)
  for name in names:
    path = folder / re.sub(r"\W+", "_", name)
    try:
      write(name, path)
    except GraftaxError as e:
      yield name, path, f"{type(e).__name__}: {e}"
    else:
      yield name, path, None


def _write_case(case: Case, path: Path, consumer: Consumer) -> None:
  arrays = {f"x{i}": np.asarray(x) for i, x in enumerate(case.inputs)}

  def function(**inputs: jax.Array) -> dict[str, jax.Array]:
    return {f"y{i}": y for i, y in enumerate(jax.tree.leaves(case.function(*(inputs[name] for name in arrays))))}

  scope = jax.export.SymbolicScope()
  # IREE 3.13 does not compile broadcasts of arrays with open sizes.
  open_shapes = case.shapes if consumer.form != "files" else None
  shapes = open_shapes or [str(tuple(x.shape)).strip("()") for x in arrays.values()]
  specs = {
    name: jax.ShapeDtypeStruct(jax.export.symbolic_shape(shape, scope=scope), x.dtype)
    for shape, (name, x) in zip(shapes, arrays.items(), strict=True)
  }
  _save_results(path, arrays, jax.jit(function)(**arrays))
  _write(path, JaxFunction(function, kwargs=specs), None, consumer)


def _write(path: Path, function: JaxFunction, params: Mapping[str, Leaf] | None, consumer: Consumer) -> None:
  if consumer.form == "files":
    write_stablehlo(path, {"main": function}, params, overwrite=True)
    return
  target = consumer.converter if consumer.form == "tf_ops" else consumer.target
  save(path, {"__call__": function}, params, lowering=consumer.form, target=target, gradient_order=0, overwrite=True)


def _write_model(model: ConversionCase, path: Path, consumer: Consumer) -> None:
  oracle = Oracle(model)
  with saved_copies() as copies, jax.enable_x64(model.x64):
    converted, params = copies.converter.convert(oracle.function, oracle.specs(model.inputs))

    leaves, structure = jax.tree.flatten(model.inputs)
    arrays = {f"x{i}": np.asarray(jax.numpy.asarray(x)) for i, x in enumerate(leaves)}

    def function(values: Mapping[str, Leaf], **inputs: Leaf) -> dict[str, Leaf]:
      results = converted(values, *jax.tree.unflatten(structure, [inputs[name] for name in arrays]))[0]
      return {f"y{i}": y for i, y in enumerate(jax.tree.leaves(results))}

    _save_results(path, arrays, jax.jit(function)(params, **arrays))
    _write(path, JaxFunction(function, kwargs=arrays), dict(params), consumer)


def _save_results(path: Path, inputs: Mapping[str, np.ndarray], results: Mapping[str, Leaf]) -> None:
  arrays = {**inputs, **{name: np.asarray(y) for name, y in results.items()}}
  np.savez(f"{path}.npz", **arrays)  # type: ignore[arg-type]  # numpy has an option of another type
