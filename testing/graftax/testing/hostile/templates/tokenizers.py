"""Models of tokenizers in attributes and constants: SentencePiece, FastWordpiece, and vocabularies for WordPiece."""

from collections.abc import Callable
from typing import Any

import numpy as np

from graftax.graphdef_ir import DType, schema
from graftax.testing.hostile.draw import INT32, Draw
from graftax.testing.hostile.grammar.models import graph_model, write_graph_model
from graftax.testing.hostile.grammar.protos import Nodes, add, const
from graftax.testing.hostile.grammar.readers import use_split
from graftax.testing.hostile.grammar.text_models import (
  CONTROL,
  UNKNOWN,
  Wordpieces,
  charsmap,
  field,
  piece,
  sentencepiece_model,
  text_ops,
  trie,
)
from graftax.testing.hostile.registry import Attempt, Box, Expectation
from graftax.testing.pytrees import Leaf

_I, _L, _S = DType.INT32, DType.INT64, DType.STRING
_TEXTS: tuple[bytes, ...] = (
  b"a b",
  b"",
  b"a" * 4000,
  b"a " * 2000,
  b"\xff\xfe\x00",
  "\u2460\uff21\U000e0001\u0378".encode(),
  b"\xed\xa0\x80",
)


def _attempt(
  box: Box,
  text: bytes,
  build: Callable[[Nodes], object],
  output: str = "made",
  *,
  expectation: Expectation = "typed",
  numbers: list[int] | None = None,
) -> Attempt:
  """Returns the attempt to split and call a graph of nodes that read `x`, a vector of one text."""

  def fill(graph: schema.GraphDef) -> None:
    build(graph.node)

  def check(results: Leaf) -> None:
    found = results["serving_default"][output].tolist()
    assert found == numbers, f"found {found}; expected {numbers}"

  model = graph_model(fill, {"x": (_S, (1,))}, output)
  model.meta_graphs[0].meta_info_def.stripped_op_list.CopyFrom(text_ops())
  write_graph_model(box.model, model)
  value = np.array([text], object)
  return Attempt(lambda: use_split(box.model, {"x": value}), expectation, check=None if numbers is None else check)


def _tokenized(nodes: Nodes, model: bytes, draw: Draw | None = None, out_type: DType = _I) -> None:
  """Adds nodes that split `x` by a SentencePiece model."""
  add(nodes, "sp", "SentencepieceOp", model=model, shared_name=b"", container=b"", use_node_name_sharing=False)
  const(nodes, "nbest", np.int32(0 if draw is None else draw.pick(*([0] * 6 + [1, -1, 1 << 30]))))
  const(nodes, "alpha", np.float32(1))
  flags = ("bos", "eos", "reverse")
  for name in flags:
    const(nodes, name, np.bool_(draw is not None and draw.chance(0.4)))
  op = (
    "SentencepieceTokenizeOp"
    if draw is None
    else draw.pick("SentencepieceTokenizeOp", "SentencepieceTokenizeWithOffsetsOp")
  )
  add(nodes, "made", op, "sp", "x", "nbest", "alpha", *flags, out_type=out_type, Tsplits=_L)


def sentencepiece_honest(draw: Draw, box: Box) -> Attempt:
  return _attempt(
    box, b"a b", lambda nodes: _tokenized(nodes, sentencepiece_model()), expectation="loaded", numbers=[3, 4]
  )


def sentencepiece_pieces(draw: Draw, box: Box) -> Attempt:
  """What the pieces are: text, score and kind."""
  texts = [b"a", b"", b"\xff\xfe", b"\0", b"a" * 70_000, b"<unk>", b"<0x61>", "\u2581".encode(), b"\xed\xa0\x80"]
  count = draw.pick(3, 0, 1, 300, 20_000)
  # Long texts only in short lists: the file has to stay small.
  chosen = [draw.pick(*(texts if count < 10 else [t for t in texts if len(t) < 100])) for _ in range(min(count, 6))]
  scores = [draw.pick(-1.0, 0.0, float("nan"), float("inf"), -3e38) for _ in range(3)]
  kinds = [draw.pick(1, UNKNOWN, CONTROL, 4, 5, 6, 0, 1 << 40) for _ in range(3)]
  is_unique = draw.chance(0.7)
  first = b"".join(
    piece(text, 0.0, kind) for text, kind in ((b"<unk>", UNKNOWN), (b"<s>", CONTROL), (b"</s>", CONTROL))
  )
  pieces = (first if draw.chance(0.8) else b"") + b"".join(
    piece(chosen[i % len(chosen)] + (str(i).encode() if is_unique else b""), scores[i % 3], kinds[i % 3])
    for i in range(count)
  )
  model, text = sentencepiece_model(pieces), draw.pick(*_TEXTS)
  return _attempt(box, text, lambda nodes: _tokenized(nodes, model, draw, draw.pick(_I, _S)))


