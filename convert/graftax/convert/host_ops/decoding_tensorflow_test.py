"""Images, sounds and serialized examples on the host, against TensorFlow's kernels."""

import gzip
import io
import types
import zlib

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from graftax.convert.host_ops.tensorflow_test import check
from graftax.graphdef_ir import Budget

_RAW = tf.raw_ops
_RANDOM = np.random.default_rng(0)


def _encoded(kind, mode="RGB", size=(31, 21), **options):
  bands = len(Image.new(mode, (1, 1)).getbands())
  pixels = _RANDOM.integers(0, 256, (size[1], size[0], bands)).astype(np.uint8)
  file = io.BytesIO()
  Image.fromarray(pixels[..., 0] if bands == 1 else pixels).save(file, kind, **options)
  return tf.constant(file.getvalue())


@pytest.mark.parametrize("channels", [0, 1, 3])
@pytest.mark.parametrize("options", [{}, {"progressive": True}, {"subsampling": 0}, {"mode": "L"}])
def test_jpeg(channels, options):
  contents = _encoded("JPEG", **options)
  check(lambda x: tf.io.decode_jpeg(x, channels=channels, dct_method="INTEGER_ACCURATE"), contents)
  check(lambda x: tf.io.decode_jpeg(x, channels=channels, ratio=2, dct_method="INTEGER_ACCURATE"), contents)


@pytest.mark.parametrize(("quality", "levels"), [(75, 5), (95, 11)])
def test_jpeg_without_a_method_is_within_the_documented_bounds(quality, levels):
  from graftax.convert.host_ops.images import decode_jpeg

  context = types.SimpleNamespace(budget=Budget(), node_name="x", function_name="f")

  for _ in range(5):
    contents = _encoded("JPEG", size=(80, 64), quality=quality).numpy()
    difference = decode_jpeg(context, np.array(contents, object)).astype(int) - tf.io.decode_jpeg(contents).numpy()
    assert np.abs(difference).max() <= levels


@pytest.mark.parametrize("channels", [0, 1, 3, 4])
@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L", "LA"])
def test_png(channels, mode):
  contents = _encoded("PNG", mode)
  check(lambda x: tf.io.decode_png(x, channels=channels), contents)
  if channels != 1 or mode in ("L", "LA"):
    check(lambda x: tf.io.decode_png(x, channels=channels, dtype=tf.uint16), contents)


def test_png_with_a_palette_and_of_16_bits():
  palette, deep = io.BytesIO(), io.BytesIO()
  pixels = _RANDOM.integers(0, 256, (9, 7, 3)).astype(np.uint8)
  Image.fromarray(pixels).convert("P").save(palette, "PNG")
  Image.fromarray(_RANDOM.integers(0, 65536, (9, 7)).astype(np.uint16)).save(deep, "PNG")
  check(lambda x: tf.io.decode_png(x), tf.constant(palette.getvalue()))
  check(lambda x: tf.io.decode_png(x), tf.constant(deep.getvalue()))
  check(lambda x: tf.io.decode_png(x, dtype=tf.uint16), tf.constant(deep.getvalue()))


def test_other_images():
  animation = io.BytesIO()
  frames = [Image.fromarray(_RANDOM.integers(0, 256, (9, 7, 3)).astype(np.uint8)) for _ in range(3)]
  frames[0].save(animation, "GIF", save_all=True, append_images=frames[1:])
  gif = tf.constant(animation.getvalue())
  check(tf.io.decode_gif, gif)
  check(tf.io.decode_image, gif)
  check(lambda x: tf.io.decode_image(x, expand_animations=False, dtype=tf.float32), gif)
  check(lambda x: tf.io.decode_bmp(x), _encoded("BMP"))
  check(lambda x: tf.io.decode_jpeg(x, channels=3), _encoded("PNG"))


