"""Strings by bytes: StringLower, StringSplit, StringJoin, Add, AsString, StringToNumber, n-grams, base64."""

import base64
import binascii
import math
import re
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from graftax.convert.host_ops.registry import host_op
from graftax.convert.host_ops.unicode import decode_replacing
from graftax.convert.host_ops.values import as_strings, map_strings, num_bytes, scalar_string, string_array
from graftax.graphdef_ir import Budget
from graftax.ops_jax import NO_BUDGET, InvalidInputError, lowering

__all__ = [
  "add",
  "as_string",
  "decode_base64",
  "encode_base64",
  "ngrams_string_join",
  "reduce_join",
  "string_join",
  "string_length",
  "string_lower",
  "string_n_grams",
  "string_split",
  "string_split_v2",
  "string_strip",
  "string_to_number",
  "string_upper",
  "substr",
  "unsorted_segment_join",
]

# What a string takes besides its bytes.
_ITEM_BYTES = 8

# Flags of C's printf.
_FILLS = (b"", b" ", b"+", b"-", b"0", b"#")

# Its groups are the digits with their point, and the sign and the digits of the exponent without leading zeros.
_HEXADECIMAL = re.compile(r"[+-]?0[xX]([0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)(?:[pP]([+-]?)0*([0-9]+))?")
# Bits of hexadecimal floats that are kept to round to float32: more than 24 and less than the 53 of float64.
_KEPT_BITS = 50
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[+-]?(inf|infinity|nan)", re.IGNORECASE)
_INTEGER = re.compile(rb"[+-]?[0-9]+")


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
def substr(input_: np.ndarray, pos: np.ndarray, len_: np.ndarray, *, unit: str = "BYTE") -> np.ndarray:
  """Returns a part of each string. A negative position counts from the end.

  A negative length returns the rest of the string if the unit is bytes. If it is characters, the result is empty.

  Raises:
    InvalidInputError: a position lies outside of its string, or both it and the length are negative and the unit is
      characters.
  """
  cut = _substring_of_bytes if unit == "BYTE" else _substring_of_characters
  shape = np.broadcast_shapes(input_.shape, np.shape(pos), np.shape(len_))
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
    num_bytes(inputs) + inputs.size * len(separator) + count * max(rest, 1) * _ITEM_BYTES, "UnsortedSegmentJoin"
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


@host_op("AsString", ignores=("T",))
def as_string(
  input_: np.ndarray,
  *,
  precision: int = -1,
  scientific: bool = False,
  shortest: bool = False,
  width: int = -1,
  fill: bytes = b"",
  budget: Budget = NO_BUDGET,
) -> np.ndarray:
  """Returns numbers as text, formatted as C's `printf` does.

  Raises:
    InvalidInputError: `fill` is none of the characters that TensorFlow accepts, or the dtype has no such format.
    LimitExceededError: the width or the precision is too large.
  """
  if input_.dtype == object:
    return input_
  _check_format(input_.dtype, precision, scientific, shortest, fill)
  # A float64 has up to 309 digits before its point.
  budget.check_text(input_.size * (max(width, 0) + max(precision, 0) + _ITEM_BYTES), "AsString")
  # C has no signs for integers without sign.
  flag = "" if input_.dtype.kind == "u" and fill in (b"+", b" ") else fill.decode()
  size = (str(width) if width > -1 else "") + (f".{precision}" if precision > -1 else "")
  kind = "d" if input_.dtype.kind in "iu" else "e" if scientific else "g" if shortest else "f"
  template = f"%{flag}{size}{kind}"
  # C does not pad these with zeros.
  not_finite = f"%{flag.replace('0', '')}{size}{kind}"

  def text(number: complex) -> str:
    if isinstance(number, bool):
      return "true" if number else "false"
    if isinstance(number, complex):
      return f"({text(number.real)},{text(number.imag)})"
    return (template if np.isfinite(number) else not_finite) % number

  # float16 and bfloat16 have no Python type of their own.
  wide = input_.astype(np.float64) if input_.dtype.kind in "fV" else input_
  return string_array((text(number).encode() for number in wide.reshape(-1).tolist()), input_.shape)


