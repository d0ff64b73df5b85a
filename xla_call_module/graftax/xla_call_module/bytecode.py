"""Reads parts of MLIR bytecode without the bindings: the header, the section table, and the elements of a constant."""

import re

import jax.numpy as jnp
import numpy as np

from graftax.xla_call_module import errors, ir

__all__ = ["MAGIC", "check_structure", "check_version", "dense_elements", "is_bytecode", "is_portable"]

MAGIC = b"ML\xefR"
_ATTRIBUTE_SECTION = 2
_OFFSET_SECTION = 3
_DENSE_ELEMENTS = 18  # the builtin dialect's code for DenseIntOrFPElementsAttr
_NUM_SECTION_KINDS = 9


def is_bytecode(data: bytes) -> bool:
  """Returns whether the data begins with the magic number of MLIR bytecode."""
  return bytes(data[:4]) == MAGIC


def is_portable(data: bytes) -> bool:
  """Returns whether the data is a StableHLO portable artifact: MLIR bytecode whose producer is StableHLO."""
  return is_bytecode(data) and b"StableHLO_v" in bytes(data[:64])


def _varint(data: memoryview, at: int) -> tuple[int, int]:
  """Reads a prefix varint: the number of trailing zeros of the first byte is the number of bytes that follow."""
  first = data[at]
  if first & 1:
    return first >> 1, at + 1
  if first == 0:
    return int.from_bytes(data[at + 1 : at + 9], "little"), at + 9
  size = (first & -first).bit_length()
  return int.from_bytes(data[at : at + size], "little") >> size, at + size


def _sections(data: memoryview) -> list[tuple[int, int, int]]:
  """Returns `(kind, start, end)` of each section. Raises if the table does not fit the data."""
  _, at = _varint(data, 4)
  while data[at]:
    at += 1
  at += 1
  found = []
  while at < len(data):
    kind = data[at]
    length, at = _varint(data, at + 1)
    if kind & 0x80:
      alignment, at = _varint(data, at)
      at += -at % max(alignment, 1)
    if kind & 0x7F >= _NUM_SECTION_KINDS or at + length > len(data):
      raise ValueError(f"section of kind {kind & 0x7F} ends {at + length - len(data)} bytes past the end")
    found.append((kind & 0x7F, at, at + length))
    at += length
  return found


def check_structure(data: bytes) -> None:
  """Raises DecodeError if the header or the section table shows that the bytes are truncated or not a module."""
  try:
    if not is_bytecode(data):
      raise ValueError(f"starts with {bytes(data[:4])!r}, not {MAGIC!r}")
    kinds = {kind for kind, _, _ in _sections(memoryview(data))}
    if missing := {0, 1, 2, 3, 4} - kinds:
      raise ValueError(f"sections {sorted(missing)} are missing")
  except (IndexError, ValueError) as error:
    raise errors.DecodeError(
      f"StableHLO bytes of length {len(data)} are damaged: {error or 'the section table is truncated'}; expected MLIR"
      " bytecode or a StableHLO portable artifact."
    ) from None


def check_version(data: bytes, current: tuple[int, ...]) -> None:
  """Raises VersionError if a portable artifact was written by a newer StableHLO than `current`."""
  match = re.search(rb"StableHLO_v(\d+)\.(\d+)\.(\d+)", bytes(data[:64]))
  if not match:
    raise errors.DecodeError("StableHLO portable artifact without a version: the header is damaged.")
  found = tuple(int(part) for part in match.groups())
  if found > current:
    raise errors.VersionError(
      f"module was written by StableHLO {'.'.join(map(str, found))}; the installed jaxlib reads up to"
      f" {'.'.join(map(str, current))}. Install a newer jaxlib, or write the module with an older target version."
    )


def _attribute_starts(data: memoryview, at: int, end: int, first: int) -> list[int]:
  """Returns the offset of each attribute with a binary encoding, computed from the sizes in the offset section."""
  num_attributes, at = _varint(data, at)
  _, at = _varint(data, at)
  starts: list[int] = []
  seen, position = 0, first
  while seen < num_attributes and at < end:
    _, at = _varint(data, at)
    num, at = _varint(data, at)
    for _ in range(num):
      entry, at = _varint(data, at)
      if entry & 1:
        starts.append(position)
      position += entry >> 1
    seen += num
  return starts


def dense_elements(data: memoryview, result: ir.TensorType) -> np.ndarray:
  """Returns the elements of a constant from the bytecode of that op alone, as a read-only view of those bytes.

  The encoding is the attribute code, the number of the type, the size in bytes, and the elements in little-endian
  order. Elements of less than 8 bits occupy one byte each; a splat stores a single element.
  """
  sections = {kind: (start, end) for kind, start, end in _sections(data)}
  for at in _attribute_starts(data, *sections[_OFFSET_SECTION], sections[_ATTRIBUTE_SECTION][0]):
    code, at = _varint(data, at)
    if code == _DENSE_ELEMENTS:
      break
  else:
    raise AssertionError("internal: the bytecode of a constant has no dense elements")
  _, at = _varint(data, at)
  size, at = _varint(data, at)
  shape = tuple(0 if dim is None else dim for dim in result.shape)
  stored = np.frombuffer(data[at : at + size], dtype=_stored_dtype(result.dtype))
  elements = _widen_nibbles(stored, result.dtype)
  num_elements = int(np.prod(shape, dtype=np.int64))
  if elements.size == 1 and num_elements != 1:
    return np.broadcast_to(elements.reshape(()), shape)
  elements = elements.reshape(shape)
  elements.flags.writeable = False
  return elements


def _stored_dtype(dtype: np.dtype) -> np.dtype:
  return np.dtype(np.uint8) if dtype.itemsize == 1 else dtype


def _widen_nibbles(stored: np.ndarray, dtype: np.dtype) -> np.ndarray:
  """Converts stored bytes to `dtype`; 2-bit and 4-bit signed integers are sign-extended first."""
  if dtype.itemsize != 1:
    return stored
  if dtype == np.bool_:
    return stored != 0
  if dtype.name in ("int2", "int4"):
    bits = jnp.iinfo(dtype).bits
    return (((stored ^ (1 << (bits - 1))) & ((1 << bits) - 1)).astype(np.int8) - (1 << (bits - 1))).astype(dtype)
  if dtype.name in ("uint2", "uint4"):
    return stored.astype(dtype)
  return stored.view(dtype)
