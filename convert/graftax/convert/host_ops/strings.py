"""Strings by bytes: StringLower, Substr, StringSplit, StringJoin, Add, StringFormat, base64."""

import base64
import binascii
import math
import re
from collections.abc import Callable, Sequence

import numpy as np

from graftax.convert.host_ops.registry import host_op
from graftax.convert.host_ops.unicode import decode_replacing
from graftax.convert.host_ops.values import (
  ITEM_BYTES,
  as_strings,
  map_strings,
  num_bytes,
  scalar_string,
  string_array,
)
from graftax.graphdef_ir import Budget
from graftax.ops_jax import NO_BUDGET, InvalidInputError, lowering

__all__ = [
  "add",
  "decode_base64",
  "encode_base64",
  "reduce_join",
  "string_format",
  "string_join",
  "string_length",
  "string_lower",
  "string_split",
  "string_split_v2",
  "string_strip",
  "string_upper",
  "substr",
  "unsorted_segment_join",
]


@host_op("StringLower")
def string_lower(input_: np.ndarray, *, encoding: str = "") -> np.ndarray:
  """Returns the strings in lower case: ASCII letters, or with the encoding "utf-8" all letters.

  Differs from TF: all letters of Python's version of Unicode are known, those of TensorFlow 2.21 up to Unicode 13.
  """
  return map_strings(_changes_case(bytes.lower, str.lower, encoding), input_)


@host_op("StringUpper")
def string_upper(input_: np.ndarray, *, encoding: str = "") -> np.ndarray:
  """Returns the strings in upper case; see `string_lower`."""
  return map_strings(_changes_case(bytes.upper, str.upper, encoding), input_)


def _changes_case(
  ascii_case: Callable[[bytes], bytes], full_case: Callable[[str], str], encoding: str
) -> Callable[[bytes], bytes]:
  if not encoding:
    return ascii_case
  # TensorFlow ends a string at its first zero byte here.
  return lambda item: full_case(decode_replacing(item.partition(b"\0")[0])).encode()


@host_op("StringStrip")
def string_strip(input_: np.ndarray) -> np.ndarray:
  """Returns the strings without ASCII whitespace at both ends."""
  return map_strings(bytes.strip, input_)


@host_op("StringLength")
def string_length(input_: np.ndarray, *, unit: str = "BYTE") -> np.ndarray:
  """Returns the number of bytes, or of UTF-8 characters, as int32."""
  return map_strings(len if unit == "BYTE" else lambda item: sum(map(_starts_character, item)), input_, np.int32)


def _starts_character(byte: int) -> bool:
  """Returns whether a byte does not continue a UTF-8 character; invalid UTF-8 is not checked."""
  return byte & 0xC0 != 0x80


@host_op("Substr", ignores=("T",))
def substr(
  input_: np.ndarray, pos: np.ndarray, len_: np.ndarray, *, unit: str = "BYTE", budget: Budget = NO_BUDGET
) -> np.ndarray:
  """Returns a part of each string. A negative position counts from the end.

  A negative length returns the rest of the string if the unit is bytes. If it is characters, the result is empty.

  Raises:
    InvalidInputError: a position lies outside of its string, or both it and the length are negative and the unit is
      characters.
    LimitExceededError: there are more parts than the limits of the call allow.
  """
  cut = _substring_of_bytes if unit == "BYTE" else _substring_of_characters
  shape = np.broadcast_shapes(input_.shape, np.shape(pos), np.shape(len_))
  budget.check_text(math.prod(shape) * ITEM_BYTES, "Substr")
  parts = (np.broadcast_to(part, shape).reshape(-1).tolist() for part in (input_, pos, len_))
  return string_array((cut(*arguments) for arguments in zip(*parts, strict=True)), shape)


def _substring_of_bytes(item: bytes, position: int, length: int) -> bytes:
  start = _start(item, len(item), position)
  return item[start : start + length] if length >= 0 else item[start:]


def _substring_of_characters(item: bytes, position: int, length: int) -> bytes:
  if position < 0 and length < 0:
    raise InvalidInputError(
      f"Substr: position {position} and length {length} of characters of {item!r}; expected one to be 0 or more."
    )
  starts = [i for i, byte in enumerate(item) if i == 0 or _starts_character(byte)] + [len(item)]
  first = _start(item, len(starts) - 1, position)
  return item[starts[first] : starts[min(first + max(length, 0), len(starts) - 1)]]


def _start(item: bytes, length: int, position: int) -> int:
  if not -length <= position <= length:
    raise InvalidInputError(f"Substr: position {position} is out of range for the string {item!r} of length {length}.")
  return position if position >= 0 else length + position


