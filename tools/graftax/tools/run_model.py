"""`graftax run`: a signature applied to arrays from files."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from graftax.convert import AnnotatedFunction
from graftax.graphdef_ir import TensorSpec
from graftax.hub_io import load
from graftax.tools.array_files import check_output_path, fit_to_spec, read_inputs, save_outputs
from graftax.tools.console import progress, remarks, results
from graftax.tools.errors import ArrayFileError

__all__ = ["run_model"]

# Elements of an output up to which it is shown whole.
_NUM_SHOWN = 200


def run_model(
  handle: str | os.PathLike[str],
  inputs: Sequence[str],
  output: Path | None,
  *,
  signature: str | None,
  tags: Sequence[str] | None,
  batch_size: int | None,
  seed: int,
) -> None:
  """Runs a signature once over the inputs and writes or shows its outputs; see the command's help.

  Raises:
    GraftaxError: the model or the inputs are not what they should be.
  """
  arrays = read_inputs(inputs)
  bar = progress()
  task = bar.add_task("", total=None)
  model = load(handle, tags or None, progress=lambda done, total: bar.update(task, completed=done, total=total))
  signature = model.default_entry if signature is None else signature
  specs = model.signatures[signature].inputs
  if output is not None:
    check_output_path(output, list(model.signatures[signature].outputs))
  with bar:
    bar.update(task, description=f"converting {signature}")
    fn, params = model.convert(signature)
  fitted = _fit(arrays, specs, frozenset(model.signatures[signature].defaults))
  outputs = _run(fn, params, [fitted] if batch_size is None else _batches(fitted, specs, batch_size), seed)
  if output is None:
    _show(outputs)
    return
  for note in save_outputs(output, outputs):
    _note(note)
  shapes = ", ".join(f"{name} {value.dtype.name}{list(value.shape)}" for name, value in outputs.items())
  remarks().print(f"{output}: {shapes}", markup=False)


def _fit(
  arrays: Mapping[str, np.ndarray], specs: Mapping[str, TensorSpec], optional: frozenset[str]
) -> dict[str, np.ndarray]:
  unknown = sorted(set(arrays) - set(specs))
  missing = sorted(set(specs) - set(arrays) - optional)
  if unknown or missing:
    listing = ", ".join(f"{name}: {spec}" for name, spec in specs.items())
    raise ArrayFileError(
      f"the inputs do not fit the signature; missing {missing}, unknown {unknown}. It takes {listing}. "
      f"Pass each as --input NAME=FILE.npy."
    )
  fitted = {}
  for name, array in arrays.items():
    if not isinstance(specs[name], TensorSpec):
      raise ArrayFileError(f"input {name!r} takes a {type(specs[name]).__name__}, which no file of arrays holds.")
    fitted[name], note = fit_to_spec(name, array, specs[name])
    if note:
      _note(note)
  return fitted


def _batches(
  arrays: Mapping[str, np.ndarray], specs: Mapping[str, TensorSpec], batch_size: int
) -> list[dict[str, np.ndarray]]:
  fixed = [name for name in arrays if not specs[name].shape.rank or (specs[name].shape.dims or ())[0] is not None]
  if fixed:
    raise ArrayFileError(f"--batch-size: the first dimension of {fixed} is fixed, so the input cannot be split.")
  sizes = {name: array.shape[0] for name, array in arrays.items()}
  if len(set(sizes.values())) != 1:
    raise ArrayFileError(f"--batch-size: the first dimensions of the inputs differ: {sizes}.")
  (total,) = set(sizes.values())
  starts = range(0, max(total, 1), batch_size)
  return [{name: array[start : start + batch_size] for name, array in arrays.items()} for start in starts]


def _run(
  fn: AnnotatedFunction, params: Mapping[str, Any], batches: Sequence[Mapping[str, np.ndarray]], seed: int
) -> dict[str, np.ndarray]:
  assigned: list[str] = []

  @jax.jit
  def call(params: Mapping[str, Any], rng: jax.Array, inputs: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
    outputs, new_params = fn(params, **{fn.rng_name: rng}, **inputs)
    # Parameters that were not assigned come back as the very objects that were given.
    assigned[:] = [name for name in new_params if new_params[name] is not params[name]]
    return outputs

  key = jax.random.key(seed)
  placed = jax.device_put({name: np.asarray(value) for name, value in params.items()})
  parts = []
  with progress() as bar:
    for index, batch in enumerate(bar.track(batches, description="running")):
      outputs = call(placed, jax.random.fold_in(key, index), dict(batch))
      parts.append({name: np.asarray(value) for name, value in outputs.items()})
  if assigned:
    _note(f"the signature assigns the variables {assigned}; their new values are not kept")
  return parts[0] if len(parts) == 1 else _concatenated(parts)


def _concatenated(parts: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
  for name, value in parts[0].items():
    if not value.ndim:
      raise ArrayFileError(
        f"--batch-size: output {name!r} is a scalar, so the outputs of several batches cannot be joined."
      )
  return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _show(outputs: Mapping[str, np.ndarray]) -> None:
  for name, value in outputs.items():
    results().print(f"{name} {value.dtype.name}{list(value.shape)}", style="bold", markup=False)
    results().print(np.array2string(value, threshold=_NUM_SHOWN, precision=6, suppress_small=True), markup=False)


def _note(text: str) -> None:
  remarks().print(f"note: {text}", style="yellow", markup=False)
