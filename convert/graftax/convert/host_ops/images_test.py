"""Encoded images on the host, against TensorFlow's kernels."""

import io
import struct
import zlib

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from graftax.convert.host_ops.images import decode_and_crop_jpeg, decode_image, decode_png
from graftax.convert.host_ops.strings_test import check
from graftax.graphdef_ir import Budget, DType, LimitExceededError, Limits
from graftax.ops_jax import UnsupportedAttrError
from graftax.testing.raw_ops import NodeContext

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

  for _ in range(5):
    contents = _encoded("JPEG", size=(80, 64), quality=quality).numpy()
    ours = decode_jpeg(NodeContext(), np.array(contents, object)).astype(int)
    assert np.abs(ours - tf.io.decode_jpeg(contents).numpy()).max() <= levels


@pytest.mark.parametrize(
  "window", [[0, 0, 21, 31], [3, 5, 7, 9], [20, 30, 1, 1], [0, 0, 22, 1], [-1, 0, 2, 2], [1, 1, 0, 2]]
)
@pytest.mark.parametrize("channels", [0, 1, 3])
def test_windows_of_jpegs(window, channels):
  contents = _encoded("JPEG", subsampling=0)
  check(
    lambda x, w: tf.image.decode_and_crop_jpeg(x, w, channels=channels, dct_method="INTEGER_ACCURATE"),
    contents,
    tf.constant(window),
  )


def test_windows_of_jpegs_with_few_colors_differ_only_at_their_edges():
  contents = _encoded("JPEG", size=(80, 64)).numpy()
  ours = decode_and_crop_jpeg(
    NodeContext(), np.array(contents, object), np.array([10, 20, 30, 40]), dct_method="INTEGER_ACCURATE"
  )
  theirs = tf.image.decode_and_crop_jpeg(contents, [10, 20, 30, 40], dct_method="INTEGER_ACCURATE").numpy()
  np.testing.assert_array_equal(ours[:, 1:-1], theirs[:, 1:-1])


@pytest.mark.parametrize("mode", ["RGB", "L"])
@pytest.mark.parametrize("dtype", [tf.int32, tf.int64])
def test_shapes_of_jpegs(mode, dtype):
  check(lambda x: tf.io.extract_jpeg_shape(x, dtype), _encoded("JPEG", mode))
  check(lambda x: tf.io.extract_jpeg_shape(x, dtype), tf.constant(b"no image"))


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


@pytest.mark.parametrize("channels", [0, 1, 3])
def test_gray_of_16_bits_keeps_them(channels):
  deep = io.BytesIO()
  Image.fromarray(_RANDOM.integers(0, 65536, (9, 7)).astype(np.uint16)).save(deep, "PNG")
  contents = tf.constant(deep.getvalue())
  for dtype in (tf.uint8, tf.uint16, tf.float32):
    check(lambda x, dtype=dtype: tf.io.decode_image(x, channels, dtype), contents)
  check(lambda x: tf.io.decode_png(x, channels, tf.uint16), contents)


@pytest.mark.parametrize("kind", ["PNG", "BMP", "GIF"])
def test_images_as_integers_of_16_bits_and_floats(kind):
  contents = _encoded(kind)
  for dtype in (tf.uint16, tf.float32):
    check(lambda x, dtype=dtype: tf.io.decode_image(x, 3, dtype, expand_animations=False), contents)


@pytest.mark.parametrize("dtype", [tf.uint16, tf.float32])
def test_colors_of_16_bits_are_refused_where_all_bits_count(dtype):
  colors = tf.io.encode_png(_RANDOM.integers(0, 65536, (9, 7, 3)).astype(np.uint16))
  check(lambda x: tf.io.decode_image(x), colors)
  kind = DType.UINT16 if dtype == tf.uint16 else DType.FLOAT
  with pytest.raises(UnsupportedAttrError, match="DecodeImage.*16 bits"):
    decode_image(NodeContext(), np.array(colors.numpy(), object), dtype=kind)


