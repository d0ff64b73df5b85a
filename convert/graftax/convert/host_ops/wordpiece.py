"""Pieces of words from a vocabulary in a table: WordpieceTokenizeWithOffsets."""

import bisect
import dataclasses
from collections.abc import Hashable, Iterator, Mapping, Sequence

import numpy as np

from graftax.convert.host_ops.registry import host_op
from graftax.convert.host_ops.tables import Table, longest_key, table_values
from graftax.convert.host_ops.unicode import character_ends
from graftax.convert.host_ops.values import TextMeter, string_array
from graftax.graphdef_ir import Budget
from graftax.ops_jax import NO_BUDGET

__all__ = ["wordpiece_tokenize_with_offsets"]

# The value in the table of a word that is not in the vocabulary.
_ABSENT = -1

# Looking up a piece takes as long as copying so many bytes of it, and one for each of these.
_BYTES_PER_STEP = 64

# A piece, and the positions of its first byte and of the one after its last in the word.
_Piece = tuple[bytes, int, int]


@dataclasses.dataclass(frozen=True, slots=True)
class _Vocabulary:
  """The vocabulary and the op's attributes.

  Attributes:
    ids: piece -> number.
    suffix_indicator: what marks pieces that do not begin a word.
    max_chars_per_token: the most characters of a piece; 0 for any number.
    unknown: what an unknown word becomes; None to keep it.
    split_unknown_characters: whether only the unknown characters of a word become unknown.
    longest: the length in bytes of the longest piece.
    meter: counts bytes of strings.
  """

  ids: Mapping[Hashable, int]
  suffix_indicator: bytes
  max_chars_per_token: int
  unknown: bytes | None
  split_unknown_characters: bool
  longest: int
  meter: TextMeter

  def __contains__(self, piece: bytes) -> bool:
    return self.ids.get(piece, _ABSENT) != _ABSENT

  def marked(self, piece: bytes, start: int) -> bytes:
    """Returns a piece as the vocabulary has it: with the indicator unless it begins the word."""
    return self.suffix_indicator + piece if start else piece


@host_op("WordpieceTokenizeWithOffsets")
def wordpiece_tokenize_with_offsets(
  input_values: np.ndarray,
  vocab_lookup_table: Table,
  *,
  suffix_indicator: bytes,
  max_bytes_per_word: int,
  max_chars_per_token: int = 0,
  use_unknown_token: bool,
  unknown_token: bytes,
  split_unknown_characters: bool = False,
  output_row_partition_type: bytes = b"row_lengths",
  budget: Budget = NO_BUDGET,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
  """Returns the longest pieces that make up each word: pieces, row lengths or splits, starts and ends in bytes.

  Raises:
    LimitExceededError: the pieces are too long, or too many have to be looked up.
  """
  vocabulary = _Vocabulary(
    table_values(vocab_lookup_table),
    suffix_indicator,
    max_chars_per_token,
    unknown_token if use_unknown_token else None,
    split_unknown_characters,
    longest_key(vocab_lookup_table),
    TextMeter(budget, "WordpieceTokenizeWithOffsets"),
  )
  rows = [_pieces_of(word, vocabulary, max_bytes_per_word) for word in input_values.reshape(-1).tolist()]
  vocabulary.meter.finish()
  lengths = [len(row) for row in rows]
  partition = lengths if output_row_partition_type == b"row_lengths" else np.cumsum([0, *lengths])
  pieces = [piece for row in rows for piece in row]
  starts, ends = (np.array([piece[i] for piece in pieces], np.int64) for i in (1, 2))
  return string_array(text for text, _, _ in pieces), np.asarray(partition, np.int64), starts, ends


def _pieces_of(word: bytes, vocabulary: _Vocabulary, max_bytes: int) -> list[_Piece]:
  if len(word) > max_bytes:
    # TensorFlow gives the length of the unknown token as the end here, but that of the word below.
    return [(word, 0, len(word)) if vocabulary.unknown is None else (vocabulary.unknown, 0, len(vocabulary.unknown))]
  found = list(_greedy_pieces(word, vocabulary))
  if None in found:
    return [(word if vocabulary.unknown is None else vocabulary.unknown, 0, len(word))]
  return [piece for piece in found if piece is not None]


def _greedy_pieces(word: bytes, vocabulary: _Vocabulary) -> Iterator[_Piece | None]:
  """Yields the longest pieces from left to right; None if nothing in the vocabulary matches."""
  ends, start = character_ends(word), 0
  while start < len(word):
    first = bisect.bisect_right(ends, start)
    end = _longest(word, start, ends, first, vocabulary)
    if end is not None:
      yield vocabulary.marked(word[start:end], start), start, end
    elif vocabulary.split_unknown_characters:
      end = ends[first]
      piece = word[start:end] if vocabulary.unknown is None else vocabulary.unknown
      yield vocabulary.marked(piece, start), start, end
    else:
      yield None
      return
    start = end


def _longest(word: bytes, start: int, ends: Sequence[int], first: int, vocabulary: _Vocabulary) -> int | None:
  """Returns the end of the longest piece at a position; None if there is none.

  Args:
    word: the word.
    start: the position.
    ends: where the characters of the word end.
    first: the index in `ends` of the character at the position.
    vocabulary: the pieces.
  """
  # No end but the first if even that is too long for a piece.
  last = max(first + 1, bisect.bisect_right(ends, start + vocabulary.longest))
  if vocabulary.max_chars_per_token > 0:
    last = min(last, first + vocabulary.max_chars_per_token)
  marked = len(vocabulary.suffix_indicator) if start else 0
  num_tried = 0
  for index in range(last - 1, first - 1, -1):
    num_tried += 1 + (marked + ends[index] - start) // _BYTES_PER_STEP
    if vocabulary.marked(word[start : ends[index]], start) in vocabulary:
      vocabulary.meter.count(num_tried + marked)
      return ends[index]
  vocabulary.meter.count(num_tried + marked)
  return None
