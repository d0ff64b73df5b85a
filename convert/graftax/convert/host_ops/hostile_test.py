"""Encoded values that ask for far more memory than they have bytes: each is a typed error, before it is decoded."""

import gzip
import io
import struct
import types
import wave
import zlib

import numpy as np
import pytest

from graftax.convert.host_ops.examples import parse_example_v2
from graftax.convert.host_ops.files import decode_compressed, decode_wav
from graftax.convert.host_ops.images import decode_bmp, decode_gif, decode_image, decode_jpeg, decode_png
from graftax.convert.host_ops.numeric_text import as_string
from graftax.convert.host_ops.regex import static_regex_replace
from graftax.convert.host_ops.sequence_examples import parse_sequence_example
from graftax.convert.host_ops.string_ngrams import string_n_grams
from graftax.convert.host_ops.strings import add, reduce_join, string_format, string_join, unsorted_segment_join
from graftax.convert.host_ops.values import as_strings, string_array
from graftax.graphdef_ir import Budget, DType, GraftaxError, LimitExceededError, Limits, PartialShape
from graftax.ops_jax import InvalidInputError, UnsupportedAttrError
from graftax.testing.resource_limits import within_limits

_TOO_LARGE = (LimitExceededError, InvalidInputError)


def _context(limits: Limits | None = None):
  return types.SimpleNamespace(budget=Budget(limits), node_name="decode", function_name="f")


