"""Pieces of text by a SentencePiece model, with the library sentencepiece: SentencepieceTokenizeOp and others."""

import dataclasses
import functools
import itertools
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from graftax.convert.host_ops.registry import host_op
from graftax.convert.host_ops.values import ITEM_BYTES, check_splits, string_array
from graftax.convert.host_ops.wire_format import fields
from graftax.convert.program import SentencePieceModel
from graftax.graphdef_ir import Budget, LibraryNotFoundError, optional_library
from graftax.ops_jax import NO_BUDGET, InvalidInputError, UnsupportedAttrError

__all__ = [
  "sentencepiece_detokenize_op",
  "sentencepiece_id_to_string_op",
  "sentencepiece_op",
  "sentencepiece_string_to_id_op",
  "sentencepiece_tokenize_op",
  "sentencepiece_tokenize_with_offsets_op",
  "sentencepiece_vocab_size_op",
]

# A SentencePieceProcessor; the library is optional.
_Processor: TypeAlias = Any
_INT64 = np.dtype(np.int64)

# Older versions read and write beyond the end of the rules for characters of a model that is made for it.
_FIRST_SAFE_VERSION = (0, 2, 2)

# Numbers of fields: of the model, of the trainer's and of the normalizer's options.
_OF_PIECES, _OF_TRAINER, _OF_NORMALIZER, _OF_DENORMALIZER = 1, 2, 3, 5
_UNKNOWN_SURFACE, _RULES = 44, 2

# A piece, its number, and the positions of its first byte and of the one after its last.
_Piece = tuple[bytes, int, int, int]


@host_op("SentencepieceOp", ignores=("container", "shared_name", "use_node_name_sharing"))
def sentencepiece_op(*, model: bytes) -> SentencePieceModel:
  """Returns the model that an attribute holds."""
  return SentencePieceModel("a SentencePiece model", model)


@host_op("SentencepieceTokenizeOp", ignores=("num_threads", "chunk_size"))
def sentencepiece_tokenize_op(
  sp_handle: SentencePieceModel,
  input_: np.ndarray,
  nbest_size: np.ndarray,
  alpha: np.ndarray,
  add_bos: np.ndarray,
  add_eos: np.ndarray,
  reverse: np.ndarray,
  *,
  out_type: np.dtype,
  Tsplits: np.dtype = _INT64,
  return_nbest: bool = False,
  budget: Budget = NO_BUDGET,
) -> tuple[np.ndarray, np.ndarray]:
  """Returns the pieces of each text, or their numbers, and row splits; see `sentencepiece_tokenize_with_offsets_op`."""
  values, splits, _, _ = sentencepiece_tokenize_with_offsets_op(
    sp_handle, input_, nbest_size, alpha, add_bos, add_eos, reverse,
    out_type=out_type, Tsplits=Tsplits, return_nbest=return_nbest, budget=budget,
  )  # fmt: skip
  return values, splits


