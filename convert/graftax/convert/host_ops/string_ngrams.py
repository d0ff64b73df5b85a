"""N-grams of strings: StringNGrams, NgramsStringJoin of TensorFlow Text."""

from collections.abc import Iterator, Sequence

import numpy as np

from graftax.convert.host_ops.registry import host_op
from graftax.convert.host_ops.values import ITEM_BYTES, check_splits, num_bytes, string_array
from graftax.graphdef_ir import Budget
from graftax.ops_jax import NO_BUDGET, InvalidInputError

__all__ = ["ngrams_string_join", "string_n_grams"]


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
  check_splits(splits, data.size, "StringNGrams")
  if any(width < 1 for width in widths):
    raise InvalidInputError(f"StringNGrams: ngram_widths are {widths!r}; expected numbers of at least 1.")
  num_rows = splits.size - 1
  total = 0
  for width in widths:
    padding = max(_padding(width, pad_width), 0)
    total += width * (num_bytes(data) + num_rows * 2 * padding * (pad_bytes + ITEM_BYTES) + data.size * len(separator))
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
