"""Arrays as chunks of bytes in C order, with little memory beside the array."""

from collections.abc import Iterator

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp

from graftax.savedmodel_io.checkpoint.pieces import block_indices

__all__ = ["CHUNK_BYTES", "array_bytes", "cast_array"]

CHUNK_BYTES = 1 << 20
# Copies from a device cost some 10 us each, so these are larger.
_DEVICE_CHUNK_BYTES = 1 << 24


def array_bytes(array: np.ndarray | jax.Array, dtype: np.dtype) -> Iterator[np.ndarray]:
  """Yields the elements of an array in C order, as one-dimensional uint8 arrays of at most `CHUNK_BYTES`.

  Args:
    array: any shape, strides, alignment and byte order; no strings. A `jax.Array` must lie on one device; unless that
      is the CPU, it is copied to the host piece by piece.
    dtype: the element type that is wanted. Values are rounded to it if it is another than the array's.

  Raises:
    OverflowError: a finite value does not fit the element type.

  Example:
    >>> [chunk.tolist() for chunk in array_bytes(np.array([[1, 2], [3, 4]], np.uint8).T, np.dtype(np.uint8))]
    [[1, 3, 2, 4]]
  """
  little_endian = dtype.newbyteorder("<")
  for block in _host_blocks(array):
    if block.flags.c_contiguous and block.dtype == little_endian:
      yield from _split(block.reshape(-1).view(np.uint8))
    else:
      for index in block_indices(block.shape, CHUNK_BYTES // block.itemsize):
        yield from _split(np.ascontiguousarray(cast_array(block[index], little_endian)).reshape(-1).view(np.uint8))


def cast_array(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
  """Returns an array with another element type of the same kind; floating-point values are rounded.

  Raises:
    OverflowError: a finite value does not fit the element type.
  """
  if array.dtype == dtype.newbyteorder("="):
    return array.astype(dtype)
  with np.errstate(all="ignore"):
    cast = array.astype(dtype)
    lost = _outside(array, dtype) if jnp.issubdtype(dtype, jnp.integer) else np.isfinite(array) & ~np.isfinite(cast)
  if lost.any():
    raise OverflowError(f"{array[lost].flat[0]!r} does not fit {dtype.name}")
  return cast


def _outside(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
  limits = jnp.iinfo(dtype)
  # Limits that the array's own type cannot hold are compared exactly with Python integers, but not by int4 and its kin.
  wide = array if array.dtype.kind in "iu" else array.astype(np.int64)
  return np.asarray((wide < int(limits.min)) | (wide > int(limits.max)))


def _split(data: np.ndarray) -> Iterator[np.ndarray]:
  for start in range(0, data.size, CHUNK_BYTES):
    yield data[start : start + CHUNK_BYTES]


def _host_blocks(array: np.ndarray | jax.Array) -> Iterator[np.ndarray]:
  if isinstance(array, np.ndarray):
    yield np.asarray(array)  # `Variable` is a subclass that costs time
  elif _is_on_cpu(array):
    yield np.asarray(array)  # not a copy
  else:
    # `np.asarray(array)` would keep the copy for as long as the array lives.
    for piece in _device_pieces(array):
      yield np.asarray(piece)


def _is_on_cpu(array: jax.Array) -> bool:
  return all(device.platform == "cpu" for device in array.devices())


def _device_pieces(array: jax.Array) -> Iterator[jax.Array]:
  """Cuts an array on a device into parts. The start is an argument of the slice, so that few are compiled."""
  if array.ndim == 0 or array.size == 0:
    yield array
    return
  num_rows = min(_DEVICE_CHUNK_BYTES * len(array) // max(array.nbytes, 1), len(array))
  if num_rows == 0:
    for row in range(len(array)):
      yield from _device_pieces(lax.dynamic_index_in_dim(array, row, keepdims=False))
    return
  for start in range(0, len(array), num_rows):
    yield lax.dynamic_slice_in_dim(array, start, min(num_rows, len(array) - start))
