"""Pieces of words from a vocabulary in a trie: FastWordpieceTokenizeWithOffsets.

The op's model is a FlatBuffer with a double-array trie. A unit of its array holds the label of the edge to a node, and
where the node's children are. TensorFlow follows failure links to find the longest pieces in linear time. This module
walks the trie again for each piece, with the same result. The steps are counted, because a trie that leads in a circle
makes each walk as long as the word.
"""

import dataclasses
import functools
import re
import struct
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from graftax.convert.host_ops.registry import host_op
from graftax.convert.host_ops.unicode import code_points
from graftax.convert.host_ops.values import TextMeter, string_array
from graftax.graphdef_ir import Budget, optional_library
from graftax.ops_jax import NO_BUDGET, InvalidInputError

__all__ = ["fast_wordpiece_tokenize_with_offsets"]

_SPACES = frozenset(map(ord, "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000")) | frozenset(
  range(0x2000, 0x200B)
)
# What BERT treats as words of one character besides Unicode's punctuation: ASCII symbols and Chinese characters.
_ALONE = re.compile(
  r"[!-/:-@\[-`{-~\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
  "\U00020000-\U0002a6df\U0002a700-\U0002b73f\U0002b740-\U0002b81f\U0002b820-\U0002ceaf\U0002f800-\U0002fa1f]"
)
# The fields of the FlatBuffer by number, those that are read.
_TRIE, _SUFFIX_ROOT, _MAX_BYTES, _SUFFIX_INDICATOR, _UNKNOWN, _UNKNOWN_ID = 0, 3, 4, 5, 6, 7
_OF_INDICATOR, _END_TO_END = 8, 10


@dataclasses.dataclass(frozen=True, slots=True)
class _Model:
  """The op's model.

  Attributes:
    trie: the units of the array.
    suffix_root: the node from which pieces start that do not begin a word.
    max_bytes: the length of the longest word; longer ones are unknown.
    suffix_indicator: what marks pieces that do not begin a word.
    unknown: the piece in place of an unknown word.
    unknown_id: its number.
    of_indicator: the pieces of the word that is the suffix indicator itself, encoded as in the trie.
    end_to_end: whether the op splits text into words, and not just words into pieces.
  """

  trie: Sequence[int]
  suffix_root: int
  max_bytes: int
  suffix_indicator: bytes
  unknown: bytes
  unknown_id: int
  of_indicator: tuple[int, ...]
  end_to_end: bool

  def longest(self, word: bytes, start: int) -> tuple[tuple[int, int] | None, int]:
    """Returns `((end, number), steps)` of the longest piece that begins at a position of a word.

    Returns `(None, steps)` if no piece begins there. `steps` counts the visited nodes of the trie.
    """
    if word == self.suffix_indicator and not start and len(self.of_indicator) == 1:
      # The trie does not have this piece.
      return (len(word), _number(self.of_indicator[0])), 1
    node, found, position = (self.suffix_root if start else 0), None, start
    for position in range(start, len(word)):
      node ^= _children(self.trie[node]) ^ word[position]
      if node >= len(self.trie) or self.trie[node] & 0x800000FF != word[position]:
        break
      if self.trie[node] & 0x100:
        value = self.trie[node ^ _children(self.trie[node])]
        found = position + 1, _number(value)
    return found, position - start + 1


def _number(value: int) -> int:
  """Returns the number of a piece from the value of a node, whose other bits are flags and the piece's length."""
  return (value & 0x3FFFFFFF) >> 8


def _children(unit: int) -> int:
  """Returns the position of a node's children, relative to it and to be combined with a label by exclusive or."""
  return (unit >> 10) << ((unit & 0x200) >> 6)


