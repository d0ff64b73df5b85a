"""The models of tokenizers: protocol buffers of SentencePiece, and the FlatBuffer of FastWordpiece."""

import dataclasses
import struct
from collections.abc import Mapping, Sequence

from graftax.graphdef_ir import DType, schema
from graftax.testing.hostile.grammar.tables import varint

__all__ = [
  "CONTROL",
  "UNKNOWN",
  "Wordpieces",
  "charsmap",
  "field",
  "piece",
  "sentencepiece_model",
  "text_ops",
  "trie",
]

UNKNOWN, CONTROL = 2, 3
_PIECES: Sequence[tuple[str, float, int]] = (
  ("<unk>", 0.0, UNKNOWN),
  ("<s>", 0.0, CONTROL),
  ("</s>", 0.0, CONTROL),
  ("▁a", -1.0, 1),
  ("▁b", -1.5, 1),
  ("▁", -4.0, 1),
  ("a", -4.0, 1),
  ("b", -4.0, 1),
)

_FLAGS = "add_bos: bool, add_eos: bool, reverse: bool"
_TOKENIZE = f"sp_handle: resource, input: string, nbest_size: int32, alpha: float, {_FLAGS}"
# The ops of TensorFlow Text, of which a model brings the signatures: inputs, outputs and attributes.
_OPS: Mapping[str, tuple[str, str, str]] = {
  "SentencepieceOp": (
    "",
    "handle: resource",
    "model: string, container: string, shared_name: string, use_node_name_sharing: bool",
  ),
  "SentencepieceTokenizeOp": (
    _TOKENIZE,
    "output_values: out_type, output_splits: Tsplits",
    "out_type: type, Tsplits: type, return_nbest: bool = false",
  ),
  "SentencepieceTokenizeWithOffsetsOp": (
    _TOKENIZE,
    "output_values: out_type, output_splits: Tsplits, starts: int64, limits: int64",
    "out_type: type, Tsplits: type, return_nbest: bool = false",
  ),
  "SentencepieceDetokenizeOp": (
    f"sp_handle: resource, input_values: T, input_splits: Tsplits, {_FLAGS}",
    "output: string",
    "T: type, Tsplits: type",
  ),
  "SentencepieceIdToStringOp": ("sp_handle: resource, input: int32", "values: string", ""),
  "SentencepieceStringToIdOp": ("sp_handle: resource, input: string", "values: int32", ""),
  "FastWordpieceTokenizeWithOffsets": (
    "input_values: string, wp_model: uint8",
    "output_subwords: string, output_ids: int64, output_row_splits: int64, start_values: int64, end_values: int64",
    "",
  ),
  "WordpieceTokenizeWithOffsets": (
    "input_values: string, vocab_lookup_table: resource",
    "output_values: string, output_row_lengths: int64, start_values: int64, limit_values: int64",
    "suffix_indicator: string, max_bytes_per_word: int, max_chars_per_token: int, use_unknown_token: bool, "
    "unknown_token: string, split_unknown_characters: bool, output_row_partition_type: string",
  ),
}


def text_ops() -> schema.OpList:
  """Returns the signatures of the ops of TensorFlow Text, as models store them."""
  found = schema.OpList()
  for name, (inputs, outputs, attrs) in _OPS.items():
    op = found.op.add(name=name, is_stateful=not name.startswith("Fast"))
    for arguments, text in ((op.input_arg, inputs), (op.output_arg, outputs)):
      for argument, kind in _entries(text):
        is_attr = kind in ("out_type", "Tsplits", "T")
        arguments.add(name=argument, type_attr=kind if is_attr else "", type=0 if is_attr else int(DType[kind.upper()]))
    for attr, kind in _entries(attrs):
      added = op.attr.add(name=attr, type=kind.partition(" = ")[0])
      if "=" in kind:
        added.default_value.b = False
  return found


def _entries(text: str) -> list[tuple[str, str]]:
  return [(entry.split(": ", 1)[0], entry.split(": ", 1)[1]) for entry in text.split(", ") if entry]


def field(number: int, value: int | float | bytes, kind: int | None = None) -> bytes:
  """Returns a field of a protocol buffer.

  Args:
    number: its number.
    value: an integer (a varint), a float32, or bytes with their length before them.
    kind: another wire type than that of the value.
  """
  if isinstance(value, float):
    wire, content = 5, struct.pack("<f", value)
  elif isinstance(value, int):
    wire, content = 0, varint(value)
  else:
    wire, content = 2, varint(len(value)) + value
  return varint(number << 3 | (wire if kind is None else kind)) + content


