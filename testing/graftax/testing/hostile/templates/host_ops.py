"""Ops that run on the host: images, audio, compressed data, texts, regular expressions, tables."""

import dataclasses
import gzip
import io
import struct
import wave
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from graftax.graphdef_ir import DType, schema
from graftax.testing.hostile.draw import INT32, Draw
from graftax.testing.hostile.grammar.models import graph_model, write_graph_model
from graftax.testing.hostile.grammar.protos import Nodes, Shape, add, const, function, loop, table
from graftax.testing.hostile.grammar.readers import use_split
from graftax.testing.hostile.registry import Attempt, Box, family
from graftax.testing.pytrees import Leaf

_KIND = "host_ops"
_F, _I, _L, _S = DType.FLOAT, DType.INT32, DType.INT64, DType.STRING


def _text(*values: str | bytes) -> np.ndarray:
  return np.array([v if isinstance(v, bytes) else v.encode(errors="surrogatepass") for v in values], object)


def _attempt(box: Box, build: Callable[[Nodes], object], *outputs: str, x: Leaf = None) -> Attempt:
  """Returns the attempt to split and call a graph; its input `x` is a vector of strings, or a scalar."""
  value = _text("a b", "c") if x is None else np.asarray(x, object)

  def fill(graph: schema.GraphDef) -> None:
    build(graph.node)

  write_graph_model(box.model, graph_model(fill, {"x": (_S, tuple(value.shape))}, *outputs))
  return Attempt(lambda: use_split(box.model, {"x": value}))


def _png(draw: Draw, width: int, height: int, depth: int = 8, color: int = 2) -> bytes:
  def chunk(kind: bytes, data: bytes) -> bytes:
    size = len(data) if kind != b"IDAT" else draw.size(len(data), low=0, high=(1 << 32) - 1)
    return struct.pack(">I", size) + kind + data + struct.pack(">I", zlib.crc32(kind + data) ^ int(draw.chance(0.1)))

  header = struct.pack(">IIBBBBB", width & 0xFFFFFFFF, height & 0xFFFFFFFF, depth, color, 0, 0, draw.pick(0, 1, 9))
  rows = zlib.compress(bytes(draw.pick(3 * 4 * 4 + 4, 0, 1 << 20)))
  return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def _draw_png(draw: Draw) -> bytes:
  width, height = (draw.pick(4, 1, 0, 30_000, 1 << 20, (1 << 31) - 1, 1 << 31) for _ in range(2))
  return _png(draw, width, height, depth=draw.pick(8, 16, 1, 3, 255), color=draw.pick(2, 0, 3, 4, 6, 7))


def _draw_gif(draw: Draw) -> bytes:
  width, height = (draw.pick(4, 0, 65_535, 20_000) for _ in range(2))
  head = b"GIF89a" + struct.pack("<HHBBB", width, height, draw.pick(0x80, 0x87, 0x00), 0, 0) + bytes(6)
  frame = b"," + struct.pack("<HHHHB", 0, 0, draw.pick(width, 1, 65_535), draw.pick(height, 1, 65_535), 0)
  pixels = bytes([draw.pick(2, 8, 12, 0)]) + b"\x02\x4c\x01\x00"
  return head + (frame + pixels) * draw.pick(1, 0, 300) + draw.pick(b";", b"")


def _draw_bmp(draw: Draw) -> bytes:
  width, height = (draw.size(2, **INT32) for _ in range(2))
  sizes = draw.pick(40, 0, 1 << 30), width, height
  info = struct.pack("<IiiHHIIiiII", *sizes, 1, draw.pick(24, 8, 32, 0, 1000), draw.pick(0, 1, 3), *[0] * 5)
  return (
    b"BM"
    + struct.pack("<IHHI", 70, 0, 0, draw.size(54, low=0, high=(1 << 32) - 1))
    + info
    + bytes(draw.pick(16, 0, 5000))
  )