def _png(depth, color_type, transparent):
  """Returns a PNG of one row, whose color at `transparent` is made transparent, or b"" instead of a color."""
  chunks = [
    (b"IHDR", struct.pack(">IIBBBBB", 8, 1, depth, color_type, 0, 0, 0)),
    (b"tRNS", transparent),
    (b"IDAT", zlib.compress(b"\0" + bytes(range(depth * (3 if color_type == 2 else 1))))),
    (b"IEND", b""),
  ]
  framed = (
    struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
  )
  return b"\x89PNG\r\n\x1a\n" + b"".join(framed)


@pytest.mark.parametrize("channels", [0, 1, 3, 4])
@pytest.mark.parametrize(
  ("depth", "color_type", "transparent"),
  [
    (1, 0, b"\0\1"),
    (2, 0, b"\0\1"),
    (4, 0, b"\x10\2"),
    (8, 0, b"\7\2"),
    (16, 0, b"\2\3"),
    (8, 2, bytes([7, 3, 7, 4, 7, 5])),
  ],
)
def test_png_with_a_transparent_color(channels, depth, color_type, transparent):
  contents = tf.constant(_png(depth, color_type, transparent))
  for dtype in (tf.uint8, tf.uint16):
    if dtype == tf.uint8 or channels != 1 or color_type == 0:
      check(lambda x, dtype=dtype: tf.io.decode_png(x, channels, dtype), contents)
  check(lambda x: tf.io.decode_image(x, channels), contents)


def test_a_transparent_color_of_16_bits_is_refused_if_there_is_transparency():
  contents = _png(16, 2, bytes([0, 1, 2, 3, 4, 5]))
  for channels in (0, 3):
    check(lambda x, channels=channels: tf.io.decode_png(x, channels), tf.constant(contents))
  with pytest.raises(UnsupportedAttrError, match=r"DecodePng: channels=4 .*expected 0, 1 or 3"):
    decode_png(NodeContext(), np.array(contents, object), channels=4)


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "LA", "L"])
@pytest.mark.parametrize("size", [(160, 16), (16, 9)])
def test_sizes_with_the_digits_16_are_not_colors_of_16_bits(mode, size):
  contents = _encoded("PNG", mode, size)
  for dtype in (tf.uint16, tf.float32):
    check(lambda x, dtype=dtype: tf.io.decode_image(x, dtype=dtype), contents)
  check(lambda x: tf.io.decode_png(x, dtype=tf.uint16), contents)


@pytest.mark.parametrize("channels", [0, 1, 3, 4])
@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L", "P", "1"])
def test_bmp(channels, mode):
  file = io.BytesIO()
  Image.open(io.BytesIO(_encoded("PNG", "RGBA").numpy())).convert(mode).save(file, "BMP")
  contents = tf.constant(file.getvalue())
  check(lambda x: tf.io.decode_bmp(x, channels), contents)
  check(lambda x: tf.io.decode_image(x, channels, tf.float32), contents)


@pytest.mark.parametrize(
  ("channels", "dtype", "num_bytes"),
  [(0, DType.UINT8, 675), (4, DType.UINT8, 900), (3, DType.UINT16, 1350), (0, DType.FLOAT, 2700)],
)
def test_the_size_of_a_bmp_is_that_of_the_result(channels, dtype, num_bytes):
  contents = np.array(_encoded("BMP", size=(15, 15)).numpy(), object)

  def decode(array_bytes):
    context = NodeContext(budget=Budget(Limits(array_bytes=array_bytes)))
    return decode_image(context, contents, channels=channels, dtype=dtype)

  assert decode(num_bytes).nbytes == num_bytes
  with pytest.raises(LimitExceededError, match=f"{num_bytes} bytes"):
    decode(num_bytes - 1)


@pytest.mark.parametrize("offset", [10, 18, 22, 28])
@pytest.mark.parametrize("value", [0, -1, -21, 2, 10**9, -(2**31)])
def test_bmp_with_other_numbers_in_its_header(offset, value):
  data = _encoded("BMP").numpy()
  changed = data[:offset] + int.to_bytes(value, 4, "little", signed=True) + data[offset + 4 :]
  check(tf.io.decode_bmp, tf.constant(changed))


@pytest.mark.parametrize("size", [2, 20, 40, 1000])
def test_bmp_that_was_cut(size):
  check(tf.io.decode_bmp, tf.constant(_encoded("BMP").numpy()[:size]))


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
