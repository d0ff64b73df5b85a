"""Reads parts of MLIR bytecode without the bindings: the header, the section table, and the elements of a constant."""

import re
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from graftax.xla_call_module import errors, ir

__all__ = [
  "MAGIC",
  "AttributeEntry",
  "attribute_entries",
  "check_structure",
  "check_version",
  "declared_version",
  "dense_elements",
  "is_bytecode",
  "is_portable",
  "relabeled",
  "varint",
]

MAGIC = b"ML\xefR"
_STRING_SECTION = 0
_DIALECT_SECTION = 1
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


def varint(data: bytes | memoryview, at: int) -> tuple[int, int]:
  """Reads a prefix varint: the number of trailing zeros of the first byte is the number of bytes that follow."""
  first = data[at]
  if first & 1:
    return first >> 1, at + 1
  if first == 0:
    return int.from_bytes(data[at + 1 : at + 9], "little"), at + 9
  size = (first & -first).bit_length()
  return int.from_bytes(data[at : at + size], "little") >> size, at + size


def _sections(data: bytes | memoryview) -> list[tuple[int, int, int]]:
  """Returns `(kind, start, end)` of each section. Raises if the table does not fit the data."""
  _, at = varint(data, 4)
  while data[at]:
    at += 1
  at += 1
  found = []
  while at < len(data):
    kind = data[at]
    length, at = varint(data, at + 1)
    if kind & 0x80:
      alignment, at = varint(data, at)
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


_VERSION = re.compile(rb"StableHLO_v(\d+)\.(\d+)\.(\d+)")


def declared_version(data: bytes) -> tuple[int, ...]:
  """Returns the version of StableHLO that a portable artifact names.

  Raises:
    DecodeError: it names none.
  """
  match = _VERSION.search(bytes(data[:64]))
  if not match:
    raise errors.DecodeError("StableHLO portable artifact without a version: the header is damaged.")
  return tuple(int(part) for part in match.groups())


def relabeled(data: bytes, current: tuple[int, ...]) -> bytes:
  """Returns a portable artifact of a newer minor version as one of version `current`, if that has the same length.

  StableHLO versions each op and attribute separately: every change makes a new version. An artifact that has
  only what `current` has is therefore an artifact of `current`, too. A parser finds what it does not know.
  """
  found = declared_version(data)
  old, new = (b"StableHLO_v%d.%d.%d" % (*version,) for version in (found, current))
  if found <= current or found[0] != current[0] or len(old) != len(new):
    return data
  start, end = next((start, end) for kind, start, end in _sections(data) if kind == _STRING_SECTION)
  names = data[start:end]
  for newer, older in _RENAMED:
    names = names.replace(newer, older)
  return data[:start].replace(old, new, 1) + names + data[end:]


# Names of ops in a newer and an older form that reads it. The second form of a custom call adds the tiling of its
# results in memory. JAX writes none for kernels that have a contract here; kernels of TPUs, which may, are not called.
_RENAMED = ((b"\0custom_call_v2\0", b"\0custom_call_v1\0"),)


def check_version(data: bytes, current: tuple[int, ...]) -> None:
  """Raises VersionError if a portable artifact was written by a newer StableHLO than `current`."""
  found = declared_version(data)
  if found > current:
    raise errors.VersionError(
      f"module was written by StableHLO {'.'.join(map(str, found))}; the installed jaxlib reads up to"
      f" {'.'.join(map(str, current))}. Install a newer jaxlib, or write the module with an older target version."
    )


class AttributeEntry(NamedTuple):
  """An attribute or type of a module: its dialect, and where its encoding lies, which is binary or text."""

  dialect: str
  is_attribute: bool
  is_binary: bool
  start: int
  end: int


def attribute_entries(data: bytes) -> tuple[int, list[AttributeEntry]]:
  """Returns the number of attributes, and the entries of all attributes and then of all types.

  Raises:
    IndexError: the data are damaged.
    ValueError: the data are damaged.
  """
  sections = {kind: (start, end) for kind, start, end in _sections(data)}
  dialects = _dialects(data, sections)
  at, end = sections[_OFFSET_SECTION]
  num_attributes, at = varint(data, at)
  _, at = varint(data, at)
  position, last = sections[_ATTRIBUTE_SECTION]
  entries: list[AttributeEntry] = []
  while at < end:
    dialect, at = varint(data, at)
    num, at = varint(data, at)
    name, is_attribute = dialects[dialect], len(entries) < num_attributes
    for _ in range(num):
      if data[at] & 1:
        size, at = data[at] >> 1, at + 1
      else:
        size, at = varint(data, at)
      start, position = position, position + (size >> 1)
      if position > last:
        raise ValueError("an attribute ends after its section")
      entries.append(AttributeEntry(name, is_attribute, bool(size & 1), start, position))
  return num_attributes, entries


def _dialects(data: bytes, sections: dict[int, tuple[int, int]]) -> list[str]:
  """Returns the names of the dialects of a module."""
  num, at = varint(data, sections[_STRING_SECTION][0])
  sizes = []
  for _ in range(num):
    size, at = varint(data, at)
    sizes.append(size)
  ends = np.cumsum(sizes[::-1]) + at  # sizes are stored in reverse
  num, at = varint(data, sections[_DIALECT_SECTION][0])
  decoded: dict[int, str] = {}  # each once, because thousands of dialects may have one name as long as the module
  names = []
  for _ in range(num):
    number, at = varint(data, at)
    if number & 1:  # the version of the dialect, a section
      size, at = varint(data, at + 1)
      at += size
    number >>= 1
    if number not in decoded:
      end = int(ends[number])
      decoded[number] = data[end - sizes[-1 - number] : end - 1].decode(errors="replace")
    names.append(decoded[number])
  return names


def _attribute_starts(data: memoryview, at: int, end: int, first: int) -> list[int]:
  """Returns the offset of each attribute with a binary encoding, computed from the sizes in the offset section."""
  num_attributes, at = varint(data, at)
  _, at = varint(data, at)
  starts: list[int] = []
  seen, position = 0, first
  while seen < num_attributes and at < end:
    _, at = varint(data, at)
    num, at = varint(data, at)
    for _ in range(num):
      entry, at = varint(data, at)
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
    code, at = varint(data, at)
    if code == _DENSE_ELEMENTS:
      break
  else:
    raise AssertionError("internal: the bytecode of a constant has no dense elements")
  _, at = varint(data, at)
  size, at = varint(data, at)
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
