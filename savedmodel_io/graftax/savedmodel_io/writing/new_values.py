"""The checkpoint of a model whose variables get new values: which tensor takes its bytes from where."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import EllipsisType

import jax
import numpy as np
from jax import numpy as jnp

from graftax.graphdef_ir import DType
from graftax.savedmodel_io.checkpoint.partition import Bounds
from graftax.savedmodel_io.checkpoint.reader import CheckpointReader
from graftax.savedmodel_io.checkpoint.tensor_entry import TensorEntry
from graftax.savedmodel_io.checkpoint.tensor_slice import TensorSlice
from graftax.savedmodel_io.errors import UnsupportedCheckpointError, VariableValueError
from graftax.savedmodel_io.pytrees import Leaf
from graftax.savedmodel_io.variables.variables import VariableInfo, Variables
from graftax.savedmodel_io.writing.bundles.array_bytes import cast_array
from graftax.savedmodel_io.writing.bundles.part_sources import ArraySource, PartSource
from graftax.savedmodel_io.writing.bundles.stored_tensor import Array, StoredTensor, array_of, array_parts, string_part

__all__ = ["tensors_with_new_values"]


@dataclass(frozen=True, slots=True)
class _NewValue:
  """A value for a variable.

  Attributes:
    what: the variable, for messages.
    array: its new value.
    bounds: the part of the checkpoint's tensor that it replaces, as (start, stop) per dimension.
    is_whole: whether that is all of the tensor, rather than a piece of a partitioned variable.
  """

  what: str
  array: Array
  bounds: Bounds
  is_whole: bool


def tensors_with_new_values(
  variables: Variables, checkpoint: CheckpointReader | None, params: Mapping[str, Leaf], *, cast: bool
) -> dict[str, StoredTensor]:
  """Returns all tensors of a model's checkpoint, by key, with new values for some variables.

  Tensors keep their keys, types and slices. A tensor that was stored whole and whose new value is a sharded `jax.Array`
  is stored by shard. Nothing but strings is read from the old checkpoint before the tensors are written.

  Args:
    variables: the variables of the model.
    checkpoint: its checkpoint; None if it has none.
    params: variable name -> new value.
    cast: convert values of another precision to the variable's.

  Raises:
    UnknownNameError: there is no variable of a name.
    TensorValueError: a value is not an array.
    VariableValueError: a value does not fit its variable, or the saved files have no place for it.
    UnsupportedCheckpointError: the old checkpoint is of format 1, or holds a tensor that cannot be copied.
  """
  new_values: dict[str, list[_NewValue]] = {}
  for name, value in params.items():
    info = variables.info(name)
    array = _checked(info, array_of(value, f"the value of variable {name!r}"), cast=cast)
    if checkpoint is None or info.checkpoint_key is None:
      _check_unchanged(info, array)
      continue
    bounds = _bounds(info, array, checkpoint.entry(info.checkpoint_key))
    new_value = _NewValue(f"variable {name!r}", array, bounds, is_whole=info.part is None)
    new_values.setdefault(info.checkpoint_key, []).append(new_value)
  if checkpoint is None:
    return {}
  if checkpoint.format != 2:
    raise UnsupportedCheckpointError(
      f"{checkpoint.path_prefix}: a checkpoint in format 1, which we do not write; save the model with TensorFlow once"
    )
  for values in new_values.values():
    _check_agreement(values)
  return {key: _new_tensor(entry, new_values.get(key, ()), checkpoint) for key, entry in checkpoint.entries.items()}


def _checked(info: VariableInfo, array: Array, *, cast: bool) -> Array:
  """Returns the value, if its element type is the variable's or may be cast to it; raises otherwise."""
  wanted = info.dtype.base.numpy
  if array.dtype == wanted:
    return array
  problem = f"variable {info.name!r} is {wanted.name}, but its new value is {array.dtype.name}"
  if "O" in (array.dtype.kind, wanted.kind):
    raise VariableValueError(f"{problem}; expected {'strings' if wanted.kind == 'O' else 'numbers'}")
  if not _same_kind(array.dtype, wanted):
    raise VariableValueError(f"{problem}, which is not a number of the same kind; convert it with astype")
  if not cast:
    raise VariableValueError(f"{problem}; pass cast=True to convert it, or a value of type {wanted.name}")
  return array


def _same_kind(a: np.dtype, b: np.dtype) -> bool:
  kinds = (jnp.integer, jnp.floating, jnp.complexfloating)
  return any(jnp.issubdtype(a, kind) and jnp.issubdtype(b, kind) for kind in kinds)


def _check_unchanged(info: VariableInfo, array: Array) -> None:
  """Raises if a variable without a place in the checkpoint would change.

  It starts from a constant of the graph, which is copied as it is.
  """
  if info.initial_value is not None and _same(np.asarray(array), info.initial_value.numpy()):
    return
  start = "no value" if info.initial_value is None else "a constant of the graph, which is not changed,"
  raise VariableValueError(
    f"variable {info.name!r} cannot get a new value: the saved files hold {start} and no tensor for it. Leave it out "
    "of params."
  )


