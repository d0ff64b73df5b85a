"""Unicode: UnicodeDecode, UnicodeDecodeWithOffsets, UnicodeEncode, UnicodeTranscode."""

import array
import itertools
from collections.abc import Iterator

import numpy as np

from graftax.convert.host_ops.registry import host_op
from graftax.convert.host_ops.values import ITEM_BYTES, check_splits, map_strings, string_array
from graftax.graphdef_ir import Budget
from graftax.ops_jax import NO_BUDGET, InvalidInputError, UnsupportedAttrError

__all__ = [
  "character_ends",
  "code_points",
  "decode_replacing",
  "unicode_decode",
  "unicode_decode_with_offsets",
  "unicode_encode",
  "unicode_transcode",
]

_LAST_CODE_POINT = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)
_CONTROL_CHARACTERS = range(0x20)
# Text is decoded in parts, as each malformed sequence copies what is left of its part.
_WINDOW_BYTES = 1024
_LONGEST_SEQUENCE_BYTES = 4
# TensorFlow's names of encodings (ICU's) -> Python's. Other names are refused, because their tables could differ.
_CODECS = {
  "UTF-8": "utf-8",
  "UTF8": "utf-8",
  "US-ASCII": "ascii",
  "ASCII": "ascii",
  "ISO-8859-1": "latin-1",
  "LATIN-1": "latin-1",
  "LATIN1": "latin-1",
  "UTF-16-BE": "utf-16-be",
  "UTF-16BE": "utf-16-be",
  "UTF-16-LE": "utf-16-le",
  "UTF-16LE": "utf-16-le",
  "UTF-32-BE": "utf-32-be",
  "UTF-32BE": "utf-32-be",
  "UTF-32-LE": "utf-32-le",
  "UTF-32LE": "utf-32-le",
}


def decode_replacing(item: bytes) -> str:
  """Returns UTF-8 as text, with U+FFFD in place of each malformed sequence."""
  return item.decode("utf-8", "replace")


def character_ends(item: bytes) -> list[int]:
  """Returns the position after each character of UTF-8. A malformed sequence is a character."""
  if item.isascii():
    return list(range(1, len(item) + 1))
  return [*(start for _, start in code_points(item) if start), len(item)]


@host_op("UnicodeDecode")
def unicode_decode(
  input_: np.ndarray,
  *,
  input_encoding: str,
  errors: str = "replace",
  replacement_char: int = 0xFFFD,
  replace_control_characters: bool = False,
  Tsplits: np.dtype = np.dtype(np.int64),  # noqa: B008 -- the op's attribute; dtypes are immutable
) -> tuple[np.ndarray, np.ndarray]:
  """Returns the code points of all strings as a ragged matrix: row splits and int32 values."""
  splits, values, _ = unicode_decode_with_offsets(
    input_,
    input_encoding=input_encoding,
    errors=errors,
    replacement_char=replacement_char,
    replace_control_characters=replace_control_characters,
    Tsplits=Tsplits,
  )
  return splits, values