@host_op("Add", ignores=("T",))
def add(x: np.ndarray, y: np.ndarray, *, budget: Budget = NO_BUDGET) -> np.ndarray:
  """Returns the elements of `x`, each followed by one of `y`; the shapes broadcast. This is `+` of string tensors."""
  try:
    shape = np.broadcast_shapes(x.shape, y.shape)
  except ValueError as e:
    raise InvalidInputError(f"Add of strings: shapes {x.shape} and {y.shape} do not broadcast.") from e
  count = math.prod(shape)
  # Broadcasting repeats every element of an array equally often.
  repeats = sum(count // array.size * num_bytes(array) for array in (x, y) if count)
  budget.check_text(repeats, "Add of strings")
  first, second = (np.broadcast_to(array, shape).reshape(-1).tolist() for array in (x, y))
  return string_array(map(bytes.__add__, first, second), shape)


@host_op("StringJoin", ignores=("N",))
def string_join(inputs: list[np.ndarray], *, separator: bytes = b"", budget: Budget = NO_BUDGET) -> np.ndarray:
  """Returns the elements of several arrays of one shape joined; scalars are joined with every element."""
  shape = next((array.shape for array in inputs if array.ndim), ())
  count = math.prod(shape)
  repeats = sum((num_bytes(array) if array.ndim else count * num_bytes(array)) for array in inputs)
  budget.check_text(repeats + count * len(separator) * max(len(inputs) - 1, 0), "StringJoin")
  rows = [np.broadcast_to(array, shape).reshape(-1).tolist() for array in inputs]
  return string_array((separator.join(parts) for parts in zip(*rows, strict=True)), shape)


@host_op("ReduceJoin")
def reduce_join(
  inputs: np.ndarray,
  reduction_indices: np.ndarray,
  *,
  keep_dims: bool = False,
  separator: bytes = b"",
  budget: Budget = NO_BUDGET,
) -> np.ndarray:
  """Returns the strings joined along some axes, first along the first of them."""
  axes = [int(axis) % max(inputs.ndim, 1) for axis in np.reshape(reduction_indices, -1)]
  kept = [axis for axis in range(inputs.ndim) if axis not in axes]
  if not axes:
    # TensorFlow joins nothing if no axes are given.
    return inputs
  budget.check_text(num_bytes(inputs) + inputs.size * len(separator), "ReduceJoin")
  # The first of the given axes is joined first.
  axes.reverse()
  moved = np.transpose(inputs, [*kept, *axes])
  shape = tuple(inputs.shape[axis] for axis in kept)
  rows = moved.reshape(int(np.prod(shape)), int(np.prod([inputs.shape[axis] for axis in axes])))
  joined = string_array((separator.join(row) for row in rows.tolist()), shape)
  return np.expand_dims(joined, tuple(sorted(axes))) if keep_dims else joined


@host_op("UnsortedSegmentJoin", ignores=("Tindices", "Tnumsegments"))
def unsorted_segment_join(
  inputs: np.ndarray,
  segment_ids: np.ndarray,
  num_segments: np.ndarray,
  *,
  separator: bytes = b"",
  budget: Budget = NO_BUDGET,
) -> np.ndarray:
  """Returns the strings of each segment joined in their order.

  Raises:
    InvalidInputError: a number is not from 0 to `num_segments` - 1, or the numbers do not have the first dimensions of
      the strings.
  """
  count, rank = int(num_segments), segment_ids.ndim
  if inputs.shape[:rank] != segment_ids.shape:
    raise InvalidInputError(
      f"UnsortedSegmentJoin: segment_ids has shape {list(segment_ids.shape)}; expected the first dimensions of "
      f"{list(inputs.shape)}."
    )
  if count < 0 or np.any((segment_ids < 0) | (segment_ids >= count)):
    raise InvalidInputError(f"UnsortedSegmentJoin: segment_ids are out of range for {count} segments.")
  rest = math.prod(inputs.shape[rank:])
  budget.check_text(
    num_bytes(inputs) + inputs.size * len(separator) + count * max(rest, 1) * ITEM_BYTES, "UnsortedSegmentJoin"
  )
  rows = inputs.reshape(segment_ids.size, rest)
  segments: list[list[int]] = [[] for _ in range(count)]
  for row, segment in enumerate(segment_ids.reshape(-1).tolist()):
    segments[segment].append(row)
  joined = (
    separator.join(rows[row, column] for row in segment) for segment in segments for column in range(rows.shape[1])
  )
  return string_array(joined, (count, *inputs.shape[rank:]))


@host_op("StringSplitV2")
def string_split_v2(
  input_: np.ndarray, sep: np.ndarray, *, maxsplit: int = -1
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Returns the parts of each string as a sparse matrix: indices, values, shape. Without separator at whitespace."""
  separator = scalar_string(sep, "StringSplitV2: sep")
  return _as_sparse([_split(item, separator, maxsplit) for item in input_.tolist()])


def _split(item: bytes, separator: bytes, maxsplit: int) -> list[bytes]:
  if maxsplit == 0:
    return [item]
  if separator:
    return item.split(separator, maxsplit)
  parts = item.split(None, maxsplit)
  if 0 < maxsplit == len(parts):
    # Unlike Python, TensorFlow returns what follows the last split even if it is empty.
    parts.append(b"")
  return parts


@host_op("StringSplit")
def string_split(
  input_: np.ndarray, delimiter: np.ndarray, *, skip_empty: bool = True
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Returns the parts of each string between any of the delimiter's bytes, or if it is empty, each byte."""
  split_at = set(scalar_string(delimiter, "StringSplit: delimiter"))
  rows = [_split_at_any(item, split_at) for item in input_.tolist()]
  return _as_sparse([[part for part in row if part or not skip_empty] for row in rows])


def _split_at_any(item: bytes, delimiters: set[int]) -> list[bytes]:
  if not item or not delimiters:
    return [bytes([byte]) for byte in item]
  parts, start = [], 0
  for position, byte in enumerate(item):
    if byte in delimiters:
      parts.append(item[start:position])
      start = position + 1
  return [*parts, item[start:]]


def _as_sparse(rows: Sequence[Sequence[bytes]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  lengths = np.array([len(row) for row in rows], np.int64)
  starts = np.cumsum(lengths) - lengths
  columns = np.arange(lengths.sum()) - np.repeat(starts, lengths)
  indices = np.stack([np.repeat(np.arange(len(rows)), lengths), columns], axis=1).astype(np.int64)
  values = string_array(part for row in rows for part in row)
  return indices, values, np.array([len(rows), max(map(len, rows), default=0)], np.int64)


@host_op("EncodeBase64")
def encode_base64(input_: np.ndarray, *, pad: bool = False) -> np.ndarray:
  """Returns strings in the base64 alphabet for URLs, with padding only if asked for."""
  return map_strings(
    lambda item: base64.urlsafe_b64encode(item) if pad else base64.urlsafe_b64encode(item).rstrip(b"="), input_
  )


@host_op("DecodeBase64")
def decode_base64(input_: np.ndarray) -> np.ndarray:
  """Returns the strings that base64 text for URLs encodes; padding is optional.

  Raises:
    InvalidInputError: a string is not base64.
  """
  return map_strings(_decode_base64, input_)


def _decode_base64(item: bytes) -> bytes:
  text = item.rstrip(b"=")
  try:
    if (item != text and (len(item) % 4 or len(item) - len(text) > 2)) or re.search(rb"[^A-Za-z0-9_-]", text):
      raise ValueError("wrong padding, or characters outside of the alphabet of base64 for URLs")
    return base64.urlsafe_b64decode(text + b"=" * (-len(text) % 4))
  except (binascii.Error, ValueError) as e:
    raise InvalidInputError(f"DecodeBase64: {item!r} is not base64 for URLs: {e}.") from e


def _longest_text(value: np.ndarray, summarize: int) -> int:
  """Returns how long the text of an array can be in which `summarize` elements at each end of an axis are shown."""
  rows, length = 1, 0
  for size in np.shape(value):
    rows *= min(size, 2 * summarize + 1) if summarize >= 0 else size
    length += rows * (2 * np.ndim(value) + 5)  # brackets, line breaks and spaces, or "..."
  # An element that is a number takes 24 characters at most, and a character of a string 4, between quotation marks.
  return length + (4 * num_bytes(value) + 2 * rows if value.dtype == object else 24 * rows)


@host_op("StringFormat", ignores=("T",))
def string_format(
  inputs: list[np.ndarray],
  *,
  template: bytes = b"%s",
  placeholder: bytes = b"%s",
  summarize: int = 3,
  budget: Budget = NO_BUDGET,
) -> np.ndarray:
  """Returns the template with the values, as TensorFlow prints them, in place of the placeholders.

  Raises:
    InvalidInputError: the template has more or fewer placeholders than there are values.
    LimitExceededError: the text is too long.
  """
  num_placeholders = template.count(placeholder) if placeholder else 0
  if num_placeholders != len(inputs):
    raise InvalidInputError(f"StringFormat: {num_placeholders} placeholders for {len(inputs)} values in {template!r}.")
  if not inputs:
    return as_strings(template)
  budget.check_text(len(template) + sum(_longest_text(value, summarize) for value in inputs), "StringFormat")
  formatted = lowering("StringFormat")
  assert formatted is not None, "internal: StringFormat has no lowering"
  texts = (text.decode(errors="surrogateescape") for text in (template, placeholder))
  attrs = dict(zip(("template", "placeholder"), texts, strict=True))
  return as_strings(formatted.function([np.asarray(value) for value in inputs], **attrs, summarize=summarize))
