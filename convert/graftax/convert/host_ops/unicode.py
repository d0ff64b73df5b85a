"""Unicode: UnicodeDecode, UnicodeDecodeWithOffsets, UnicodeEncode, UnicodeTranscode."""

from collections.abc import Iterator

import numpy as np

from graftax.convert.host_ops.registry import host_op
from graftax.convert.host_ops.values import map_strings, string_array
from graftax.ops_jax import InvalidInputError, UnsupportedAttrError

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
  rows = [
    list(_replaced(item, codec, errors, replacement_char, replace_control_characters))
    for item in input_.reshape(-1).tolist()
  ]
  points = [point for row in rows for point in row]
  values = np.array([point for point, _ in points], np.int32)
  starts = np.array([start for _, start in points], np.int64)
  return np.cumsum([0, *map(len, rows)]).astype(Tsplits), values, starts


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
) -> np.ndarray:
  """Returns a string for each row of code points.

  Raises:
    InvalidInputError: a number is not a code point and `errors` is "strict".
  """
  codec = _codec("UnicodeEncode", output_encoding)
  points = input_values.tolist()

  def encode(row: list[int]) -> bytes:
    kept = []
    for point in row:
      if 0 <= point <= _LAST_CODE_POINT and point not in _SURROGATES:
        kept.append(point)
      elif errors == "strict":
        raise InvalidInputError(f"UnicodeEncode: {point} is not a code point, and errors='strict'.")
      elif errors == "replace":
        kept.append(replacement_char)
    return "".join(map(chr, kept)).encode(codec)

  bounds = zip(input_splits[:-1].tolist(), input_splits[1:].tolist(), strict=True)
  return string_array(encode(points[start:stop]) for start, stop in bounds)


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