def piece(text: bytes, score: float, kind: int) -> bytes:
  """Returns the field of a piece in a SentencePiece model."""
  return field(1, field(1, text) + field(2, score) + field(3, kind))


def sentencepiece_model(
  pieces: bytes | None = None, trainer: Mapping[int, int | float | bytes] | None = None, normalizer: bytes = b""
) -> bytes:
  """Returns a SentencePiece model, which splits "a b" into pieces 3 and 4.

  Args:
    pieces: the fields of other pieces.
    trainer: more fields of the trainer's options, which replace the honest ones.
    normalizer: more fields of the normalizer's options.
  """
  if pieces is None:
    pieces = b"".join(piece(text.encode(), score, kind) for text, score, kind in _PIECES)
  options = {3: 1, 4: len(_PIECES), 40: 0, 41: 1, 42: 2, 43: -1, **(trainer or {})}
  return pieces + field(2, b"".join(field(*item) for item in options.items())) + field(3, normalizer)


def charsmap(units: Sequence[int], blob: bytes, size_bytes: int | None = None) -> bytes:
  """Returns rules for characters: the size of a trie, its units, and the replacements."""
  data = struct.pack(f"<{len(units)}I", *units)
  return struct.pack("<I", (len(data) if size_bytes is None else size_bytes) & 0xFFFFFFFF) + data + blob


def trie() -> list[int]:
  """Returns the units of a trie with "a" as piece 1, and as piece 2 where it does not begin a word (from unit 2)."""
  units = [0] * 512
  for root, children, value in ((0, 256, 1), (2, 384, 2)):
    units[root] = children << 10
    node = root ^ children ^ ord("a")
    units[node] = ord("a") | 0x100 | 1 << 10
    units[node ^ 1] = 1 << 31 | value << 8
  return units


@dataclasses.dataclass(frozen=True, slots=True)
class Wordpieces:
  """A FastWordpiece model, and what it says that is not so.

  Attributes:
    units: the trie.
    suffix_root: the unit of pieces that do not begin a word.
    max_bytes: the length of the longest word.
    suffix_indicator: what marks these pieces.
    unknown: the piece in place of an unknown word.
    unknown_id: its number.
    of_indicator: pieces of the indicator itself.
    end_to_end: whether text is split into words first.
    num_units: the number of units that the vector says it has.
    root: added to the position of the table.
    table: added to the distance of the table's fields.
    fields: how many fields the table says it has.
    dropped: numbers of the fields that are missing.
    reference: added to the distances of vectors and texts.
  """

  units: Sequence[int]
  suffix_root: int = 2
  max_bytes: int = 100
  suffix_indicator: bytes = b"##"
  unknown: bytes = b"[UNK]"
  unknown_id: int = 0
  of_indicator: Sequence[int] = ()
  end_to_end: bool = True
  num_units: int | None = None
  root: int = 0
  table: int = 0
  fields: int = 11
  dropped: Sequence[int] = ()
  reference: int = 0

  def encode(self) -> bytes:
    """Returns the FlatBuffer."""
    count = len(self.units) if self.num_units is None else self.num_units
    vectors = {
      0: struct.pack("<I", count & 0xFFFFFFFF) + struct.pack(f"<{len(self.units)}I", *self.units),
      5: struct.pack("<I", len(self.suffix_indicator)) + self.suffix_indicator + b"\0",
      6: struct.pack("<I", len(self.unknown)) + self.unknown + b"\0",
      8: struct.pack(f"<{1 + len(self.of_indicator)}I", len(self.of_indicator), *self.of_indicator),
    }
    scalars = {3: self.suffix_root, 4: self.max_bytes, 7: self.unknown_id, 10: int(self.end_to_end)}
    header = 4 + 4 + 2 * 11
    header += -header % 4
    start = header + 4  # of the fields, after the distance to the table of their places
    body = b""
    contents = [0] * 11
    for number, vector in vectors.items():
      contents[number] = start + 44 + len(body) - (start + 4 * number) + self.reference
      body += vector + b"\0" * (-len(vector) % 4)
    contents = [scalars.get(number, content) for number, content in enumerate(contents)]
    places = [0 if number in self.dropped else 4 + 4 * number for number in range(11)]
    table = struct.pack("<HH11H", 4 + 2 * self.fields & 0xFFFF, 48, *places)
    root = struct.pack("<I", header + self.root & 0xFFFFFFFF)
    distance = struct.pack("<i", header - 4 + self.table)
    fields = struct.pack("<11I", *(content & 0xFFFFFFFF for content in contents))
    return (root + table).ljust(header, b"\0") + distance + fields + body