def _check_format(dtype: np.dtype, precision: int, scientific: bool, shortest: bool, fill: bytes) -> None:
  if fill not in _FILLS:
    raise InvalidInputError(f"AsString: fill is {fill!r}; expected one of {', '.join(map(repr, _FILLS))}.")
  if scientific and shortest:
    raise InvalidInputError("AsString: both scientific and shortest are set; expected at most one.")
  if dtype.kind in "biu" and (precision > -1 or scientific or shortest):
    raise InvalidInputError(
      f"AsString: precision={precision!r}, scientific={scientific!r}, shortest={shortest!r} of {dtype} numbers; only "
      "floats and complex numbers have a format."
    )


@host_op("StringToNumber")
def string_to_number(string_tensor: np.ndarray, *, out_type: np.dtype) -> np.ndarray:
  """Returns the numbers that strings spell.

  Raises:
    InvalidInputError: a string is not a number of that type.
  """
  parse = _parse_float if out_type.kind == "f" else _parse_integer
  return map_strings(lambda item: parse(item, out_type), string_tensor, out_type)


def _parse_float(item: bytes, dtype: np.dtype) -> float:
  text = item.strip().decode(errors="replace")
  with np.errstate(over="ignore"):
    if _DECIMAL.fullmatch(text) or _NOT_FINITE.fullmatch(text):
      # Through the text, since rounding to float64 first can change the last bit of a float32.
      return float(dtype.type(text))
    if hexadecimal := _HEXADECIMAL.fullmatch(text):
      return float(dtype.type(_parse_hexadecimal(hexadecimal, dtype)))
  raise InvalidInputError(f"StringToNumber: {item!r} is not a number; expected text such as '1.5' for {dtype}.")


def _parse_hexadecimal(match: re.Match[str], dtype: np.dtype) -> float:
  """Returns a float64 that rounds to `dtype` as the number itself does."""
  try:
    value = float.fromhex(match[0])
  except OverflowError:
    return -math.inf if match[0].startswith("-") else math.inf
  # Only now, because for 0 and what rounds to it the exponent may be of any size.
  if dtype == np.float64 or value == 0:
    return value
  whole, _, fraction = match[1].partition(".")
  digits = int(whole + fraction, 16)
  exponent = int(f"{match[2]}{match[3]}" if match[3] else "0") - 4 * len(fraction)
  num_dropped = max(digits.bit_length() - _KEPT_BITS, 0)
  kept = digits >> num_dropped
  # The last bit says whether there are others after it, so that what is more than a tie is not rounded as a tie.
  kept |= kept << num_dropped != digits
  return math.copysign(math.ldexp(kept, exponent + num_dropped), value)


def _parse_integer(item: bytes, dtype: np.dtype) -> int:
  text = item.strip()
  value = int(text) if _INTEGER.fullmatch(text) else None
  limits = np.iinfo(dtype)
  if value is None or not limits.min <= value <= limits.max:
    raise InvalidInputError(f"StringToNumber: {item!r} is not a number of {dtype}, {limits.min} to {limits.max}.")
  return value


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


@host_op("StringNGrams", ignores=("Tsplits",))
def string_n_grams(
  data: np.ndarray,
  data_splits: np.ndarray,
  *,
  separator: bytes,
  ngram_widths: tuple[int, ...],
  left_pad: bytes,
  right_pad: bytes,
  pad_width: int,
  preserve_short_sequences: bool,
  budget: Budget = NO_BUDGET,
) -> tuple[np.ndarray, np.ndarray]:
  """Returns the n-grams of each row, all of the first width before those of the next, and their row splits."""
  _check_grams(data, data_splits, separator, ngram_widths, max(len(left_pad), len(right_pad)), pad_width, budget)
  rows: list[list[bytes]] = []
  for start, stop in zip(data_splits[:-1].tolist(), data_splits[1:].tolist(), strict=True):
    tokens = data[start:stop].tolist()
    grams = [
      gram
      for width in ngram_widths
      for gram in _grams(tokens, width, separator, left_pad, right_pad, _padding(width, pad_width))
    ]
    if not grams and preserve_short_sequences and tokens:
      # One n-gram of the whole row, with as much padding as it would have.
      padding = max(pad_width, 0)
      grams = list(_grams(tokens, len(tokens) + 2 * padding, separator, left_pad, right_pad, padding))
    rows.append(grams)
  splits = np.cumsum([0, *map(len, rows)]).astype(data_splits.dtype)
  return string_array(gram for row in rows for gram in row), splits