def _draw_jpeg(draw: Draw) -> bytes:
  from PIL import Image

  buffer = io.BytesIO()
  Image.new("RGB", (8, 8)).save(buffer, "JPEG")
  data = bytearray(buffer.getvalue())
  frame = data.index(b"\xff\xc0")
  struct.pack_into(">HH", data, frame + 5, *(draw.pick(8, 0, 1, 65_535) for _ in range(2)))
  data[frame + 9] = draw.lie(data[frame + 9], 0, 1, 4, 255)
  for _ in range(draw.integer(0, 3)):
    data[draw.integer(2, len(data) - 1)] ^= 0x41
  return bytes(data[: draw.pick(len(data), len(data) // 2, 10)])


_IMAGES: dict[str, tuple[Callable[[Draw], bytes], Sequence[str]]] = {
  "png": (_draw_png, ("DecodePng", "DecodeImage", "DecodeJpeg")),
  "gif": (_draw_gif, ("DecodeGif", "DecodeImage")),
  "bmp": (_draw_bmp, ("DecodeBmp", "DecodeImage")),
  "jpeg": (_draw_jpeg, ("DecodeJpeg", "DecodeImage", "DecodePng")),
}


def _image(row: tuple[Callable[[Draw], bytes], Sequence[str]], draw: Draw, box: Box) -> Attempt:
  make, ops = row
  data = make(draw)
  op = draw.pick(*ops)
  attrs: dict[str, Any] = {} if op == "DecodeGif" else {"channels": draw.pick(0, 1, 3, 4, 2, -1, 1 << 40)}
  if op in ("DecodePng", "DecodeImage"):
    attrs["dtype"] = draw.pick(DType.UINT8, DType.UINT16, _F, _S)
  if op == "DecodeJpeg":
    attrs["ratio"] = draw.pick(1, 2, 8, 0, -1, 1 << 40)

  def build(nodes: Nodes) -> None:
    add(nodes, "image", op, "x", **attrs)
    add(nodes, "out", "Cast", "image", SrcT=attrs.get("dtype", DType.UINT8), DstT=_F)

  return _attempt(box, build, "out", x=np.array(data, object))


family(_KIND, {f"image_{name}": row for name, row in _IMAGES.items()}, _image)


def image_of_another_kind(draw: Draw, box: Box) -> Attempt:
  data = draw.pick(
    b"",
    b"\0",
    b"RIFF\xff\xff\xff\xffWEBPVP8 ",
    b"II*\0\xff\xff\xff\xff",
    b"<svg/>",
    b"P6 99999 99999 255\n",
    b"\0\0\1\0\1\0",
    b"%!PS-Adobe-3.0 EPSF\n",
    b"qoif" + b"\xff" * 10,
  )
  op = draw.pick("DecodeImage", "DecodePng", "DecodeJpeg", "DecodeBmp", "DecodeGif")
  return _attempt(box, lambda nodes: add(nodes, "out", op, "x"), "out", x=np.array(data, object))


def _wav(draw: Draw) -> bytes:
  buffer = io.BytesIO()
  with wave.open(buffer, "wb") as file:
    file.setnchannels(draw.pick(1, 2))
    file.setsampwidth(draw.pick(2, 1, 4))
    file.setframerate(draw.pick(8000, 1))
    file.writeframes(bytes(64))
  data = bytearray(buffer.getvalue())
  for position, size in ((4, 4), (16, 4), (20, 2), (22, 2), (24, 4), (32, 2), (34, 2), (40, 4)):
    if draw.chance(0.3):
      data[position : position + size] = struct.pack("<q", draw.size(1))[:size]
  return bytes(data)


def audio(draw: Draw, box: Box) -> Attempt:
  channels, samples = draw.pick(-1, 1, 0, 5000, 1 << 40), draw.pick(-1, 4, 0, (1 << 31) - 1, 1 << 40)

  def build(nodes: Nodes) -> None:
    add(nodes, "wav", "DecodeWav", "x", desired_channels=channels, desired_samples=samples)
    add(nodes, "out", "Neg", "wav", T=_F)

  return _attempt(box, build, "out", x=np.array(_wav(draw), object))


def compressed(draw: Draw, box: Box) -> Attempt:
  size = draw.pick(10, 1 << 20, 1 << 28)
  kind = draw.pick("ZLIB", "GZIP")
  data = (zlib.compress if kind == "ZLIB" else gzip.compress)(bytes(size), 1 if size > 1 << 20 else 9)
  for _ in range(draw.pick(0, 0, 1)):
    data = (zlib.compress if kind == "ZLIB" else gzip.compress)(data)
  data = draw.lie(data, data[:-1], data + data, b"", data[2:], probability=0.3)
  name = draw.lie(kind, "", "ZLIB", "GZIP", "XZ", probability=0.2)
  count = draw.pick(1, 8)

  def build(nodes: Nodes) -> None:
    add(nodes, "data", "DecodeCompressed", "x", compression_type=name.encode())
    add(nodes, "out", "StringLength", "data")

  return _attempt(box, build, "out", x=_text(*[data] * count))


def raw_numbers(draw: Draw, box: Box) -> Attempt:
  dtype = draw.pick(_F, DType.INT8, DType.COMPLEX128, DType.BOOL, _S, DType.HALF, DType.VARIANT)
  op = draw.pick("DecodeRaw", "DecodePaddedRaw")
  data = draw.data(draw.pick(8, 7, 0, 1))
  length = draw.size(8, **INT32)

  def build(nodes: Nodes) -> None:
    inputs = ["x"]
    if op == "DecodePaddedRaw":
      const(nodes, "length", np.int32(length))
      inputs.append("length")
    add(nodes, "out", op, *inputs, out_type=dtype, little_endian=draw.chance(0.5))

  return _attempt(box, build, "out", x=_text(data, draw.lie(data, b"x")))


_PATTERNS = (
  *r"a (a+)+$ (a|a)*b (.*)(.*)(.*)(.*)(.*)(.*)x [ ( \ a{1000}{1000} a{1,100000} (?P<x>a) \1 (?i)a \p{L} \C".split(),
  *("x" * 50_000, "(" * 2000 + ")" * 2000, "\0", ""),
  *r"[[:alpha:]] \Q (?<=a)b a** \x{110000} ((a*)*)*".split(),
)


def regular_expressions(draw: Draw, box: Box) -> Attempt:
  op = draw.pick("StaticRegexReplace", "StaticRegexFullMatch", "RegexReplace", "RegexFullMatch")
  pattern, rewrite = draw.pick(*_PATTERNS), draw.pick("", "\\0", "\\1", "\\9", "\\0" * 5000, "\\", "\\x")
  subject = draw.pick("a" * 30, "a" * 40_000 + "!", "", "\0", "é")

  def build(nodes: Nodes) -> None:
    if op.startswith("Static"):
      extra = {"rewrite": rewrite.encode(), "replace_global": True} if op.endswith("Replace") else {}
      add(nodes, "out", op, "x", pattern=pattern.encode(), **extra)
      return
    const(nodes, "pattern", np.array(pattern, object))
    const(nodes, "rewrite", np.array(rewrite, object))
    add(nodes, "out", op, "x", "pattern", *(["rewrite"] if op.endswith("Replace") else []))

  return _attempt(box, build, "out", x=_text(subject, "b"))


def rewrites_that_multiply(draw: Draw, box: Box) -> Attempt:
  depth = draw.pick(3, 12, 30)

  def build(nodes: Nodes) -> None:
    last = "x"
    for i in range(depth):
      add(nodes, f"r{i}", "StaticRegexReplace", last, pattern=b"a", rewrite=b"aaaa", replace_global=True)
      last = f"r{i}"
    add(nodes, "out", "StringLength", last)

  return _attempt(box, build, "out", x=_text("a" * 9))


def joins_that_multiply(draw: Draw, box: Box) -> Attempt:
  depth, op = draw.pick(3, 12, 30), draw.pick("StringJoin", "ReduceJoin")

  def build(nodes: Nodes) -> None:
    last = "x"
    const(nodes, "axis", np.int32(0))
    for i in range(depth):
      if op == "StringJoin":
        add(nodes, f"j{i}", "StringJoin", *([last] * 8), N=8)
      else:
        add(nodes, f"s{i}", "Pack", *([last] * 8), N=8, T=_S, axis=0)
        add(nodes, f"j{i}", "ReduceJoin", f"s{i}", "axis", keep_dims=False)
      last = f"j{i}"
    add(nodes, "out", "StringLength", last)

  return _attempt(box, build, "out")


@dataclasses.dataclass(frozen=True, slots=True)
class _TextOp:
  """An op of the input, and of constants: its name, what draws its attributes and the constants, and its output."""

  op: str
  attrs: Callable[[Draw], Mapping[str, Any]] = lambda draw: {}
  constants: Callable[[Draw], Sequence[Any]] = lambda draw: []
  output: str = "made"


def _with_constants(row: _TextOp, draw: Draw, box: Box) -> Attempt:
  given, found = row.constants(draw), row.attrs(draw)

  def build(nodes: Nodes) -> None:
    for i, value in enumerate(given):
      const(nodes, f"c{i}", value)
    add(nodes, "made", row.op, "x", *(f"c{i}" for i in range(len(given))), **found)

  text = draw.pick("a b", "", "\0", "é\udcff", "1e999", "a" * 5000, "aGk", "-1")
  return _attempt(box, build, row.output, x=_text(text, "c"))


def _position(draw: Draw) -> np.ndarray:
  return np.array(draw.pick(0, 1, -1, 5, (1 << 31) - 1, -(1 << 31)), np.int32)


def _separator(draw: Draw, *texts: str) -> np.ndarray:
  return np.array(draw.pick(*texts), object)


_KEYS: Sequence[list[int]] = ([1, 2], [1], [], [1, 2, 3], [-1, 1 << 62])
_UNITS: Sequence[bytes] = (b"BYTE", b"UTF8_CHAR", b"x")
_ENCODINGS = (
  *b"UTF-8 UTF-16-BE UTF-32-BE latin1 x".split(),
  b"",
  *b"base64 idna rot13 unicode_escape zlib".split(),
)
_ERRORS = (b"replace", b"strict", b"ignore", b"x")


def _unicode(draw: Draw) -> dict[str, Any]:
  return {
    "input_encoding": draw.pick(*_ENCODINGS),
    "errors": draw.pick(*_ERRORS),
    "replacement_char": draw.pick(65_533, 0, -1, 0x110000, 0xD800, 1 << 40),
    "replace_control_characters": draw.chance(0.5),
    "Tsplits": _L,
  }


_TEXT_OPS = {
  "hash_strong": _TextOp(
    "StringToHashBucketStrong", lambda d: {"num_buckets": d.size(10), "key": list(d.pick(*_KEYS))}
  ),
  "hash_fast": _TextOp("StringToHashBucketFast", lambda d: {"num_buckets": d.size(10)}),
  "hash_bucket": _TextOp("StringToHashBucket", lambda d: {"num_buckets": d.size(10)}),
  "substrings": _TextOp("Substr", lambda d: {"T": _I, "unit": d.pick(*_UNITS)}, lambda d: [_position(d), _position(d)]),
  "lengths": _TextOp("StringLength", lambda d: {"unit": d.pick(*_UNITS)}),
  "lower": _TextOp("StringLower", lambda d: {"encoding": d.pick(b"", b"utf-8", b"x", b"\xff")}),
  "split": _TextOp(
    "StringSplitV2", lambda d: {"maxsplit": d.size(-1)}, lambda d: [_separator(d, "", " ", "\0", "ab")], "made:1"
  ),
  "split_v1": _TextOp(
    "StringSplit", lambda d: {"skip_empty": True}, lambda d: [_separator(d, " ", "", "abc")], "made:1"
  ),
  "numbers": _TextOp("StringToNumber", lambda d: {"out_type": d.pick(_F, _I, _L, DType.DOUBLE, _S, DType.BOOL)}),
  "base64": _TextOp("DecodeBase64"),
  "base64_encode": _TextOp("EncodeBase64", lambda d: {"pad": d.chance(0.5)}),
  "ngrams": _TextOp(
    "StringNGrams",
    lambda d: {
      "ngram_widths": d.pick([2], [0], [-1], [1 << 30], [2] * 3000),
      "separator": b" ",
      "left_pad": b"",
      "right_pad": b"",
      "pad_width": d.size(0, low=-9),
      "preserve_short_sequences": d.chance(0.5),
      "Tsplits": _L,
    },
    lambda d: [np.array(d.pick([0, 1, 2], [0, 9], [0, -1, 2], [], [2, 0], [0, 1 << 40]), np.int64)],
  ),
  "format": _TextOp(
    "StringFormat",
    lambda d: {
      "T": [_S],
      "template": d.pick(b"%s", b"{}{}", b"{0.__class__}", b""),
      "placeholder": d.pick(b"%s", b"{}", b""),
      "summarize": d.size(3),
    },
  ),
  "unicode_decode": _TextOp("UnicodeDecode", _unicode, output="made:1"),
  "unicode_offsets": _TextOp("UnicodeDecodeWithOffsets", _unicode, output="made:1"),
  "transcode": _TextOp("UnicodeTranscode", lambda d: {**_unicode(d), "output_encoding": d.pick(*_ENCODINGS)}),
  "normalize": _TextOp("NormalizeUTF8", lambda d: {"normalization_form": d.pick(b"NFKC", b"x", b"", b"nfc")}),
  "regex_split": _TextOp(
    "RegexSplitWithOffsets", constants=lambda d: [_separator(d, *_PATTERNS), _separator(d, *_PATTERNS)], output="made:1"
  ),
}
family(_KIND, _TEXT_OPS, _with_constants)


def numbers_as_text(draw: Draw, box: Box) -> Attempt:
  attrs = {
    "T": _F,
    "precision": draw.pick(-1, 5, 1 << 30, -5),
    "width": draw.pick(-1, 5, 1 << 30, -5),
    "fill": draw.pick(b"", b"0", b"-", b"ab", b"\xff"),
    "scientific": draw.chance(0.3),
    "shortest": draw.chance(0.3),
  }

  def build(nodes: Nodes) -> None:
    const(nodes, "numbers", np.array([1.5, np.nan, 1e30], np.float32))
    add(nodes, "text", "AsString", "numbers", **attrs)
    add(nodes, "out", "StringJoin", "text", "text", N=2)

  return _attempt(box, build, "out")


def examples(draw: Draw, box: Box) -> Attempt:
  """Serialized tf.train.Examples, and what they are said to hold."""
  feature = b"\n" + bytes([6]) + b"\n\x04\x01\x02\x03\x04"
  entry = b"\n\x01a\x12" + bytes([len(feature)]) + feature
  data = b"\n" + bytes([len(entry) + 2]) + b"\n" + bytes([len(entry)]) + entry
  message = draw.lie(data, data[:-1], b"\xff" * 9, b"\n\xff\xff\xff\xff\x0f", b"", data * 3, b"\n\x00" * 1000)
  shape = draw.pick((2,), (), (-1,), (1 << 40,), (-5,), (0, 1 << 50))

  def build(nodes: Nodes) -> None:
    const(nodes, "names", np.array([], object))
    const(nodes, "sparse", np.array([b"s"] * draw.integer(0, 2), object))
    const(nodes, "dense", np.array([b"a"], object))
    const(nodes, "ragged", np.array([b"r"] * draw.integer(0, 2), object))
    const(nodes, "default", np.zeros(draw.pick(2, 0, 5), draw.pick(np.float32, np.int64)))
    types = {"Tdense": [draw.pick(_F, _L, _S, _I)], "sparse_types": [_F] * draw.integer(0, 2)}
    types |= {f"ragged_{name}_types": [dtype] * draw.integer(0, 2) for name, dtype in (("value", _F), ("split", _L))}
    inputs = ["names", "sparse", "dense", "ragged", "default"]
    count = draw.pick(0, 1, 9)
    add(nodes, "parsed", "ParseExampleV2", "x", *inputs, num_sparse=count, dense_shapes=[Shape(shape)], **types)

  return _attempt(box, build, "parsed", x=_text(message))


def tables(draw: Draw, box: Box) -> Attempt:
  """A vocabulary in the model's own folder, and what the table says of it."""
  text = draw.pick(b"a\nb\nc\n", b"", b"a\n" * 9, b"\xff\n\0\n", b"a\tb\tc\nd\n", b"a" * 100_000, b"1\n2\nx\n")
  (box.model / "assets").mkdir()
  (box.model / "assets" / "words.txt").write_bytes(text)
  value = draw.pick(_L, _S, _F, DType.BOOL)
  attrs = {
    "vocab_size": draw.size(3),
    "key_index": draw.size(-2, -1, 0, 5),
    "value_index": draw.size(-1, -2, 0, 5),
    "delimiter": draw.pick(b"\t", b"", b"ab", b"\n", b"\0"),
    "offset": draw.size(0),
  }

  def build(nodes: Nodes) -> None:
    table(nodes, value)
    const(nodes, "file", np.array("assets/words.txt", object))
    add(nodes, "init", "InitializeTableFromTextFileV2", "table", "file", **attrs)
    const(nodes, "default", np.array(draw.pick(-1, 0), np.int64) if value is not _S else np.array("z", object))
    add(nodes, "out", draw.pick("LookupTableFindV2"), "table", "x", "default", Tin=_S, Tout=value)

  model = graph_model(lambda graph: build(graph.node), {"x": (_S, (2,))}, "out")
  meta = model.meta_graphs[0]
  meta.signature_def["__saved_model_init_op"].outputs["__saved_model_init_op"].name = "init"
  asset = meta.asset_file_def.add(filename="words.txt")
  asset.tensor_info.name = "file:0"
  write_graph_model(box.model, model)
  return Attempt(lambda: use_split(box.model, {"x": _text("a", "q")}))


def tables_of_constants(draw: Draw, box: Box) -> Attempt:
  keys = draw.pick(["a", "b"], ["a", "a"], [], ["a"] * 5, [["a", "b"]])
  values = draw.pick([1, 2], [1], [], [[1, 2]], list(range(5)))

  def build(nodes: Nodes) -> None:
    table(nodes, op=draw.pick("HashTableV2", "MutableHashTableV2", "MutableDenseHashTableV2"))
    const(nodes, "keys", np.array(keys, object))
    const(nodes, "values", np.array(values, np.int64))
    op = draw.pick("InitializeTableV2", "LookupTableImportV2")
    add(nodes, "init", op, "table", "keys", "values", Tkey=_S, Tval=_L)
    const(nodes, "default", np.array(draw.pick(-1, [1, 2]), np.int64))
    add(nodes, "out", "LookupTableFindV2", "table", "x", "default", Tin=_S, Tout=_L)

  model = graph_model(lambda graph: build(graph.node), {"x": (_S, (2,))}, "out")
  model.meta_graphs[0].collection_def["table_initializer"].node_list.value.append("init")
  write_graph_model(box.model, model)
  return Attempt(lambda: use_split(box.model, {"x": _text("a", "q")}))


def sparse_crosses(draw: Draw, box: Box) -> Attempt:
  count = draw.pick(2, 3, 12)

  def build(nodes: Nodes) -> None:
    for i in range(count):
      const(nodes, f"d{i}", np.array([["a", "b", "c"] * draw.pick(1, 300)], object))
    const(nodes, "separator", np.array("_X_", object))
    dense = [f"d{i}" for i in range(count)]
    add(nodes, "made", "SparseCrossV2", *dense, "separator", N=0, sparse_types=[], dense_types=[_S] * count)

  return _attempt(box, build, "made:1")


def sparse_crosses_of_columns(draw: Draw, box: Box) -> Attempt:
  """Sparse columns whose indices, values and shapes do not fit each other."""
  is_hashed = draw.chance(0.5)
  indices = np.array(draw.lie([[0, 0], [1, 0]], [[1, 0], [0, 0]], [[9, 0], [-1, 0]], [[0, 0]]), np.int64)
  shape = np.array(draw.lie([2, 1], [0, 0], [-1, 1], [1 << 40, 1], [1 << 62, 1 << 62], [1, 1], [9, 1]), np.int64)
  sizes = [draw.pick(1, 0, 300) for _ in range(5)]

  def build(nodes: Nodes) -> None:
    const(nodes, "indices", indices)
    const(nodes, "values", np.array(draw.lie(["p", "q"], ["p"], [], ["p"] * 9), object))
    const(nodes, "shape", shape)
    for i, size in enumerate(sizes):
      const(nodes, f"d{i}", np.array([["a"] * size, ["b"] * size], object))
    dense = [f"d{i}" for i in range(5)]
    attrs = {"N": 1, "sparse_types": [_S], "dense_types": [_S] * 5}
    if is_hashed:
      const(nodes, "buckets", np.int64(draw.size(10)))
      const(nodes, "strong", np.bool_(draw.chance(0.5)))
      const(nodes, "salt", np.array(draw.pick([1, 2], [], [1], [-1, 1 << 62]), np.int64))
      add(
        nodes, "made", "SparseCrossHashed", "indices", "values", "shape", *dense, "buckets", "strong", "salt", **attrs
      )
    else:
      const(nodes, "separator", np.array("_X_" * draw.pick(1, 10_000), object))
      add(nodes, "made", "SparseCrossV2", "indices", "values", "shape", *dense, "separator", **attrs)
    add(nodes, "read", "StringLength", "x", unit=b"BYTE")

  return _attempt(box, build, "made:1", "read")


def loops_over_text(draw: Draw, box: Box) -> Attempt:
  limit = draw.pick(3, 30, 60)

  def fill(graph: schema.GraphDef) -> None:
    types = {"i": _L, "s": _S}
    condition = function(graph.library, "cond", types, {"r": ("less:z:0", DType.BOOL)})
    const(condition.node_def, "limit", np.int64(limit))
    add(condition.node_def, "less", "Less", "i", "limit:output:0", T=_L)
    body = function(graph.library, "body", types, {"j": ("next:z:0", _L), "t": ("join:output:0", _S)})
    const(body.node_def, "one", np.int64(1))
    add(body.node_def, "next", "AddV2", "i", "one:output:0", T=_L)
    add(body.node_def, "join", "StringJoin", "s", "s", N=2)
    const(graph.node, "zero", np.int64(0))
    loop(graph.node, "loop", "While", "zero", "x", T=[_L, _S], output_shapes=[])
    add(graph.node, "out", "StringLength", "loop:1")

  write_graph_model(box.model, graph_model(fill, {"x": (_S, (2,))}, "out"))
  return Attempt(lambda: use_split(box.model, {"x": _text("ab", "c")}))
