"""Values as tensors to store: which element type and shape they have, and in which parts they are written."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import jax
import numpy as np

from graftax.graphdef_ir import DType
from graftax.graphdef_ir.errors import UnsupportedError
from graftax.savedmodel_io.checkpoint.tensor_slice import TensorSlice
from graftax.savedmodel_io.errors import TensorValueError
from graftax.savedmodel_io.writing.bundles.part_sources import ArraySource, PartSource, make_string_source

__all__ = ["Array", "StoredTensor", "array_of", "array_part", "array_parts", "stored_tensor", "string_part"]

Array: TypeAlias = np.ndarray | jax.Array


@dataclass(frozen=True, slots=True)
class StoredTensor:
  """A tensor to write.

  Attributes:
    dtype: element type.
    shape: shape of the whole tensor.
    parts: slices and where their bytes come from; a tensor stored whole has one part, whose slice is None.
  """

  dtype: DType
  shape: tuple[int, ...]
  parts: tuple[tuple[TensorSlice | None, PartSource], ...]


def stored_tensor(value: object, what: str) -> StoredTensor:
  """Returns a value as the tensor to store. A `jax.Array` that is sharded is stored as one slice per shard.

  Args:
    value: see `array_of`.
    what: what the value is, for messages, such as `"tensor 'w'"`.

  Raises:
    TensorValueError: the value cannot be stored.
  """
  array = array_of(value, what)
  if array.dtype == object:
    return StoredTensor(DType.STRING, array.shape, ((None, string_part(np.asarray(array), what)),))
  return StoredTensor(_dtype(array, what), array.shape, array_parts(array, array.dtype, what))


def array_of(value: object, what: str) -> Array:
  """Returns a value as a `jax.Array`, a numpy array of numbers, or an object array of `bytes` or `str`.

  Args:
    value: a numpy or JAX array, anything with dtype, shape and `__array__`, or a string.
    what: what the value is, for messages.

  Raises:
    TensorValueError: the value is something else, or an array whose elements cannot be had.
  """
  if isinstance(value, bytes | str):
    return np.array(value, object)
  if isinstance(value, jax.Array):
    return _checked_jax_array(value, what)
  if isinstance(value, np.ma.MaskedArray):
    raise TensorValueError(f"{what} is a masked array, and checkpoints store no masks; pass value.filled(...)")
  if isinstance(value, np.ndarray | np.generic) or all(hasattr(value, a) for a in ("__array__", "dtype", "shape")):
    array = np.asarray(value)
    return array.astype(object) if array.dtype.kind in "SU" else array
  raise TensorValueError(
    f"{what} is {value!r:.80} of type {type(value).__name__}; expected a numpy or JAX array, or bytes. A Python number "
    "has no dtype: pass np.float32(...) or np.int64(...)."
  )


def array_parts(array: Array, dtype: np.dtype, what: str) -> tuple[tuple[TensorSlice | None, PartSource], ...]:
  """Returns the parts of an array of numbers: its shards if it is a sharded `jax.Array`, otherwise all of it."""
  if not isinstance(array, jax.Array):
    return ((None, array_part(array, dtype, what)),)
  shards = [shard for shard in array.addressable_shards if shard.replica_id == 0]
  if len(shards) == 1 or not array.size:
    return ((None, array_part(shards[0].data, dtype, what)),)
  return tuple((_slice(shard.index, array.shape), array_part(shard.data, dtype, what)) for shard in shards)


def array_part(array: Array, dtype: np.dtype, what: str) -> ArraySource:
  """Returns the source of an array of numbers that lies on one device, to be written as `dtype`."""
  return ArraySource(lambda: array, array.shape, dtype, what)


def string_part(array: np.ndarray, what: str) -> PartSource:
  """Returns the source of an object array of strings.

  Raises:
    TensorValueError: an element is something else.
  """
  strings = []
  for string in array.ravel().tolist():
    if isinstance(string, str):
      string = string.encode()
    if not isinstance(string, bytes):
      raise TensorValueError(
        f"{what} is an array of objects with the element {string!r:.80}; expected only bytes or str in it"
      )
    strings.append(string)
  return make_string_source(tuple(strings))


def _checked_jax_array(array: jax.Array, what: str) -> jax.Array:
  if isinstance(array, jax.core.Tracer):
    raise TensorValueError(f"{what} is traced by a JAX transformation and has no value yet; write it outside of jit")
  if jax.numpy.issubdtype(array.dtype, jax.dtypes.extended):
    raise TensorValueError(f"{what} is of type {array.dtype}; store jax.random.key_data(key) instead of a key")
  if array.is_deleted():
    raise TensorValueError(f"{what} was deleted, for example since it was donated to a jitted function")
  if not array.is_fully_addressable:
    raise TensorValueError(
      f"{what} has shards on devices of other processes; gather it first, for example with "
      "jax.experimental.multihost_utils.process_allgather"
    )
  return array


def _dtype(array: Array, what: str) -> DType:
  try:
    return DType.from_numpy(array.dtype)
  except UnsupportedError as e:
    raise TensorValueError(f"{what} has elements of type {array.dtype}, which checkpoints cannot store: {e}") from e


def _slice(index: Sequence[slice], shape: tuple[int, ...]) -> TensorSlice:
  extents: list[tuple[int, int | None]] = []
  for part, dim in zip(index, shape, strict=True):
    start, stop, _ = part.indices(dim)
    extents.append((0, None) if (start, stop) == (0, dim) else (start, stop - start))
  return TensorSlice(tuple(extents))
