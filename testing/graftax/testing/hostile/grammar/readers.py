"""What a user does with a file: loads it, converts what it holds, and calls it with small inputs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from graftax import xla_call_module
from graftax.graphdef_ir import DType, TensorSpec
from graftax.savedmodel_io import CheckpointReader, SavedModel, load, read_orbax, read_safetensors, read_weights
from graftax.testing.pytrees import Leaf

__all__ = [
  "example",
  "use_archive",
  "use_checkpoint",
  "use_model",
  "use_module",
  "use_orbax",
  "use_safetensors",
  "use_split",
  "use_weights",
]

_UNKNOWN_SIZE = 2
_MOST_ELEMENTS = 1 << 20


def example(spec: Leaf) -> Leaf:
  """Returns a small input for a spec: 2 for each unknown size; None if it would be large."""
  if not isinstance(spec, TensorSpec):
    return None
  shape = spec.shape.dims if spec.shape.dims is not None else ()
  sizes = [_UNKNOWN_SIZE if size is None else size for size in shape]
  if np.prod([float(size) for size in sizes]) > _MOST_ELEMENTS:
    return None
  if spec.dtype is DType.STRING:
    return np.full(sizes, b"a", object)
  return np.ones(sizes, spec.dtype.numpy)


def use_model(path: Path, *, jit: bool = False) -> dict[str, Leaf]:
  """Loads a model and calls every signature and function of it; returns their results by name."""
  model = load(path)
  results: dict[str, Leaf] = {name: np.asarray(value) for name, value in model.variables.items()}
  results |= {
    "assets": {name: str(file) for name, file in model.assets.items()},
    "fingerprint": repr(model.fingerprint),
  }
  results["resources"] = sorted(model.resources)
  for name, signature in model.signatures.items():
    fn, params = model.convert(signature)
    inputs = {key: example(spec) for key, spec in signature.inputs.items()}
    if all(value is not None for value in inputs.values()):
      outputs, _ = (jax.jit(fn) if jit else fn)(params, **inputs)
      results[name] = {"inputs": inputs, "outputs": jax.tree.map(_array, outputs)}
  _use_functions(model, results)
  return results


def _use_functions(model: SavedModel, results: dict[str, Leaf]) -> None:
  for path in model.functions:
    for concrete in model.functions[path].concrete_functions:
      inputs = [example(spec) for spec in concrete.input_specs]
      if all(value is not None for value in inputs) and not concrete.kwargs:
        fn, params = model.convert(path, *concrete.args)
        results[path] = jax.tree.map(_array, fn(params, *inputs)[0])


def use_split(path: Path, inputs: Mapping[str, Leaf] | None = None) -> dict[str, Leaf]:
  """Loads a model, splits each signature into the work of the host and of JAX, and calls the parts."""
  model = load(path)
  results = {}
  for name, signature in model.signatures.items():
    head, body, params, tail = model.split(signature)
    values = dict(inputs) if inputs is not None else {key: example(spec) for key, spec in signature.inputs.items()}
    results[name] = jax.tree.map(_array, tail(body(params, *head(**values))))
  return results


def _array(value: Leaf) -> Leaf:
  return np.asarray(value) if isinstance(value, jax.Array) else value


def use_checkpoint(prefix: Path) -> dict[str, np.ndarray]:
  """Reads every tensor of a checkpoint."""
  reader = CheckpointReader(prefix)
  return {key: np.array(reader[key]) for key in reader}


def use_weights(path: Path) -> dict[str, np.ndarray]:
  """Reads a file of Keras."""
  return {name: np.array(value) for name, value in read_weights(path).items()}


def use_safetensors(path: Path) -> dict[str, np.ndarray]:
  """Reads a safetensors file, or the index of several."""
  return {name: np.array(value) for name, value in read_safetensors(path).items()}


def use_orbax(path: Path) -> dict[str, np.ndarray]:
  """Reads a checkpoint of Orbax."""
  return {name: np.array(value) for name, value in read_orbax(path).items()}


def use_archive(path: Path, cache: Path) -> dict[str, Leaf]:
  """Unpacks an archive of a hub module and calls what is in it."""
  import os

  from graftax.hub_io import load as load_module

  os.environ["TFHUB_CACHE_DIR"] = str(cache)
  module = load_module(str(path))
  fn, params = module.convert()
  return {"params": {name: np.asarray(value) for name, value in params.items()}, "fn": str(fn)}


def use_module(module: xla_call_module.Module, *, embed: bool = False, jit: bool = False) -> tuple[np.ndarray, ...]:
  """Lifts or embeds a StableHLO module and calls it."""
  arguments = []
  for spec in module.inputs:
    sizes = [_UNKNOWN_SIZE if size is None else size for size in spec.shape]
    if np.prod([float(size) for size in sizes]) > _MOST_ELEMENTS:
      return ()
    arguments.append(np.ones(sizes, spec.dtype))
  function: Any = xla_call_module.embed(module) if embed else xla_call_module.lift(module)
  outputs = (jax.jit(function) if jit else function)(*arguments)
  return tuple(np.asarray(y) for y in outputs)
