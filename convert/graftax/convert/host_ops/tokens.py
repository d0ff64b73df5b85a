"""Splits text at whitespace, between scripts and into bytes: ops of TensorFlow Text that need no vocabulary."""

import array
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from graftax.convert.host_ops.registry import host_op
from graftax.convert.host_ops.scripts import unicode_script
from graftax.convert.host_ops.unicode import code_points
from graftax.convert.host_ops.values import ITEM_BYTES, check_splits, scalar_string, string_array
from graftax.graphdef_ir import Budget
from graftax.ops_jax import NO_BUDGET, InvalidInputError

__all__ = [
  "byte_split_by_offsets",
  "byte_split_with_offsets",
  "unicode_script_tokenize_with_offsets",
  "whitespace_tokenize_with_offsets",
  "whitespace_tokenize_with_offsets_v2",
]

# What ICU's u_isUWhiteSpace says, and with it these ops.
_SPACES = np.array(
  [*range(0x09, 0x0E), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000]
)
# Start and end of a token in a row.
_Token = tuple[int, int]
_Ragged = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]


@host_op("TFText>WhitespaceTokenizeWithOffsetsV2")
def whitespace_tokenize_with_offsets_v2(
  input_values: np.ndarray, input_config: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
  """Returns the words of each text: words, row splits, and the positions of their first and last bytes.

  `input_config` has a bit for each code point that tells whether it is whitespace.
  """
  config = scalar_string(input_config, "WhitespaceTokenizeWithOffsetsV2: input_config")

  def is_space(point: int | None) -> bool:
    return point is not None and point >> 3 < len(config) and bool(config[point >> 3] >> (point & 7) & 1)

  words: list[bytes] = []
  splits, starts, ends = [0], array.array("i"), array.array("i")
  for text in input_values.reshape(-1).tolist():
    for start, end in _words(text, is_space):
      words.append(text[start:end])
      starts.append(start)
      ends.append(end)
    splits.append(len(words))
  return string_array(words), np.array(splits, np.int64), np.array(starts, np.int32), np.array(ends, np.int32)


def _words(text: bytes, is_space: Callable[[int | None], bool]) -> Iterator[_Token]:
  start = None
  for point, position in code_points(text):
    if is_space(point):
      if start is not None:
        yield start, position
      start = None
    elif start is None:
      start = position
  if start is not None:
    yield start, len(text)


def _splits(rows: Sequence[Sequence[object]]) -> np.ndarray:
  return np.cumsum([0, *map(len, rows)]).astype(np.int64)


@host_op("WhitespaceTokenizeWithOffsets", ignores=("Tsplits",))
def whitespace_tokenize_with_offsets(
  input_values: np.ndarray, input_splits: np.ndarray, *, budget: Budget = NO_BUDGET
) -> _Ragged:
  """Returns the words of rows of code points; see `_ragged_tokens`.

  Raises:
    InvalidInputError: the row splits do not divide the code points.
    LimitExceededError: there are more code points than the limits of the call allow.
  """
  _check_points(input_values, input_splits, budget, "WhitespaceTokenizeWithOffsets")
  is_space = np.isin(input_values, _SPACES)
  return _ragged_tokens(input_values, input_splits, is_space, ~is_space)


@host_op("UnicodeScriptTokenizeWithOffsets", ignores=("Tsplits",))
def unicode_script_tokenize_with_offsets(
  input_values: np.ndarray,
  input_splits: np.ndarray,
  *,
  keep_whitespace: bool = False,
  budget: Budget = NO_BUDGET,
) -> _Ragged:
  """Returns the runs of one script in rows of code points, without whitespace by default; see `_ragged_tokens`.

  Whitespace has the script of punctuation, so that it ends a run of letters. If it is kept, it is a run by itself.
  Otherwise it is left out, and what is on both sides of it in one run, such as signs, is joined, as in TensorFlow.

  Raises:
    InvalidInputError: the row splits do not divide the code points.
    LimitExceededError: there are more code points than the limits of the call allow.
  """
  _check_points(input_values, input_splits, budget, "UnicodeScriptTokenizeWithOffsets")
  is_space = np.isin(input_values, _SPACES)
  scripts = unicode_script(input_values)
  if keep_whitespace:
    return _ragged_tokens(input_values, input_splits, np.where(is_space, -2, scripts), np.ones(len(is_space), bool))
  return _ragged_tokens(input_values, input_splits, scripts, ~is_space)


def _check_points(points: np.ndarray, splits: np.ndarray, budget: Budget, op: str) -> None:
  check_splits(splits, points.size, op)
  # Each code point may be a token, which takes more than the string of one character.
  budget.check_text((points.size + splits.size) * ITEM_BYTES, op)


def _ragged_tokens(points: np.ndarray, splits: np.ndarray, kinds: np.ndarray, kept: np.ndarray) -> _Ragged:
  """Returns runs of code points of one kind, without those that are not kept.

  Returns:
    The code points of all runs, the splits between runs, the positions of the first and after the last code point
    of each run in its row, and the splits of runs into rows.
  """
  values, inner, starts, limits, outer = [], [0], [], [], [0]
  for first, last in zip(splits[:-1].tolist(), splits[1:].tolist(), strict=True):
    borders = [0, *(np.flatnonzero(np.diff(kinds[first:last])) + 1).tolist(), last - first] if last > first else [0]
    for start, end in zip(borders[:-1], borders[1:], strict=True):
      (positions,) = np.nonzero(kept[first + start : first + end])
      if len(positions):
        values.append(points[first + start + positions])
        inner.append(inner[-1] + len(positions))
        starts.append(start + int(positions[0]))
        limits.append(start + int(positions[-1]) + 1)
    outer.append(len(starts))
  flat = np.concatenate([np.zeros(0, points.dtype), *values])
  return (
    flat,
    np.array(inner, splits.dtype),
    np.array(starts, np.int64),
    np.array(limits, np.int64),
    np.array(outer, splits.dtype),
  )


@host_op("TFText>ByteSplitWithOffsets")
def byte_split_with_offsets(input_values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
  """Returns the bytes of each text, uint8, row splits, and the positions of each byte and of the one after it."""
  texts = input_values.reshape(-1).tolist()
  starts = np.concatenate([np.zeros(0, np.int32), *(np.arange(len(text), dtype=np.int32) for text in texts)])
  return np.frombuffer(b"".join(texts), np.uint8), _splits(texts), starts, starts + np.int32(1)


@host_op("TFText>ByteSplitByOffsets")
def byte_split_by_offsets(
  input_values: np.ndarray,
  input_start_offsets: np.ndarray,
  input_end_offsets: np.ndarray,
  input_row_splits: np.ndarray,
  *,
  budget: Budget = NO_BUDGET,
) -> tuple[np.ndarray, np.ndarray]:
  """Returns the parts of each text between positions, and their row splits.

  Raises:
    InvalidInputError: a position is outside of its text, or the row splits do not divide the positions.
    LimitExceededError: the parts are longer together than the limits of the call allow.
  """
  check_splits(input_row_splits, input_start_offsets.size, "ByteSplitByOffsets")
  sizes = np.subtract(input_end_offsets, input_start_offsets, dtype=np.int64)
  budget.check_text(int(np.maximum(sizes, 0).sum()) + sizes.size * ITEM_BYTES, "ByteSplitByOffsets")
  parts = []
  for text, first, last in zip(input_values.tolist(), input_row_splits[:-1], input_row_splits[1:], strict=True):
    for start, end in zip(input_start_offsets[first:last], input_end_offsets[first:last], strict=True):
      if not 0 <= start <= end <= len(text):
        raise InvalidInputError(f"ByteSplitByOffsets: {start} to {end} is not a part of {len(text)} bytes.")
      parts.append(text[start:end])
  return string_array(parts), input_row_splits
