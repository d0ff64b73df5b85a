"""Example inputs of models that are split: from files, or made up."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from graftax.graphdef_ir import DType, TensorSpec
from graftax.savedmodel_io import Signature
from graftax.tools.errors import ArrayFileError
from graftax.tools.inputs.array_files import fit_to_spec, read_inputs

__all__ = ["check_made_up", "example_inputs", "has_text", "stored_array"]

# They differ in their lengths, so that sizes that depend on text differ too.
_TEXTS = (b"the quick brown fox", b"hello", b"A model of text: words, numbers such as 12, and (more) punctuation.")
_OTHER_SIZE = 4
_MOST_MADE_UP = 1 << 27
_MOST_NAME_BYTES = 1 << 12


def has_text(signature: Signature) -> bool:
  """Returns whether an input or an output is text."""
  return any(map(_is_text, (*signature.inputs.values(), *signature.outputs.values())))


def example_inputs(signature: Signature, files: Sequence[str]) -> dict[str, np.ndarray]:
  """Returns an array for each input of a signature.

  Args:
    signature: the signature.
    files: `--input` options, as for `graftax run`. Inputs that have none are made up.

  Raises:
    ArrayFileError: a file cannot be read or does not fit the signature, or an input without one cannot be made up.
  """
  specs = signature.inputs
  named = {file.partition("=")[0] for file in files if "=" in file and not Path(file).exists()}
  if unknown := sorted(named - set(specs)):
    raise ArrayFileError(f"--input: no inputs {unknown}; the signature has {list(specs)}.")
  given = read_inputs(files, [name for name, spec in specs.items() if _is_text(spec)])
  unknown = sorted(set(given) - set(specs))
  if unknown:
    raise ArrayFileError(f"--input: no inputs {unknown}; the signature has {list(specs)}.")
  found: dict[str, np.ndarray] = {}
  for name, array in given.items():
    spec = specs[name]
    if not isinstance(spec, TensorSpec):
      raise ArrayFileError(f"input {name!r} takes a {type(spec).__name__}, which no file of arrays holds.")
    found[name], _ = fit_to_spec(name, array, spec)
  rows = next((len(array) for array in found.values() if array.ndim), len(_TEXTS))
  for seed, (name, spec) in enumerate(specs.items()):
    if name not in found and name not in signature.defaults:
      found[name] = _made_up(name, spec, rows, seed)
  return {name: found[name] for name in specs if name in found}


def check_made_up(name: str, shape: Sequence[int]) -> None:
  """Raises if an example that is made up would be too large.

  Raises:
    ArrayFileError: the model says so.
  """
  if math.prod(shape) > _MOST_MADE_UP:
    raise ArrayFileError(f"input {name!r:.80} of the shape {list(shape)}: is too large for an example that is made up.")


def stored_array(kind: str, name: str, array: np.ndarray) -> tuple[str, np.ndarray]:
  """Returns the key and the value with which an .npz file holds an array, also one of strings, for `check.py`.

  Raises:
    ArrayFileError: no such file holds an array of this name.
  """
  if "\0" in name or len(name.encode()) > _MOST_NAME_BYTES:
    raise ArrayFileError(f"{kind} {name!r:.80}: a name with a zero byte or of more than {_MOST_NAME_BYTES} bytes.")
  if array.dtype != object:
    return f"{kind}/{array.dtype.name}/{name}", array
  # NumPy drops zeros at the end of strings.
  items = [bytes(item) + b"." for item in array.reshape(-1).tolist()]
  return f"{kind}/bytes/{name}", np.array(items, np.bytes_).reshape(array.shape)


def _is_text(spec: object) -> bool:
  return isinstance(spec, TensorSpec) and spec.dtype is DType.STRING


def _made_up(name: str, spec: object, rows: int, seed: int) -> np.ndarray:
  if not isinstance(spec, TensorSpec) or spec.shape.dims is None:
    raise ArrayFileError(f"input {name!r}: its shape is not known. Pass --input {name}=FILE.")
  shape = [size if size is not None else _OTHER_SIZE if axis else rows for axis, size in enumerate(spec.shape.dims)]
  check_made_up(name, shape)
  rng = np.random.default_rng(seed)
  if _is_text(spec):
    array = np.empty(shape, object)
    for i, index in enumerate(np.ndindex(*shape)):
      array[index] = _TEXTS[i % len(_TEXTS)]
    return array
  dtype = spec.dtype.numpy
  if dtype.kind in "biu":
    return rng.integers(0, 2, shape).astype(dtype)
  return rng.normal(size=shape).astype(dtype)