def _bounds(info: VariableInfo, array: Array, entry: TensorEntry) -> Bounds:
  """Returns the part of the stored tensor that a value replaces: all of it, or a piece of a partitioned variable."""
  if info.part is not None:
    bounds = info.part.bounds(entry.shape)
    fits = array.shape == tuple(stop - start for start, stop in bounds)
    expected = f"{[stop - start for start, stop in bounds]}, a part of {entry.key!r}"
  else:
    bounds = tuple((0, dim) for dim in array.shape)
    # A variable with an open dimension may grow, unless it is cut in slices, which would not cover it.
    fits = array.shape == entry.shape or (not entry.slices and info.shape.is_compatible_with(array.shape))
    expected = str(list(entry.shape) if entry.slices else info.shape)
  if not fits:
    raise VariableValueError(
      f"variable {info.name!r} has shape {expected}, but its new value has shape {list(array.shape)}"
    )
  return bounds


def _check_agreement(values: list[_NewValue]) -> None:
  """Raises if two variables that are restored from one tensor have different values."""
  for i, first in enumerate(values):
    for second in values[i + 1 :]:
      shared = _intersection(first.bounds, second.bounds)
      if shared is not None and not _same(*(np.asarray(_region(v, shared)) for v in (first, second))):
        raise VariableValueError(
          f"{first.what} and {second.what} are stored as one tensor, but their new values differ; pass one of them"
        )


def _same(a: np.ndarray, b: np.ndarray) -> bool:
  if a.shape != b.shape or a.dtype != b.dtype:
    return False
  return a.tolist() == b.tolist() if a.dtype == object else a.tobytes() == b.tobytes()


def _new_tensor(entry: TensorEntry, values: Iterable[_NewValue], checkpoint: CheckpointReader) -> StoredTensor:
  whole = next((value for value in values if value.is_whole), None)
  if whole is not None and not entry.slices:
    if entry.dtype == DType.STRING:
      return StoredTensor(entry.dtype, whole.array.shape, ((None, string_part(np.asarray(whole.array), whole.what)),))
    return StoredTensor(entry.dtype, whole.array.shape, array_parts(whole.array, entry.dtype.numpy, whole.what))
  slices: tuple[TensorSlice | None, ...] = entry.slices or (None,)
  parts = tuple((part, _part_source(entry, part, list(values), checkpoint)) for part in slices)
  return StoredTensor(entry.dtype, entry.shape, parts)


def _part_source(
  entry: TensorEntry, part: TensorSlice | None, values: list[_NewValue], checkpoint: CheckpointReader
) -> PartSource:
  """The source of one stored slice: a region of a new value, the old bytes, or the old bytes with new ones in them."""
  bounds = tuple((0, dim) for dim in entry.shape) if part is None else part.bounds(entry.shape)
  read = _reader(entry, bounds, values, checkpoint)
  what = f"tensor {entry.key!r}"
  if entry.dtype == DType.STRING:
    return string_part(np.asarray(read()), what)
  return ArraySource(read, tuple(stop - start for start, stop in bounds), entry.dtype.numpy, what)


def _reader(
  entry: TensorEntry, bounds: Bounds, values: list[_NewValue], checkpoint: CheckpointReader
) -> Callable[[], Array]:
  overlaps = [(v, shared) for v in values if (shared := _intersection(v.bounds, bounds)) is not None]
  for value, shared in overlaps:
    if shared == bounds:
      return lambda: _region(value, bounds)

  def read() -> np.ndarray:
    old = checkpoint.read_region(entry.key, _slices(bounds), verify=True)
    if not overlaps:
      return old
    merged = np.array(old)
    for value, shared in overlaps:
      merged[_slices(_relative(shared, bounds))] = cast_array(np.asarray(_region(value, shared)), merged.dtype)
    return merged

  return read


def _region(value: _NewValue, bounds: Bounds) -> Array:
  """A part of a new value; `bounds` are positions in the checkpoint's tensor. Gathers no more of a sharded array."""
  region = _slices(_relative(bounds, value.bounds))
  if not isinstance(value.array, jax.Array):
    # The ellipsis keeps a scalar an array.
    indices: tuple[slice | EllipsisType, ...] = (*region, ...)
    return value.array[indices]
  for shard in value.array.addressable_shards:
    index = tuple(part.indices(dim)[:2] for part, dim in zip(shard.index, value.array.shape, strict=True))
    if _slices(index) == region:
      return shard.data
  return np.asarray(value.array[region])


def _intersection(a: Bounds, b: Bounds) -> Bounds | None:
  shared = tuple((max(s1, s2), min(e1, e2)) for (s1, e1), (s2, e2) in zip(a, b, strict=True))
  return shared if all(start < stop for start, stop in shared) else None


def _relative(bounds: Bounds, origin: Bounds) -> Bounds:
  return tuple((start - low, stop - low) for (start, stop), (low, _) in zip(bounds, origin, strict=True))


def _slices(bounds: Bounds) -> tuple[slice, ...]:
  return tuple(slice(start, stop) for start, stop in bounds)