@host_op("SentencepieceTokenizeWithOffsetsOp")
def sentencepiece_tokenize_with_offsets_op(
  sp_handle: SentencePieceModel,
  input_: np.ndarray,
  nbest_size: np.ndarray,
  alpha: np.ndarray,
  add_bos: np.ndarray,
  add_eos: np.ndarray,
  reverse: np.ndarray,
  *,
  out_type: np.dtype,
  Tsplits: np.dtype = _INT64,
  return_nbest: bool = False,
  budget: Budget = NO_BUDGET,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
  """Returns the pieces of each text, or their numbers, row splits, and the pieces' starts and ends in bytes.

  Raises:
    InvalidInputError: the model is malformed.
    UnsupportedAttrError: the pieces are sampled, or several best ones are asked for.
    LimitExceededError: the model's rules may make the texts too long.
  """
  del alpha
  if return_nbest or not np.isin(nbest_size, (0, 1)).all():
    raise UnsupportedAttrError(
      f"SentencepieceTokenizeOp: nbest_size={np.asarray(nbest_size).tolist()!r} with return_nbest={return_nbest!r} is "
      "not supported; expected the best pieces, nbest_size 0 or 1."
    )
  processor = _processor(sp_handle)
  longest = _loaded(sp_handle.data).longest_replacement
  rows, num_made = [], 0
  for text in input_.reshape(-1).tolist():
    # The library makes the whole text before it returns a piece. Of earlier texts it is known what they became.
    budget.check_text(num_made + len(text) * longest, f"SentencepieceTokenizeOp, one rule of {longest} bytes,")
    rows.append(_pieces(processor, text))
    num_made += sum(len(piece) for piece, *_ in rows[-1])
  if add_bos:
    rows = [[_control(processor, processor.bos_id()), *row] for row in rows]
  if add_eos:
    rows = [[*row, _control(processor, processor.eos_id())] for row in rows]
  pieces = [piece for row in rows for piece in (reversed(row) if reverse else row)]
  splits = np.cumsum([0, *map(len, rows)]).astype(Tsplits)
  starts, ends = (np.array([piece[i] for piece in pieces], np.int64) for i in (2, 3))
  if out_type.kind == "O":
    return string_array(piece[0] for piece in pieces), splits, starts, ends
  return np.array([piece[1] for piece in pieces], out_type), splits, starts, ends


def _pieces(processor: _Processor, text: bytes) -> list[_Piece]:
  found = processor.encode(text, out_type="offset_mapping")
  triples = zip(found["pieces"], found["ids"], found["offsets"], strict=True)
  return [(piece, number, *offsets) for piece, number, offsets in triples]


def _control(processor: _Processor, number: int) -> _Piece:
  """Returns the piece at the start or the end, which has no place in the text.

  Raises:
    InvalidInputError: the model has no such piece.
  """
  _check_numbers(processor, [number])
  return processor.id_to_piece(number).encode(), number, 0, 0


@host_op("SentencepieceDetokenizeOp", ignores=("T", "Tsplits"))
def sentencepiece_detokenize_op(
  sp_handle: SentencePieceModel,
  input_values: np.ndarray,
  input_splits: np.ndarray,
  add_bos: np.ndarray,
  add_eos: np.ndarray,
  reverse: np.ndarray,
  *,
  budget: Budget = NO_BUDGET,
) -> np.ndarray:
  """Returns the text that each row of pieces or numbers spells.

  Raises:
    InvalidInputError: a number is not one of a piece, or the row splits do not divide them.
    LimitExceededError: the texts may be too long.
  """
  del add_bos, add_eos
  processor = _processor(sp_handle)
  check_splits(input_splits, len(input_values), "SentencepieceDetokenizeOp")
  longest = _loaded(sp_handle.data).longest_piece
  texts, num_made = [], 0
  for start, stop in itertools.pairwise(input_splits.tolist()):
    budget.check_text(
      num_made + (stop - start) * max(longest, 1), f"SentencepieceDetokenizeOp, one piece of {longest} bytes,"
    )
    row = input_values[start:stop].tolist()
    texts.append(_spelled(processor, row[::-1] if reverse else row))
    num_made += len(texts[-1])
  return string_array(texts)


def _spelled(processor: _Processor, row: Sequence[Any]) -> bytes:
  if not row:
    return b""
  if not isinstance(row[0], bytes):
    _check_numbers(processor, row)
  text = processor.decode(row, out_type=bytes)
  # No file reaches the assertion: the library returns what `out_type` asks for.
  assert isinstance(text, bytes), f"internal: sentencepiece returned {text!r}."
  return text


@host_op("SentencepieceVocabSizeOp")
def sentencepiece_vocab_size_op(sp_handle: SentencePieceModel) -> np.ndarray:
  """Returns the number of pieces, an int32 scalar."""
  return np.asarray(_processor(sp_handle).vocab_size(), np.int32)


@host_op("SentencepieceIdToStringOp")
def sentencepiece_id_to_string_op(
  sp_handle: SentencePieceModel, input_: np.ndarray, *, budget: Budget = NO_BUDGET
) -> np.ndarray:
  """Returns the pieces with the given numbers.

  Raises:
    InvalidInputError: a number is not one of a piece.
    LimitExceededError: there are more of them than the limits of the call allow.
  """
  budget.check_text(input_.size * ITEM_BYTES, "SentencepieceIdToStringOp")
  processor = _processor(sp_handle)
  numbers = input_.reshape(-1).tolist()
  _check_numbers(processor, numbers)
  return string_array((processor.id_to_piece(number).encode() for number in numbers), input_.shape)


@host_op("SentencepieceStringToIdOp")
def sentencepiece_string_to_id_op(sp_handle: SentencePieceModel, input_: np.ndarray) -> np.ndarray:
  """Returns the number of each piece; of anything that is not a piece, the number of the unknown piece."""
  processor = _processor(sp_handle)
  pieces = (item.decode("utf-8", "replace") for item in input_.reshape(-1).tolist())
  return np.array([processor.piece_to_id(piece) for piece in pieces], np.int32).reshape(input_.shape)


def _check_numbers(processor: _Processor, numbers: Sequence[int]) -> None:
  size = processor.vocab_size()
  wrong = [number for number in numbers if not 0 <= number < size]
  if wrong:
    raise InvalidInputError(f"SentencePiece: {wrong[0]} is not the number of a piece; the model has {size} pieces.")


@dataclasses.dataclass(frozen=True, slots=True)
class _Loaded:
  """A model that was read.

  Attributes:
    processor: the library's reader.
    longest_piece: bytes of the longest text that a number may become.
    longest_replacement: bytes of the longest text that a character may become.
  """

  processor: _Processor
  longest_piece: int
  longest_replacement: int


def _processor(model: SentencePieceModel) -> _Processor:
  return _loaded(model.data).processor


@functools.lru_cache(maxsize=8)
def _loaded(data: bytes) -> _Loaded:
  with optional_library("the model's host part, which has tokenizers,", "graftax-convert[text]"):
    import sentencepiece
  _check_version(sentencepiece.__version__)
  processor = sentencepiece.SentencePieceProcessor()
  try:
    if not data:
      raise ValueError("it is empty")
    processor.load_from_serialized_proto(data)
    pieces = [len(content) for number, content in _parts(data) if number == _OF_PIECES]
    surfaces = [len(content) for _, content in _inner(data, (_OF_TRAINER,), _UNKNOWN_SURFACE)]
    before, after = (_longest_rule(data, options) for options in (_OF_NORMALIZER, _OF_DENORMALIZER))
  except (RuntimeError, ValueError) as e:  # WireError, too
    raise InvalidInputError(f"SentencepieceOp: its model of {len(data)} bytes cannot be read: {e}") from e
  return _Loaded(processor, max(*pieces, *surfaces, 1) * after, before)


def _longest_rule(data: bytes, options: int) -> int:
  """Returns the bytes of the longest text that a rule for characters writes, at least 1."""
  longest = 1
  for _, content in _inner(data, (options,), _RULES):
    # The size of a trie, the trie, and the texts, each with a zero after it.
    start = 4 + int.from_bytes(content[:4], "little")
    texts = content[start:] if start <= len(content) else content
    longest = max(longest, *map(len, texts.split(b"\0")))
  return longest


def _parts(message: bytes) -> Iterator[tuple[int, bytes]]:
  for number, content in fields(message):
    if isinstance(content, bytes):
      yield number, content


def _inner(message: bytes, outer: Sequence[int], wanted: int) -> Iterator[tuple[int, bytes]]:
  for number, content in _parts(message):
    if number in outer:
      yield from (part for part in _parts(content) if part[0] == wanted)


def _check_version(version: str) -> None:
  """Raises if a model could make the library read or write memory that is not its own.

  Raises:
    LibraryNotFoundError: the library is too old.
  """
  numbers = tuple(int(part) for part in version.split(".")[:3] if part.isdigit())
  if numbers < _FIRST_SAFE_VERSION:
    wanted = ".".join(map(str, _FIRST_SAFE_VERSION))
    raise LibraryNotFoundError(
      f"SentencepieceOp needs sentencepiece {wanted} or later; {version} is installed, in which a model can end the "
      f"process. pip install --upgrade sentencepiece.",
      name="sentencepiece",
    )
