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
from graftax.savedmodel_io.errors import DamagedCheckpointError, MissingShardError
from graftax.savedmodel_io.writing.array_bytes import CHUNK_BYTES, array_bytes

__all__ = ["ArraySource", "Chunk", "FileSource", "PartSource", "StringSource", "make_string_source"]

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
    itemsize: bytes of an element.
  """

  read: Callable[[], np.ndarray | jax.Array]
  shape: tuple[int, ...]
  itemsize: int

  @property
  def size_bytes(self) -> int:
    return math.prod(self.shape) * self.itemsize

  def chunks(self) -> Iterator[tuple[Chunk, Chunk]]:
    for chunk in array_bytes(self.read()):
      yield chunk, chunk


@dataclass(frozen=True, slots=True)
class FileSource:
  """A tensor of numbers as another checkpoint stores it, read with ordinary reads, so that it is not mapped.

  Attributes:
    path: data shard.
    offset_bytes: where the bytes start.
    size_bytes: how many there are.
    crc32c: their checksum, masked; a difference is an error.
    what: tensor, for messages.
  """

  path: str
  offset_bytes: int
  size_bytes: int
  crc32c: int
  what: str

  def chunks(self) -> Iterator[tuple[Chunk, Chunk]]:
    checksum = 0
    for chunk in self._read():
      checksum = crc32c(chunk, checksum)
      yield chunk, chunk
    if mask(checksum) != self.crc32c:
      raise DamagedCheckpointError(
        f"{self.path}: {self.what} at byte {self.offset_bytes}: its checksum is {mask(checksum):#010x}, but the index "
        f"stores {self.crc32c:#010x}. The file was damaged or replaced after it was written."
      )

  def _read(self) -> Iterator[bytes]:
    try:
      file = open(self.path, "rb", buffering=0)
    except FileNotFoundError as e:
      raise MissingShardError(f"{self.path}: this data shard is missing") from e
    with file:
      file.seek(self.offset_bytes)
      left = self.size_bytes
      while left:
        chunk = file.read(min(left, CHUNK_BYTES))
        if not chunk:
          raise DamagedCheckpointError(f"{self.path}: {self.what} is cut off {left} bytes before its end")
        left -= len(chunk)
        yield chunk


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