def _check_grams(
  data: np.ndarray,
  splits: np.ndarray,
  separator: bytes,
  widths: tuple[int, ...],
  pad_bytes: int,
  pad_width: int,
  budget: Budget,
) -> None:
  """Raises if row splits do not divide the data, a width is not positive, or the n-grams are too large."""
  if splits.size == 0 or splits[0] != 0 or np.any(splits[1:] < splits[:-1]) or splits[-1] != data.size:
    raise InvalidInputError(f"StringNGrams: data_splits do not divide {data.size} strings.")
  if any(width < 1 for width in widths):
    raise InvalidInputError(f"StringNGrams: ngram_widths are {widths!r}; expected numbers of at least 1.")
  num_rows = splits.size - 1
  total = 0
  for width in widths:
    padding = max(_padding(width, pad_width), 0)
    total += width * (num_bytes(data) + num_rows * 2 * padding * (pad_bytes + _ITEM_BYTES) + data.size * len(separator))
  budget.check_text(total, "StringNGrams")


@host_op("TFText>NgramsStringJoin", ignores=("RAGGED_RANK", "Tsplits"))
def ngrams_string_join(
  input_values: np.ndarray,
  input_row_splits: list[np.ndarray],
  *,
  width: int,
  axis: int = -1,
  string_separator: bytes = b"",
  budget: Budget = NO_BUDGET,
) -> tuple[np.ndarray, ...]:
  """Returns the joined n-grams of each row without padding, then the row splits.

  Without row splits, rows are those of the last axis.

  Raises:
    InvalidInputError: the axis is not -1, as in TensorFlow. Or the rows have no last axis, row splits do not divide
      them, or the width is not positive: TensorFlow Text 2.21 ends the process, or returns a part.
  """
  if axis != -1:
    raise InvalidInputError(f"NgramsStringJoin: axis={axis!r}; expected -1.")
  if width < 1 or input_values.ndim == 0 or (input_row_splits and input_values.ndim > 1):
    raise InvalidInputError(
      f"NgramsStringJoin: width={width!r}, strings of shape {input_values.shape}, {len(input_row_splits)} row splits; "
      "expected a width of at least 1, and with row splits strings of rank 1."
    )
  if not input_row_splits:
    *outer, length = input_values.shape
    # A size of 0 before the last axis leaves no row.
    borders = np.arange(0, input_values.size + 1, length) if input_values.size else np.zeros(1, np.int64)
    grams, _ = _joined_grams(input_values.reshape(-1), borders, width, string_separator, budget)
    return (grams.reshape(*outer, max(length - width + 1, 0)),)
  *outer_splits, inner = input_row_splits
  grams, splits = _joined_grams(input_values, inner, width, string_separator, budget)
  return (grams, *outer_splits, splits)


def _joined_grams(
  data: np.ndarray, splits: np.ndarray, width: int, separator: bytes, budget: Budget
) -> tuple[np.ndarray, np.ndarray]:
  return string_n_grams(
    data,
    splits,
    separator=separator,
    ngram_widths=(width,),
    left_pad=b"",
    right_pad=b"",
    pad_width=0,
    preserve_short_sequences=False,
    budget=budget,
  )


def _padding(width: int, pad_width: int) -> int:
  return min(width - 1 if pad_width < 0 else pad_width, width - 1)


def _grams(
  tokens: Sequence[bytes], width: int, separator: bytes, left: bytes, right: bytes, padding: int
) -> Iterator[bytes]:
  padded = [left] * padding + [*tokens] + [right] * padding
  for start in range(len(padded) - width + 1):
    yield separator.join(padded[start : start + width])


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
