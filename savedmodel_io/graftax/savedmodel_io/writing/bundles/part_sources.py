"""Where the bytes of a stored tensor, or of one stored slice of it, come from when they are written."""

import math
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import jax
import numpy as np

from graftax.savedmodel_io.checkpoint.crc32c import crc32c, mask
from graftax.savedmodel_io.checkpoint.varint import encode_varint
from graftax.savedmodel_io.errors import TensorValueError
from graftax.savedmodel_io.writing.bundles.array_bytes import CHUNK_BYTES, array_bytes

__all__ = ["ArraySource", "Chunk", "PartSource", "StringSource", "make_string_source"]

Chunk = bytes | np.ndarray


class PartSource(Protocol):
  """Bytes of a known number, read once.

  Attributes:
    size_bytes: how many bytes `chunks` yields.
  """

  @property
  def size_bytes(self) -> int: ...

  def chunks(self) -> Iterator[tuple[Chunk, Chunk]]:
    """Yields pairs: bytes to write, and the bytes that the tensor's checksum runs over in their place."""


@dataclass(frozen=True, slots=True)
class ArraySource:
  """Elements of an array of numbers.

  Attributes:
    read: returns the array: a numpy array, or a `jax.Array` on one device. Called when the bytes are needed.
    shape: its shape.
    dtype: element type to write; the array may have another, from which it is cast.
    what: what the array is, for messages.
  """

  read: Callable[[], np.ndarray | jax.Array]
  shape: tuple[int, ...]
  dtype: np.dtype
  what: str

  @property
  def size_bytes(self) -> int:
    return math.prod(self.shape) * self.dtype.itemsize

  def chunks(self) -> Iterator[tuple[Chunk, Chunk]]:
    try:
      for chunk in array_bytes(self.read(), self.dtype):
        yield chunk, chunk
    except OverflowError as e:
      raise TensorValueError(f"{self.what} cannot be cast from its element type: {e}") from e


@dataclass(frozen=True, slots=True)
class StringSource:
  """The strings of a tensor, in C order; see `checkpoint.string_tensor` for how they are stored."""

  strings: tuple[bytes, ...]
  size_bytes: int

  def chunks(self) -> Iterator[tuple[Chunk, Chunk]]:
    checksum = 0
    for strings in _batches(self.strings):
      fixed_width = b"".join(struct.pack("<I" if len(s) < 1 << 32 else "<Q", len(s)) for s in strings)
      checksum = crc32c(fixed_width, checksum)
      yield b"".join(encode_varint(len(s)) for s in strings), fixed_width
    length_checksum = struct.pack("<I", mask(checksum))
    yield length_checksum, length_checksum
    for strings in _batches(self.strings):
      text = b"".join(strings)
      yield text, text


_LENGTHS_CHECKSUM_BYTES = 4


def make_string_source(strings: tuple[bytes, ...]) -> StringSource:
  """Returns the source of a string tensor, whose size depends on all of its strings.

  Example:
    >>> make_string_source((b"ab", b"")).size_bytes  # two lengths, their checksum, two letters
    8
  """
  lengths = [len(s) for s in strings]
  varints = sum(max(1, (length.bit_length() + 6) // 7) for length in lengths)
  return StringSource(strings, varints + _LENGTHS_CHECKSUM_BYTES + sum(lengths))


def _batches(strings: tuple[bytes, ...]) -> Iterator[list[bytes]]:
  """Groups strings so that a group is not much larger than a chunk, unless a string alone is."""
  batch: list[bytes] = []
  size = 0
  for string in strings:
    batch.append(string)
    size += len(string) + 1
    if size >= CHUNK_BYTES:
      yield batch
      batch, size = [], 0
  if batch:
    yield batch