@host_op("UnicodeDecodeWithOffsets")
def unicode_decode_with_offsets(
  input_: np.ndarray,
  *,
  input_encoding: str,
  errors: str = "replace",
  replacement_char: int = 0xFFFD,
  replace_control_characters: bool = False,
  Tsplits: np.dtype = np.dtype(np.int64),  # noqa: B008 -- the op's attribute; dtypes are immutable
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Returns row splits, int32 code points, and the position of the first byte of each code point.

  Raises:
    InvalidInputError: a string is malformed and `errors` is "strict".
    UnsupportedAttrError: the encoding is not one of those that are implemented.
  """
  codec = _codec("UnicodeDecode", input_encoding)
  splits, values, starts = [0], array.array("i"), array.array("q")
  for item in input_.reshape(-1).tolist():
    for point, start in _replaced(item, codec, errors, replacement_char, replace_control_characters):
      values.append(point)
      starts.append(start)
    splits.append(len(values))
  return np.array(splits, Tsplits), np.array(values, np.int32), np.array(starts, np.int64)


@host_op("UnicodeTranscode")
def unicode_transcode(
  input_: np.ndarray,
  *,
  input_encoding: str,
  output_encoding: str,
  errors: str = "replace",
  replacement_char: int = 0xFFFD,
  replace_control_characters: bool = False,
) -> np.ndarray:
  """Returns the strings in another encoding; raises as `unicode_decode_with_offsets` does."""
  source, target = _codec("UnicodeTranscode", input_encoding), _codec("UnicodeTranscode", output_encoding)

  def transcode(item: bytes) -> bytes:
    points = _replaced(item, source, errors, replacement_char, replace_control_characters)
    return "".join(chr(point) for point, _ in points).encode(target)

  return map_strings(transcode, input_)


@host_op("UnicodeEncode", ignores=("Tsplits",))
def unicode_encode(
  input_values: np.ndarray,
  input_splits: np.ndarray,
  *,
  output_encoding: str,
  errors: str = "replace",
  replacement_char: int = 0xFFFD,
  budget: Budget = NO_BUDGET,
) -> np.ndarray:
  """Returns a string for each row of code points.

  Raises:
    InvalidInputError: a number is not a code point and `errors` is "strict", or the row splits do not divide them.
    LimitExceededError: there are more code points than the limits of the call allow bytes.
  """
  codec = _codec("UnicodeEncode", output_encoding)
  check_splits(input_splits, input_values.size, "UnicodeEncode")
  budget.check_text(input_values.size + input_splits.size * ITEM_BYTES, "UnicodeEncode")
  is_wrong = (input_values < 0) | (input_values > _LAST_CODE_POINT)
  is_wrong |= (input_values >= _SURROGATES.start) & (input_values < _SURROGATES.stop)
  if errors == "strict" and is_wrong.any():
    wrong = input_values[is_wrong][0]
    raise InvalidInputError(f"UnicodeEncode: {wrong} is not a code point, and errors='strict'.")
  if errors == "ignore":
    bounds, points = np.concatenate([[0], np.cumsum(~is_wrong)])[input_splits], input_values[~is_wrong]
  else:
    bounds, points = input_splits, np.where(is_wrong, replacement_char, input_values)
  text = points.astype("<i4")
  rows = (text[start:stop].tobytes() for start, stop in itertools.pairwise(bounds.tolist()))
  return string_array(row.decode("utf-32-le").encode(codec) for row in rows)


def _codec(op: str, encoding: str) -> str:
  codec = _CODECS.get(encoding.upper())
  if codec is None:
    raise UnsupportedAttrError(f"{op}: encoding {encoding!r} is not supported; expected one of {sorted(_CODECS)}.")
  return codec


def _replaced(item: bytes, codec: str, errors: str, replacement: int, controls: bool) -> Iterator[tuple[int, int]]:
  """Yields the code points of a string and their positions, with errors handled as the op says."""
  for point, start in code_points(item, codec):
    if point is not None and not (controls and point in _CONTROL_CHARACTERS):
      yield point, start
    elif errors == "strict":
      raise InvalidInputError(f"Unicode: malformed text in {item!r} at byte {start}, and errors='strict'.")
    elif errors == "replace":
      yield replacement, start


def code_points(item: bytes, codec: str = "utf-8") -> Iterator[tuple[int | None, int]]:
  """Yields `(code point, position)`; None in place of the code point for a malformed sequence."""
  position = 0
  while position < len(item):
    rest = item[position : position + _WINDOW_BYTES]
    try:
      text, problem = rest.decode(codec), None
    except UnicodeDecodeError as e:
      text, problem = rest[: e.start].decode(codec), e
    for character in text:
      yield ord(character), position
      position += len(character.encode(codec))
    # A sequence that the end of the window cuts is read again, in the next one.
    if problem is not None and (len(rest) < _WINDOW_BYTES or problem.start < len(rest) - _LONGEST_SEQUENCE_BYTES):
      yield None, position
      position += problem.end - problem.start
