"""Reads datasets that an HDF5 file stores in chunks, with or without compression.

The HDF5 library does not check that a chunk unpacks to its size: what is missing becomes whatever was in memory. Here
the library only finds the stored bytes, and each chunk is unpacked and checked by itself. That also keeps the filters
of the library, which are written in C, away from the file.
"""

import itertools
import zlib
from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np

from graftax.savedmodel_io.errors import DamagedWeightsError, UnsafeWeightsError

__all__ = ["Dataset", "read_chunks"]

Dataset: TypeAlias = Any
"""A dataset of h5py, which ships no type information."""

# Numbers of filters in files.
_DEFLATE, _SHUFFLE, _FLETCHER32 = 1, 2, 3
_CHECKSUM_BYTES = 4
_MODULUS = 0xFFFF


def read_chunks(dataset: Dataset, array: np.ndarray, file_bytes: int) -> None:
  """Fills an array with the values of a dataset that is stored in chunks.

  Args:
    dataset: the dataset.
    array: an array of its shape and dtype.
    file_bytes: the size of the file.

  Raises:
    DamagedWeightsError: a chunk is missing, or does not unpack to its size, or its checksum is wrong.
    UnsafeWeightsError: the filters are others than gzip, shuffle and fletcher32, or a chunk is larger than the file.
  """
  filters = _filters(dataset)
  chunk_bytes = int(np.prod(dataset.chunks, dtype=object)) * dataset.dtype.itemsize
  for start in itertools.product(
    *(range(0, size, step) for size, step in zip(dataset.shape, dataset.chunks, strict=True))
  ):
    where = f"chunk {list(start)} of {dataset.name!r}"
    mask, stored = _stored_chunk(dataset, start, file_bytes, where)
    data = _unpacked(stored, mask, filters, chunk_bytes, where)
    if len(data) != chunk_bytes:
      raise DamagedWeightsError(f"{where} unpacks to {len(data)} bytes; expected {chunk_bytes}")
    # Chunks at the end of a dimension reach beyond it.
    kept = [min(step, size - first) for first, step, size in zip(start, dataset.chunks, dataset.shape, strict=True)]
    target = tuple(slice(first, first + size) for first, size in zip(start, kept, strict=True))
    values = np.frombuffer(data, np.uint8 if array.dtype.kind == "b" else array.dtype)
    array[target] = values.reshape(dataset.chunks)[tuple(map(slice, kept))]


def _filters(dataset: Dataset) -> list[tuple[int, tuple[int, ...]]]:
  """Returns the number and the parameters of each filter, in the order in which a writer applies them."""
  properties = dataset.id.get_create_plist()
  found = [properties.get_filter(i) for i in range(properties.get_nfilters())]
  for number, _, _, name in found:
    if number not in (_DEFLATE, _SHUFFLE, _FLETCHER32):
      raise UnsafeWeightsError(
        f"{dataset.name!r} is compressed by filter {number} ({name.decode(errors='replace')}); expected gzip, or no "
        "compression, as Keras writes. Write the file again with h5py."
      )
  return [(number, parameters) for number, _, parameters, _ in found]


def _stored_chunk(dataset: Dataset, start: tuple[int, ...], file_bytes: int, where: str) -> tuple[int, bytes]:
  """Returns which filters were left out, as bits, and the stored bytes."""
  info = dataset.id.get_chunk_info_by_coord(start)
  if info.byte_offset is None or not info.size:
    # Readers take the fill value for it. Trained weights are written as a whole.
    raise DamagedWeightsError(f"{where} is not stored; the file was not written to its end")
  if info.size > file_bytes:
    raise UnsafeWeightsError(f"{where} has {info.size} bytes, but the file only {file_bytes}")
  mask, data = dataset.id.read_direct_chunk(start)
  return mask, data


def _unpacked(
  data: bytes, mask: int, filters: list[tuple[int, tuple[int, ...]]], chunk_bytes: int, where: str
) -> bytes | memoryview:
  for position, (number, parameters) in _reversed(filters):
    if mask >> position & 1:
      continue
    if number == _DEFLATE:
      data = _inflated(data, chunk_bytes + _CHECKSUM_BYTES, where)
    elif number == _SHUFFLE:
      data = _unshuffled(data, parameters[0] if parameters else 1)
    else:
      data = _verified(data, where)
  return data


def _reversed(filters: list[tuple[int, tuple[int, ...]]]) -> Iterator[tuple[int, tuple[int, tuple[int, ...]]]]:
  return reversed(list(enumerate(filters)))


def _inflated(data: bytes, most_bytes: int, where: str) -> bytes:
  try:
    return zlib.decompressobj().decompress(data, most_bytes + 1)
  except zlib.error as e:
    raise DamagedWeightsError(f"{where} is not gzip data: {e}") from e


def _unshuffled(data: bytes, element_bytes: int) -> bytes:
  """Returns elements whose first bytes, then second bytes, and so on, were stored together."""
  num_elements = len(data) // element_bytes if element_bytes else 0
  if element_bytes <= 1 or num_elements <= 1:
    return data
  size = num_elements * element_bytes
  planes = np.frombuffer(data, np.uint8, size).reshape(element_bytes, num_elements)
  return planes.T.tobytes() + data[size:]


def _verified(data: bytes, where: str) -> bytes:
  content, stored = data[:-_CHECKSUM_BYTES], int.from_bytes(data[-_CHECKSUM_BYTES:], "little")
  if len(data) < _CHECKSUM_BYTES or stored != _fletcher32(content):
    raise DamagedWeightsError(f"the checksum of {where} is wrong")
  return content


def _fletcher32(data: bytes) -> int:
  """Returns the checksum of HDF5: of words of 16 bits with the high byte first, modulo 2**16 - 1."""
  words = np.frombuffer(data + b"\0" * (len(data) % 2), ">u2").astype(np.uint64)
  # Sums of sums: each word counts as often as there are words from it on. In blocks, so that nothing overflows.
  first = second = 0
  for block in np.array_split(words, range(1 << 16, len(words), 1 << 16)):
    weights = np.arange(len(block), 0, -1, dtype=np.uint64)
    second += first * len(block) + int(block @ weights)
    first += int(block.sum())
  return _folded(second) << 16 | _folded(first)


def _folded(total: int) -> int:
  return (total - 1) % _MODULUS + 1 if total else 0