def _png(width: int, height: int, *chunks: tuple[bytes, bytes]) -> bytes:
  header = (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
  parts = [header, *chunks, (b"IEND", b"")]
  return b"\x89PNG\r\n\x1a\n" + b"".join(
    struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
  )


def _gif(width: int, height: int, num_frames: int) -> bytes:
  frame = b"\x2c\0\0\0\0\1\0\1\0\0\2\2\x44\1\0"
  return b"GIF89a" + struct.pack("<HHBBB", width, height, 0x80, 0, 0) + bytes(6) + frame * num_frames + b";"


def _bmp(width: int, height: int, bits: int = 24, data: bytes = bytes(100)) -> bytes:
  header = struct.pack("<IiiHHIIiiII", 40, width, height, 1, bits, 0, 0, 0, 0, 0, 0)
  return b"BM" + struct.pack("<IHHI", 54 + len(data), 0, 0, 54) + header + data


def _jpeg(width: int, height: int) -> bytes:
  from PIL import Image

  file = io.BytesIO()
  Image.new("RGB", (16, 16)).save(file, "JPEG")
  data = bytearray(file.getvalue())
  start = data.index(b"\xff\xc0") + 5
  data[start : start + 4] = struct.pack(">HH", height, width)
  return bytes(data)


_IMAGES = {
  "png": _png(13_000, 13_000, (b"IDAT", b"")),
  "png_of_the_largest_size": _png((1 << 31) - 1, (1 << 31) - 1, (b"IDAT", b"")),
  "png_without_pixels": _png(0, 5, (b"IDAT", b"")),
  "png_with_a_long_text": _png(4, 4, (b"zTXt", b"k\0\0" + zlib.compress(bytes(1 << 27))), (b"IDAT", b"")),
  "png_with_a_long_profile": _png(4, 4, (b"iCCP", b"k\0\0" + zlib.compress(bytes(1 << 27))), (b"IDAT", b"")),
  "png_cut_off": _png(400, 400)[:40],
  "gif_of_many_frames": _gif(1000, 1000, 5000),
  "gif_of_one_large_frame": _gif(65_535, 65_535, 1),
  "bmp": _bmp(13_000, 13_000),
  "bmp_of_the_largest_size": _bmp((1 << 31) - 1, -(1 << 31) + 1),
  "bmp_of_odd_bits": _bmp(4, 4, 5),
  "jpeg": _jpeg(65_500, 65_500),
}


@pytest.mark.filterwarnings("ignore:Image size:PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize("decode", [decode_image, decode_png, decode_jpeg, decode_gif, decode_bmp])
@pytest.mark.parametrize("case", _IMAGES)
def test_images_of_giant_sizes_are_refused_before_they_are_decoded(case, decode):
  pytest.importorskip("PIL")
  limits = Limits(array_bytes=1 << 26, known_bytes=1 << 28)
  with within_limits(memory_mib=600), pytest.raises((*_TOO_LARGE, UnsupportedAttrError)):
    decode(_context(limits), as_strings(_IMAGES[case]))
    if case == "gif_of_many_frames":  # the others return one frame
      decode_gif(_context(limits), as_strings(_IMAGES[case]))


def test_the_error_for_an_image_names_its_node_and_the_limit():
  pytest.importorskip("PIL")
  message = r"DecodeGif node 'decode' \(function 'f'\) needs 20000000000 bytes .* the limit array_bytes is"
  with pytest.raises(LimitExceededError, match=message):
    decode_gif(_context(), as_strings(_gif(1000, 1000, 5000)))


def test_what_a_limit_refuses_is_decoded_with_a_higher_limit():
  pytest.importorskip("PIL")
  data = as_strings(_gif(100, 100, 3))
  with pytest.raises(LimitExceededError) as caught:
    decode_gif(_context(Limits(array_bytes=1000)), data)
  assert decode_gif(_context(Limits(array_bytes=caught.value.needed)), data).shape == (3, 100, 100, 3)


def test_many_images_of_one_call_are_counted_together():
  pytest.importorskip("PIL")
  context, data = _context(Limits(known_bytes=1 << 20)), as_strings(_gif(100, 100, 1))
  with pytest.raises(LimitExceededError, match=r"decoded from 945; the limit unpacked_ratio is 100"):
    for _ in range(100):
      decode_gif(context, data)


def test_images_that_are_stored_in_full_are_not_limited_together():
  pytest.importorskip("PIL")
  from PIL import Image

  file = io.BytesIO()
  Image.fromarray(np.random.default_rng(0).integers(0, 256, (50, 50, 3)).astype(np.uint8)).save(file, "PNG")
  context = _context(Limits(known_bytes=1000))
  for _ in range(100):
    assert decode_png(context, as_strings(file.getvalue())).shape == (50, 50, 3)


@pytest.mark.parametrize("ratio", [0, -1, 3])
def test_ratios_that_jpeg_does_not_have_are_refused(ratio):
  pytest.importorskip("PIL")
  with pytest.raises(UnsupportedAttrError, match=f"ratio={ratio}; expected 1, 2, 4 or 8"):
    decode_jpeg(_context(), as_strings(_jpeg(16, 16)), ratio=ratio)


@pytest.mark.parametrize(("kind", "compress"), [("GZIP", gzip.compress), ("ZLIB", zlib.compress)])
def test_compressed_strings_are_limited_while_they_are_decompressed(kind, compress):
  bomb = compress(bytes(1 << 27))
  message = r"DecodeCompressed node 'decode' \(function 'f'\) needs .* the limit array_bytes is 1048576"
  with within_limits(memory_mib=100), pytest.raises(LimitExceededError, match=message):
    decode_compressed(_context(Limits(array_bytes=1 << 20)), as_strings(bomb), compression_type=kind)
  bombs = string_array([compress(bytes(1 << 22))] * 20)
  with within_limits(memory_mib=200), pytest.raises(LimitExceededError, match="unpacked_ratio"):
    decode_compressed(_context(Limits(known_bytes=1 << 24)), bombs, compression_type=kind)
  text = np.random.default_rng(0).bytes(3 << 20)
  assert decode_compressed(
    _context(), string_array([compress(text), compress(b"")]), compression_type=kind
  ).tolist() == [
    text,
    b"",
  ]
  for damaged in (b"", compress(text)[:-20], compress(text)[:5], b"noise" * 9):
    with pytest.raises(InvalidInputError, match=f"not {kind} data"):
      decode_compressed(_context(), as_strings(damaged), compression_type=kind)


def _wav(num_channels: int, samples: bytes) -> bytes:
  file = io.BytesIO()
  with wave.open(file, "wb") as out:
    out.setnchannels(num_channels)
    out.setsampwidth(2)
    out.setframerate(8000)
    out.writeframes(samples)
  return file.getvalue()


@pytest.mark.parametrize(
  ("contents", "sizes", "error"),
  [
    (_wav(1, b"ab"), {"desired_samples": (1 << 31) - 1}, LimitExceededError),
    (_wav(1, b"ab"), {"desired_channels": (1 << 31) - 1}, LimitExceededError),
    (_wav(1, b"ab" * 100_000), {"desired_channels": 1 << 20}, LimitExceededError),
    (_wav(1, b"ab"), {"desired_channels": 1 << 16, "desired_samples": 1 << 16}, LimitExceededError),
    (_wav(3, b"abcdef" * 5)[:-3], {}, InvalidInputError),
  ],
)
def test_sounds_of_giant_sizes_are_refused(contents, sizes, error):
  with within_limits(memory_mib=200), pytest.raises(error, match="DecodeWav"):
    decode_wav(_context(), as_strings(contents), **sizes)


def test_a_long_sound_of_which_one_sample_is_wanted_is_cut_before_its_channels_are_repeated():
  audio, rate = decode_wav(_context(), as_strings(_wav(1, b"ab" * 1000)), desired_channels=3, desired_samples=2)
  assert audio.shape == (2, 3)
  assert rate == 8000


def _parse(shape: tuple[int | None, ...], examples: list[bytes], default=None) -> list[np.ndarray]:
  return parse_example_v2(
    _context(),
    string_array(examples),
    string_array([]),
    string_array([]),
    string_array([b"a"]),
    string_array([]),
    [np.zeros(0, np.int64) if default is None else default],
    sparse_types=(),
    ragged_value_types=(),
    ragged_split_types=(),
    dense_shapes=(PartialShape(shape),),
  )


def _field(number: int, data: bytes) -> bytes:
  size = len(data)
  length = bytes([size & 0x7F | 0x80, size >> 7 & 0x7F | 0x80, size >> 14]) if size > 127 else bytes([size])
  return bytes([number << 3 | 2]) + length + data


def _example(values: bytes) -> bytes:
  return _field(1, _field(1, _field(1, b"a") + _field(2, _field(3, _field(1, values)))))


@pytest.mark.parametrize(
  ("shape", "examples", "default", "error"),
  [
    ((1 << 40,), [b""], None, LimitExceededError),
    ((1 << 40, 1 << 40, 1 << 40), [b""], np.zeros(1, np.int64), LimitExceededError),
    ((None,), [_example(bytes(100_000)), *[b""] * 10_000], None, LimitExceededError),
    ((None, 0), [_example(b"\1\2")], None, InvalidInputError),
    ((2, 2), [b""], np.zeros(3, np.int64), InvalidInputError),
  ],
)
def test_examples_of_giant_shapes_are_refused(shape, examples, default, error):
  with within_limits(memory_mib=300), pytest.raises(error, match="ParseExample.*b'a'"):
    _parse(shape, examples, default)


def _parse_steps(messages: list[bytes], size: int) -> list[np.ndarray]:
  return parse_sequence_example(
    _context(),
    string_array(messages),
    string_array([]),
    [],
    feature_list_dense_missing_assumed_empty=(b"a",),
    context_sparse_keys=(),
    context_dense_keys=(),
    feature_list_sparse_keys=(),
    feature_list_dense_keys=(b"a",),
    context_sparse_types=(),
    context_dense_shapes=(),
    feature_list_sparse_types=(),
    feature_list_dense_types=(np.dtype(np.int64),),
    feature_list_dense_shapes=(PartialShape((size,)),),
  )


def _steps(*steps: bytes) -> bytes:
  features = b"".join(_field(1, _field(3, _field(1, step))) for step in steps)
  return _field(2, _field(1, _field(1, b"a") + _field(2, features)))


def test_damaged_sequence_examples_end_in_typed_errors():
  message, rng = _steps(b"\1\2", b"\3\4"), np.random.default_rng(0)
  assert _parse_steps([message], 2)[0].tolist() == [[[1, 2], [3, 4]]]
  num_errors = 0
  for _ in range(2000):
    damaged = bytearray(message[: rng.integers(1, len(message) + 1)])
    damaged[rng.integers(len(damaged))] = rng.integers(256)
    try:
      _parse_steps([bytes(damaged)], 2)
    except InvalidInputError:
      num_errors += 1
  assert num_errors > 1000


def test_sequence_examples_that_fill_others_are_refused():
  with within_limits(memory_mib=300), pytest.raises(LimitExceededError, match="ParseSequenceExample.*b'a'"):
    _parse_steps([_steps(*[b""] * 3000), *[b""] * 10_000], 64)


def test_integers_of_examples_are_read_in_both_forms():
  (packed,) = _parse((4,), [_example(b"\1\2\xff\xff\3\4")])
  assert packed.tolist() == [[1, 2, 65535, 4]]
  single = b"\x0a\x0f\x0a\x0d\x0a\1a\x12\x08\x1a\x06\x08\1\x0a\2\2\3"
  (mixed,) = _parse((3,), [single])
  assert mixed.tolist() == [[1, 2, 3]]


def test_other_errors_of_pillow_are_typed(monkeypatch):
  image = pytest.importorskip("PIL.Image")
  data = io.BytesIO()
  image.new("RGB", (4, 4)).save(data, "PNG")

  def fail(*args):
    raise struct.error("unpack requires a buffer")

  monkeypatch.setattr("PIL.PngImagePlugin.PngImageFile.load", fail)
  with pytest.raises(GraftaxError, match="DecodePng: the PNG image is damaged: error: unpack requires a buffer"):
    decode_png(_context(), as_strings(data.getvalue()), dtype=DType.UINT8)


_TEXT = string_array([b"a" * 1000])
_LITTLE = Limits(text_bytes=10_000)


@pytest.mark.parametrize(
  "make",
  [
    lambda budget: static_regex_replace(_TEXT, pattern=b"a", rewrite=b"b" * 100, budget=budget),
    lambda budget: string_join([_TEXT] * 20, budget=budget),
    lambda budget: add(_TEXT, np.array([[b""]] * 20, object), budget=budget),
    lambda budget: reduce_join(_TEXT.repeat(3), np.int32(0), separator=b"-" * 9000, budget=budget),
    lambda budget: unsorted_segment_join(_TEXT, np.zeros(1, np.int32), np.int32((1 << 31) - 1), budget=budget),
    lambda budget: as_string(np.ones(3, np.float32), width=1 << 30, budget=budget),
    lambda budget: as_string(np.ones(3, np.float32), precision=1 << 30, budget=budget),
    lambda budget: string_format([as_strings(_TEXT[0])] * 20, template=b"%s" * 20, budget=budget),
    lambda budget: string_n_grams(
      _TEXT,
      np.array([0, 1]),
      separator=b" ",
      ngram_widths=(1 << 40,),
      left_pad=b"l",
      right_pad=b"r",
      pad_width=-1,
      preserve_short_sequences=False,
      budget=budget,
    ),
  ],
)
def test_text_that_grows_is_refused_before_it_is_made(make):
  with pytest.raises(LimitExceededError, match="bytes of strings.*the limit text_bytes is 10000"):
    make(Budget(_LITTLE))


def test_text_may_be_a_hundred_times_the_arguments_of_a_call():
  budget = Budget(_LITTLE, argument_bytes=_TEXT.nbytes + 1000)
  (replaced,) = static_regex_replace(_TEXT, pattern=b"a", rewrite=b"bb", budget=budget)
  assert replaced == b"bb" * 1000


def test_formats_with_other_characters_are_invalid():
  with pytest.raises(InvalidInputError, match=r"fill is b'\\xff'"):
    as_string(np.ones(1, np.float32), fill=b"\xff")
  with pytest.raises(InvalidInputError, match="2 placeholders for 1 values"):
    string_format([as_strings(_TEXT[0])], template=b"%s %s")


def test_format_counts_what_it_shows():
  few = Budget(Limits(text_bytes=1 << 12))
  many = np.zeros((1 << 20,), np.float32)
  assert string_format([many], budget=few) == b"[0 0 0 ... 0 0 0]"
  for value in (many, np.zeros((1 << 31, 0), np.float32), as_strings(b"\x01" * 3000)):
    with pytest.raises(LimitExceededError, match="StringFormat"):
      string_format([value], summarize=-1, budget=few)
  assert string_format([np.zeros((1 << 31, 0), np.float32)], budget=few).item().count(b"[]") == 6


def test_calls_outside_of_programs_do_not_add_up():
  text = np.array([b"a" * (1 << 20)], object)
  for _ in range(20):
    joined = string_join([text, text])
  assert len(joined[0]) == 2 << 20
