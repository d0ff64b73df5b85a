"""`graftax run`: a signature applied to arrays from files."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import jax
import numpy as np

from graftax.convert import BoundedArray, ConvertOptions, Split, compiler_options
from graftax.graphdef_ir import DType, TensorSpec
from graftax.hub_io import load
from graftax.savedmodel_io import SavedModel
from graftax.tools.console import progress, remarks, results
from graftax.tools.errors import ArrayFileError, CommandError
from graftax.tools.inputs.array_files import check_output_path, fit_to_spec, read_inputs, save_outputs
from graftax.tools.pytrees import Leaf, PyTree

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
  max_sizes: Mapping[str, int] | None = None,
  run_head_with: Literal["numpy", "tensorflow"] = "numpy",
  load_options: Mapping[str, Any] | None = None,
  force: bool = False,
  with_compiler_options: bool = True,
) -> None:
  """Runs a signature once over the inputs and writes or shows its outputs; see the command's help.

  Raises:
    GraftaxError: the model or the inputs are not what they should be.
  """
  bar = progress()
  task = bar.add_task("", total=None)
  model = load(
    handle,
    tags or None,
    progress=lambda done, total: bar.update(task, completed=done, total=total),
    **(load_options or {}),
  )
  signature = model.default_entry if signature is None else signature
  specs = model.signatures[signature].inputs
  arrays = read_inputs(inputs, [name for name, spec in specs.items() if _is_text(spec)])
  if output is not None:
    check_output_path(output, list(model.signatures[signature].outputs), force=force)
  with bar:
    bar.update(task, description=f"converting {signature}")
    parts = _parts(model, signature, ConvertOptions(max_sizes=max_sizes or None), run_head_with)
  fitted = _fit(arrays, specs, frozenset(model.signatures[signature].defaults))
  outputs = _run(
    parts, [fitted] if batch_size is None else _batches(fitted, specs, batch_size), seed, with_compiler_options
  )
  if output is None:
    _show(outputs)
    return
  for note in save_outputs(output, outputs):
    _note(note)
  shapes = ", ".join(f"{name} {value.dtype.name}{list(value.shape)}" for name, value in outputs.items())
  remarks().print(f"{output}: {shapes}", markup=False)


def _is_text(spec: Leaf) -> bool:
  return isinstance(spec, TensorSpec) and spec.dtype is DType.STRING


def _parts(
  model: SavedModel, signature: str, options: ConvertOptions, run_head_with: Literal["numpy", "tensorflow"]
) -> "Split | _Parts":
  """Returns a signature in parts for host and device; without strings, it is all for the device."""
  entry = model.signatures[signature]
  if any(map(_is_text, (*entry.inputs.values(), *entry.outputs.values()))):
    return model.split(entry, options=options, run_head_with=run_head_with)
  fn, params = model.convert(entry, options=options)

  def body(params: Mapping[str, Leaf], inputs: Mapping[str, Leaf], *, rng: jax.Array) -> PyTree:
    return fn(params, **{fn.rng_name: rng}, **inputs)

  return _Parts(lambda **inputs: (inputs,), body, params, lambda result: result[0])


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


class _Parts(NamedTuple):
  """A signature in the form of a `Split`, if nothing of it is for the host."""

  head: Callable[..., tuple[Leaf, ...]]
  body: Callable[..., Any]
  params: Mapping[str, Leaf]
  tail: Callable[[PyTree], PyTree]


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
  parts: "Split | _Parts", batches: Sequence[Mapping[str, np.ndarray]], seed: int, with_compiler_options: bool
) -> dict[str, np.ndarray]:
  assigned: list[str] = []
  head, body, params, tail = parts

  @jax.jit
  def call(params: Mapping[str, Leaf], rng: jax.Array, tensors: Sequence[Leaf]) -> PyTree:
    results, new_params = body(params, *tensors, rng=rng)
    # Parameters that were not assigned come back as the very objects that were given.
    assigned[:] = [name for name in new_params if new_params[name] is not params[name]]
    return results

  compiled: dict[Any, Callable[..., Any]] = {}

  def compiled_for(*args: PyTree) -> Callable[..., Any]:
    # The last batch may be smaller than the others.
    shapes = (jax.tree.structure(args), *map(np.shape, jax.tree.leaves(args)))
    if shapes not in compiled:
      traced = call.trace(*args)
      options = compiler_options(program=traced.jaxpr) if with_compiler_options else {}
      compiled[shapes] = traced.lower().compile(compiler_options=options)
    return compiled[shapes]

  key = jax.random.key(seed)
  placed = jax.device_put({name: np.asarray(value) for name, value in params.items()})
  done = []
  with progress() as bar:
    for index, batch in enumerate(bar.track(batches, description="running")):
      args = (placed, jax.random.fold_in(key, index), head(**batch))
      results = compiled_for(*args)(*args)
      outputs = tail((results, {}))
      done.append({name: _array(name, value) for name, value in outputs.items()})
  if assigned:
    _note(f"the signature assigns the variables {assigned}; their new values are not kept")
  return done[0] if len(done) == 1 else _concatenated(done)


def _array(name: str, value: Leaf) -> np.ndarray:
  """Returns an output as an array; one whose size depends on data is cut to its length."""
  if isinstance(value, BoundedArray) and bool(value.overflowed):
    raise CommandError(f"output {name!r} has more elements than --max-size allows; raise the bound.")
  return np.asarray(value)


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