def sentencepiece_options(draw: Draw, box: Box) -> Attempt:
  """The trainer's options: kind of model, numbers of control pieces, bytes as pieces."""
  trainer: dict[int, int | float | bytes] = {
    3: draw.pick(1, 2, 3, 4, 0, 9, -1),
    4: draw.size(8),
    35: draw.pick(0, 1),
    40: draw.size(0, low=-(1 << 31), high=1 << 31),
    41: draw.size(1, low=-(1 << 31), high=1 << 31),
    42: draw.size(2, low=-(1 << 31), high=1 << 31),
    44: draw.pick(b"?", b"", b"\xff", b"u" * 70_000),
    45: draw.pick(b"<unk>", b"", b"\xff"),
  }
  model, text = sentencepiece_model(trainer=trainer), draw.pick(*_TEXTS)
  return _attempt(box, text, lambda nodes: _tokenized(nodes, model, draw, draw.pick(_I, _S)))


def sentencepiece_rules(draw: Draw, box: Box) -> Attempt:
  """Rules for characters: a trie that leads out of its array, and replacements that do not end."""
  far = draw.pick((1 << 21) - 1 << 10 | 0x200, 1 << 10, 0x100 | 1 << 10, 0xFFFFFFFF, 0x80000000, 97 | 0x100 | 97 << 10)
  units = draw.lie([0] * 256, [far] * 256, [far] * 512, [far], [], [0] * 300, [*([0] * 97), *([far] * 159)])
  rules = charsmap(units, draw.lie(b"\0", b"", b"abc", b"\xff" * 9), draw.lie(None, 0, 1 << 20, -1, 1024, 7))
  leaf = [96 << 10, 97 | 0x100 | 101 << 10] + [0] * 254
  leaf[100] = 1 << 31
  # "a" becomes a long text.
  rules = draw.lie(rules, rules[:-1], rules[:3], b"", rules * 3, charsmap(leaf, b"b" * 30_000 + b"\0"))
  normalizer = field(2, rules) + field(3, draw.pick(1, 0)) + field(4, draw.pick(1, 0)) + field(5, draw.pick(1, 0))
  model, text = sentencepiece_model(normalizer=normalizer), draw.pick(*_TEXTS)
  return _attempt(box, text, lambda nodes: _tokenized(nodes, model, draw, draw.pick(_I, _S)))