@host_op("FastWordpieceTokenizeWithOffsets")
def fast_wordpiece_tokenize_with_offsets(
  input_values: np.ndarray, wp_model: np.ndarray, *, budget: Budget = NO_BUDGET
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
  """Returns the longest pieces of each word or text: pieces, their numbers, row splits, starts and ends in bytes.

  Raises:
    InvalidInputError: the model cannot be read, or its trie is damaged.
    LimitExceededError: the pieces are too long, or finding them takes too many steps.
  """
  model = _read_model(wp_model.tobytes())

  meter = TextMeter(budget, "FastWordpieceTokenizeWithOffsets")
  try:
    rows = [
      [piece for start, word in _words(text, model) for piece in _pieces(word, start, model, meter)]
      for text in input_values.reshape(-1).tolist()
    ]
  except IndexError as e:
    raise InvalidInputError(
      f"FastWordpieceTokenizeWithOffsets: its model is damaged: the trie of {len(model.trie)} units refers to a unit "
      "beyond its end; build the model again."
    ) from e
  meter.finish()
  pieces = [piece for row in rows for piece in row]
  ids, starts, ends = (np.array([piece[i] for piece in pieces], np.int64) for i in (1, 2, 3))
  return string_array(p[0] for p in pieces), ids, np.cumsum([0, *map(len, rows)]).astype(np.int64), starts, ends


def _pieces(word: bytes, offset: int, model: _Model, meter: TextMeter) -> list[tuple[bytes, int, int, int]]:
  """Returns the pieces of one word: text, number, start and end."""
  pieces: list[tuple[bytes, int, int, int]] = []
  start = 0
  while start < len(word):
    longest, num_steps = model.longest(word, start) if len(word) <= model.max_bytes else (None, 0)
    # A step takes as long as copying a byte, or longer.
    meter.count(num_steps + len(model.suffix_indicator))
    if longest is None:
      return [(model.unknown, model.unknown_id, offset, offset + len(word))]
    end, number = longest
    text = model.unknown if number == model.unknown_id else word[start:end]
    pieces.append((model.suffix_indicator + text if start else text, number, offset + start, offset + end))
    start = end
  return pieces


def _words(text: bytes, model: _Model) -> Iterator[tuple[int, bytes]]:
  """Yields the words of a text and where they start, split as BERT does, if the model says so."""
  if not model.end_to_end:
    yield 0, text
    return
  start = 0
  points = list(code_points(text))
  ends = [position for _, position in points[1:]] + [len(text)]
  for (point, position), following in zip(points, ends, strict=False):
    is_space = point in _SPACES
    if is_space or (point is not None and _stands_alone(chr(point), model)):
      if start < position:
        yield start, text[start:position]
      if not is_space:
        yield position, text[position:following]
      start = following
  if start < len(text):
    yield start, text[start:]


def _stands_alone(character: str, model: _Model) -> bool:
  category = unicodedata.category(character)
  if category == "Cn":
    # The trie has all punctuation, also of later versions of Unicode; what the vocabulary lacks is unknown in it.
    encoded = character.encode()
    return model.longest(encoded, 0)[0] == (len(encoded), model.unknown_id)
  return category[0] == "P" or _ALONE.match(character) is not None


@functools.lru_cache(maxsize=8)
def _read_model(data: bytes) -> _Model:
  with optional_library("the model's host part, which has tokenizers,", "graftax-convert[text]"):
    import flatbuffers
  types = flatbuffers.number_types
  try:
    root = flatbuffers.encode.Get(flatbuffers.packer.uoffset, data, 0)
    table = flatbuffers.table.Table(data, root)

    def offset(field: int) -> Any:
      return table.Offset(4 + 2 * field)

    def scalar(field: int, kind: Any) -> Any:
      return table.Get(kind, root + offset(field)) if offset(field) else 0

    def vector(field: int) -> list[int]:
      return np.frombuffer(data, "<u4", table.VectorLen(offset(field)), table.Vector(offset(field))).tolist()

    return _Model(
      vector(_TRIE),
      scalar(_SUFFIX_ROOT, types.Uint32Flags),
      scalar(_MAX_BYTES, types.Int32Flags),
      table.String(root + offset(_SUFFIX_INDICATOR)),
      table.String(root + offset(_UNKNOWN)),
      scalar(_UNKNOWN_ID, types.Int32Flags),
      tuple(vector(_OF_INDICATOR)),
      bool(scalar(_END_TO_END, types.BoolFlags)),
    )
  except (ValueError, TypeError, IndexError, OverflowError, struct.error) as e:
    message = f"FastWordpieceTokenizeWithOffsets: its model of {len(data)} bytes cannot be read: {e}"
    raise InvalidInputError(message) from e