@pytest.mark.parametrize("contents", [b"", b"hello", "JPEG", "PNG"])
def test_what_is_not_an_image_raises(contents):
  data = tf.constant(contents if isinstance(contents, bytes) else _encoded(contents).numpy()[:300])
  check(lambda x: tf.io.decode_jpeg(x), data)
  check(lambda x: tf.io.decode_image(x), data)


@pytest.mark.parametrize(("channels", "samples"), [(-1, -1), (1, -1), (2, 30), (-1, 70)])
def test_wav(channels, samples):
  contents = tf.audio.encode_wav(_RANDOM.uniform(-1, 1, (50, 2)).astype(np.float32), 16000)
  check(lambda x: tf.audio.decode_wav(x, channels, samples), contents)
  check(tf.audio.decode_wav, tf.constant(b"RIFF"))


@pytest.mark.parametrize("dtype", [tf.uint8, tf.int16, tf.float32])
@pytest.mark.parametrize("little_endian", [True, False])
def test_bytes_of_numbers(dtype, little_endian):
  check(lambda x: tf.io.decode_raw(x, dtype, little_endian), tf.constant([b"abcdefgh", b"12345678"]))
  check(lambda x: tf.io.decode_raw(x, dtype, little_endian), tf.constant([b"abc", b"a"]))


def test_compressed_strings():
  check(lambda x: tf.io.decode_compressed(x, "GZIP"), tf.constant([gzip.compress(b"hello" * 9)]))
  check(lambda x: tf.io.decode_compressed(x, "ZLIB"), tf.constant([zlib.compress(b"hello" * 9)]))


def _example(**features):
  kinds = {
    bytes: lambda values: {"bytes_list": tf.train.BytesList(value=values)},
    float: lambda values: {"float_list": tf.train.FloatList(value=values)},
    int: lambda values: {"int64_list": tf.train.Int64List(value=values)},
  }
  feature = {k: tf.train.Feature(**kinds[type(v[0]) if v else int](v)) for k, v in features.items()}
  return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()


EXAMPLES = [
  _example(a=[1, 2], b=[b"x", b"yy"], c=[1.5, 2.5, -1.0], d=[7]),
  _example(a=[-5], c=[0.0, 1.0, 2.0], d=[2**40]),
  _example(c=[9.0, 8.0, 7.0], b=[b""]),
]
DENSE = {"c": tf.io.FixedLenFeature([3], tf.float32), "d": tf.io.FixedLenFeature([], tf.int64, default_value=-1)}


@pytest.mark.parametrize(
  "features",
  [
    {"a": tf.io.VarLenFeature(tf.int64), "b": tf.io.VarLenFeature(tf.string), **DENSE},
    {"a": tf.io.RaggedFeature(tf.int64), "c": tf.io.RaggedFeature(tf.float32, row_splits_dtype=tf.int64)},
    {"a": tf.io.FixedLenSequenceFeature([], tf.int64, allow_missing=True)},
    {"c": tf.io.FixedLenSequenceFeature([3], tf.float32, allow_missing=True, default_value=5.0)},
    {"a": tf.io.FixedLenFeature([2], tf.int64)},
    {"a": tf.io.VarLenFeature(tf.float32)},
  ],
)
def test_examples(features):
  check(lambda x: tf.io.parse_example(x, features), tf.constant(EXAMPLES))


def test_strings_of_scalar_features_are_strings_for_other_ops():
  messages = tf.constant([bytes([10, 14, 10, 12, 10, 1, 97, 18, 7, 10, 5, 10, 3]) + text for text in (b"one", b"two")])
  features = {"a": tf.io.FixedLenFeature([], tf.string)}
  check(lambda x: tf.strings.join([tf.io.parse_example(x, features)["a"], "!"]), messages)


def test_single_and_damaged_examples():
  check(lambda x: tf.io.parse_single_example(x, DENSE), tf.constant(EXAMPLES[0]))
  check(lambda x: tf.io.parse_example(x, {"a": tf.io.VarLenFeature(tf.int64)}), tf.constant([b""]))
  check(lambda x: tf.io.parse_example(x, DENSE), tf.constant([b"\x01\x02hello"]))