def sentencepiece_messages(draw: Draw, box: Box) -> Attempt:
  """Wire types, lengths and nesting that are not those of the message."""
  honest = sentencepiece_model()
  deep = b""
  for _ in range(draw.pick(10, 200, 3000)):
    deep = field(1, deep)
  model = draw.lie(
    honest, honest[:-1], honest[: len(honest) // 2], b"", honest + field(1, 3), honest + field(2, 1.0),
    honest + b"\x0a\xff\xff\xff\xff\x0f", honest + b"\x0b" * 200, deep, honest + field(200, deep), honest * 200,
    honest + field(3, b"", kind=0), draw.data(200),
  )  # fmt: skip
  return _attempt(box, b"a b", lambda nodes: _tokenized(nodes, model, draw))


def sentencepiece_inputs(draw: Draw, box: Box) -> Attempt:
  """Options of a tokenizer with other shapes and dtypes than its op has."""
  nbest = draw.lie(np.int32(0), np.zeros(3, np.int32), np.zeros(0, np.int32), np.int64(0), np.float32(0))
  alpha = draw.lie(np.float32(1), np.ones((2, 2), np.float32), np.float32("nan"), np.int32(1))
  flag = draw.lie(np.bool_(False), np.zeros(2, np.bool_), np.int32(0), np.zeros((0, 1 << 20), np.bool_))

  def build(nodes: Nodes) -> None:
    add(
      nodes, "sp", "SentencepieceOp", model=sentencepiece_model(), shared_name=b"", container=b"",
      use_node_name_sharing=False,
    )  # fmt: skip
    const(nodes, "nbest", nbest)
    const(nodes, "alpha", alpha)
    const(nodes, "flag", flag)
    flags = draw.pick(["flag"] * 3, ["flag"], ["x"] * 3)
    add(nodes, "made", "SentencepieceTokenizeOp", "sp", "x", "nbest", "alpha", *flags, out_type=_I, Tsplits=_L)

  return _attempt(box, draw.pick(*_TEXTS), build)


def sentencepiece_numbers(draw: Draw, box: Box) -> Attempt:
  """Pieces and texts of numbers that the model does not have, and rows that overlap or lie outside."""
  surface = draw.pick(b"?", b"u" * 70_000)
  numbers = np.array(draw.lie([3, 4], [0] * 5000, [-1, 0], [8, 9], [1 << 30], [-(1 << 31)], [], [3] * 5000), np.int32)
  splits = np.array(draw.lie([0, len(numbers)], [0, 9], [0, -1, 2], [2, 0], [], [1, 1], [0, 1 << 40]), np.int64)
  op = draw.pick("SentencepieceIdToStringOp", "SentencepieceDetokenizeOp", "SentencepieceStringToIdOp")

  def build(nodes: Nodes) -> None:
    add(
      nodes, "sp", "SentencepieceOp", model=sentencepiece_model(trainer={44: surface}), shared_name=b"", container=b"",
      use_node_name_sharing=False,
    )  # fmt: skip
    const(nodes, "numbers", numbers)
    const(nodes, "splits", splits)
    const(nodes, "no", np.bool_(False))
    if op == "SentencepieceDetokenizeOp":
      add(nodes, "made", op, "sp", "numbers", "splits", "no", "no", "no", T=_I, Tsplits=_L)
    else:
      add(nodes, "made", op, "sp", "x" if op == "SentencepieceStringToIdOp" else "numbers")
    add(nodes, "text", "AsString", "made", T=_I) if op == "SentencepieceStringToIdOp" else None
    joined = "text" if op == "SentencepieceStringToIdOp" else "made"
    add(nodes, "lengths", "StringLength", joined, unit=b"BYTE")

  return _attempt(box, draw.pick(*_TEXTS), build, "lengths")


def _by_wordpieces(nodes: Nodes, model: bytes) -> None:
  const(nodes, "model", np.frombuffer(model, np.uint8).copy())
  add(nodes, "made", "FastWordpieceTokenizeWithOffsets", "x", "model")


def fast_wordpiece_honest(draw: Draw, box: Box) -> Attempt:
  model = Wordpieces(trie()).encode()
  return _attempt(
    box, b"aa a b", lambda nodes: _by_wordpieces(nodes, model), "made:1", expectation="loaded", numbers=[1, 2, 1, 0]
  )


def fast_wordpiece_tries(draw: Draw, box: Box) -> Attempt:
  """Tries that lead out of their array, or in a circle."""
  units = trie()
  circle = 97 | draw.pick(0x100, 0) | 97 << 10
  position = draw.pick(0, 2, 353, 352, 483, 482)
  units[position] = draw.lie(units[position], 0xFFFFFFFF, (1 << 21) - 1 << 10 | 0x200, 1 << 31, 0, 97 | 0x100, circle)
  units = draw.lie(units, [], [0], units[:354], [circle] * 512, [circle] * 100)
  model = Wordpieces(
    units,
    suffix_root=draw.size(2, 511, 512, low=0, high=(1 << 32) - 1),
    max_bytes=draw.pick(100, 0, -1, (1 << 31) - 1, 10_000),
    end_to_end=draw.chance(0.5),
  ).encode()
  return _attempt(
    box, draw.pick(*_TEXTS), lambda nodes: _by_wordpieces(nodes, model), draw.pick("made:1", "made", "made:2")
  )


def fast_wordpiece_circles(draw: Draw, box: Box) -> Attempt:
  """A trie that leads in a circle, so that the search for each piece reaches the end of a long word."""
  leaf = draw.pick(0x100, 0)
  # Unit 1 is the piece "a", whose value is in unit 100; unit 5 leads to itself.
  units = [0] * 512
  units[0], units[1], units[5] = 96 << 10, 97 | 0x100 | 101 << 10, 97 | leaf | 97 << 10
  units[100] = 1 << 31 | 1 << 8
  model = Wordpieces(units, suffix_root=0, max_bytes=(1 << 31) - 1, end_to_end=draw.chance(0.5)).encode()
  text = b"a" * draw.pick(100, 5000, 50_000)
  return _attempt(box, text, lambda nodes: _by_wordpieces(nodes, model), "made:1")


def fast_wordpiece_fields(draw: Draw, box: Box) -> Attempt:
  """Values of the model's fields, and where the buffer says that they are."""
  model = Wordpieces(
    trie(),
    suffix_indicator=draw.pick(b"##", b"", b"a", b"\xff", b"#" * 70_000),
    unknown=draw.pick(b"[UNK]", b"", b"\xff", b"u" * 70_000),
    unknown_id=draw.size(0, **INT32),
    of_indicator=draw.pick([], [1 << 8], [0xFFFFFFFF], [1, 2]),
    num_units=draw.lie(None, 0, 1, 513, 1 << 20, (1 << 31) - 1, -1),
    root=draw.lie(0, 2, -4, 1 << 20, -1, 1 << 31),
    table=draw.lie(0, 4, -4, 1 << 20, -(1 << 31), probability=0.3),
    fields=draw.pick(11, 0, 3, 200, 32_000),
    dropped=draw.pick([], [0], [3, 4], [5], [6], [7, 8, 10]),
    reference=draw.lie(0, -4, 4, 1 << 20, 1 << 31, -1, probability=0.4),
  ).encode()
  return _attempt(
    box, draw.pick(*_TEXTS), lambda nodes: _by_wordpieces(nodes, model), draw.pick("made:1", "made", "made:2")
  )


def fast_wordpiece_bytes(draw: Draw, box: Box) -> Attempt:
  honest = Wordpieces(trie()).encode()
  model = draw.lie(honest, honest[:-1], honest[:40], honest[:3], b"", draw.data(300), honest[4:], b"\0" * 64)
  return _attempt(box, draw.pick(*_TEXTS), lambda nodes: _by_wordpieces(nodes, model), "made:1")


def _wordpiece(nodes: Nodes, keys: np.ndarray, values: np.ndarray, **attrs: Any) -> None:
  """Adds nodes that split `x` by a vocabulary in a table."""
  add(nodes, "table", "HashTableV2", key_dtype=_S, value_dtype=_L, shared_name=b"t", container=b"")
  const(nodes, "keys", keys)
  const(nodes, "values", values)
  add(nodes, "init", "InitializeTableV2", "table", "keys", "values", Tkey=_S, Tval=_L)
  add(nodes, "made", "WordpieceTokenizeWithOffsets", "x", "table", **attrs)
  add(nodes, "lengths", "StringLength", "made", unit=b"BYTE")


def _with_wordpieces(box: Box, text: bytes, keys: Any, values: Any, attrs: dict[str, Any], **expected: Any) -> Attempt:
  attempt = _attempt(
    box,
    text,
    lambda nodes: _wordpiece(nodes, np.array(keys, object), np.array(values, np.int64), **attrs),
    "lengths",
    **expected,
  )
  path = box.model / "saved_model.pb"
  model = schema.SavedModel.FromString(path.read_bytes())
  model.meta_graphs[0].collection_def["table_initializer"].node_list.value.append("init")
  path.write_bytes(model.SerializeToString())
  return attempt


_WORDPIECE: dict[str, Any] = {
  "suffix_indicator": b"##",
  "max_bytes_per_word": 100,
  "max_chars_per_token": 0,
  "use_unknown_token": True,
  "unknown_token": b"[UNK]",
  "split_unknown_characters": False,
  "output_row_partition_type": b"row_lengths",
}


def wordpiece_honest(draw: Draw, box: Box) -> Attempt:
  return _with_wordpieces(box, b"aa", [b"a", b"##a"], [0, 1], _WORDPIECE, expectation="loaded", numbers=[1, 3])


def wordpiece_vocabularies(draw: Draw, box: Box) -> Attempt:
  keys: Any = draw.pick(
    [b"a", b"##a"], [b"a", b"a"], [], [b""], [b"", b"##"], [b"\xff", b"##\xff"], [b"a" * 70_000], [[b"a"], [b"b"]]
  )
  values = draw.pick(list(range(len(keys))), [-1] * len(keys), [1 << 62] * len(keys), [0])
  attrs = {
    **_WORDPIECE,
    "suffix_indicator": draw.pick(b"##", b"", b"a", b"\xff", b"#" * 70_000),
    "max_bytes_per_word": draw.size(100),
    "max_chars_per_token": draw.size(0),
    "use_unknown_token": draw.chance(0.5),
    "unknown_token": draw.pick(b"[UNK]", b"", b"\xff", b"u" * 70_000),
    "split_unknown_characters": draw.chance(0.5),
    "output_row_partition_type": draw.pick(b"row_lengths", b"row_splits", b"x", b""),
  }
  return _with_wordpieces(box, draw.pick(*_TEXTS), keys, values, attrs)


def wordpiece_long_words(draw: Draw, box: Box) -> Attempt:
  """A vocabulary of short pieces and words without a limit, for which trying all pieces takes quadratic time."""
  attrs = {**_WORDPIECE, "max_bytes_per_word": (1 << 31) - 1, "split_unknown_characters": draw.chance(0.5)}
  attrs["suffix_indicator"] = draw.pick(b"##", b"#" * 5000)
  keys = draw.pick([b"a", b"##a"], [b"a"], [b"b"], [b"a", b"#" * 5000 + b"a"], [b"a", b"##a", b"a" * 50_000])
  text = b"a" * draw.pick(100, 5000, 50_000)
  return _with_wordpieces(box, text, keys, list(range(len(keys))), attrs)
