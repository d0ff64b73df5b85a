"""Trims rows of several tensors to one length: RoundRobinTrim, RoundRobinGenerateMasks of TensorFlow Text."""

from collections.abc import Sequence

import numpy as np

from graftax.convert.host_ops.registry import host_op
from graftax.convert.host_ops.values import check_splits

__all__ = ["round_robin_generate_masks", "round_robin_trim"]

_TYPES = ("N", "T", "Tsplits")


@host_op("TFText>RoundRobinTrim", ignores=_TYPES)
def round_robin_trim(
  max_sequence_length: np.ndarray, input_values: list[np.ndarray], input_row_splits: list[np.ndarray]
) -> tuple[np.ndarray, ...]:
  """Returns the values that are kept, then their row splits, for each tensor.

  The rows of all tensors at one position share `max_sequence_length` items, which they get in turns.

  Raises:
    InvalidInputError: row splits do not divide the values.
  """
  masks = round_robin_generate_masks(max_sequence_length, input_values, input_row_splits)
  kept = _kept_lengths(max_sequence_length, input_row_splits)
  values = [array[mask] for array, mask in zip(input_values, masks, strict=True)]
  splits = [
    np.concatenate([[0], np.cumsum(lengths)]).astype(old.dtype)
    for lengths, old in zip(kept, input_row_splits, strict=True)
  ]
  return (*values, *splits)


@host_op("TFText>RoundRobinGenerateMasks", ignores=_TYPES)
def round_robin_generate_masks(
  max_sequence_length: np.ndarray, input_values: list[np.ndarray], input_row_splits: list[np.ndarray]
) -> tuple[np.ndarray, ...]:
  """Returns for each tensor which of its values `round_robin_trim` keeps.

  Raises:
    InvalidInputError: row splits do not divide the values.
  """
  for values, splits in zip(input_values, input_row_splits, strict=True):
    check_splits(splits, len(values), "RoundRobinTrim")
  kept = _kept_lengths(max_sequence_length, input_row_splits)
  masks = []
  for values, splits, lengths in zip(input_values, input_row_splits, kept, strict=True):
    positions = np.arange(len(values)) - np.repeat(splits[:-1], np.diff(splits))
    masks.append(positions < np.repeat(lengths, np.diff(splits)))
  return tuple(masks)


def _kept_lengths(limit: np.ndarray, row_splits: Sequence[np.ndarray]) -> np.ndarray:
  """Returns how many items of each row are kept, `[tensors, rows]`."""
  lengths = np.stack([np.diff(splits) for splits in row_splits])
  rest = np.full(lengths.shape[1], max(int(limit), 0))
  kept = np.zeros_like(lengths)
  while True:
    # As many whole turns as the shortest row that is not exhausted allows, then the others of the last turn.
    open_ = kept < lengths
    number = open_.sum(0)
    turns = np.minimum(
      np.where(open_, lengths - kept, np.iinfo(lengths.dtype).max).min(0), rest // np.maximum(number, 1)
    )
    turns = np.where(number > 0, turns, 0)
    if not turns.any():
      break
    kept += open_ * turns.astype(kept.dtype)
    rest = rest - turns * number
  open_ = kept < lengths
  return kept + (open_ & (np.cumsum(open_, 0) <= rest))
