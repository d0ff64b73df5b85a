"""Host ops for records, scripts, joins and windows of images, against TensorFlow's kernels."""

import types

import numpy as np
import pytest
import tensorflow as tf

from graftax.convert.host_ops.decoding_tensorflow_test import _encoded
from graftax.convert.host_ops.images import decode_and_crop_jpeg
from graftax.convert.host_ops.tensorflow_test import SOME, check
from graftax.graphdef_ir import Budget

_RAW = tf.raw_ops


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
  context = types.SimpleNamespace(budget=Budget(), node_name="x", function_name="f")
  ours = decode_and_crop_jpeg(
    context, np.array(contents, object), np.array([10, 20, 30, 40]), dct_method="INTEGER_ACCURATE"
  )
  theirs = tf.image.decode_and_crop_jpeg(contents, [10, 20, 30, 40], dct_method="INTEGER_ACCURATE").numpy()
  np.testing.assert_array_equal(ours[:, 1:-1], theirs[:, 1:-1])


@pytest.mark.parametrize("mode", ["RGB", "L"])
@pytest.mark.parametrize("dtype", [tf.int32, tf.int64])
def test_shapes_of_jpegs(mode, dtype):
  check(lambda x: tf.io.extract_jpeg_shape(x, dtype), _encoded("JPEG", mode))
  check(lambda x: tf.io.extract_jpeg_shape(x, dtype), tf.constant(b"no image"))


def test_scripts_of_all_code_points():
  points = tf.range(-2, 0x110002)
  check(tf.strings.unicode_script, points)


@pytest.mark.parametrize("ids", [[0, 2, 0, -1], [3, 0, 0, 0], [[0, 1], [1, 0], [2, 2], [-5, 2]]])
def test_strings_are_joined_by_segment(ids):
  texts = tf.constant([["a", "b"], ["c", "d"], ["", "f"], ["g", "h"]])
  check(lambda x, i: tf.strings.unsorted_segment_join(x, i, 3, separator="|"), texts, tf.constant(ids))


@pytest.mark.parametrize("data", [SOME[:50], tf.reshape(SOME[:48], [8, 6]), tf.reshape(tf.range(24.0), [4, 2, 3])])
def test_fingerprints(data):
  check(lambda x: tf.fingerprint(x), data)
  check(lambda x, method: _RAW.Fingerprint(data=x, method=method), data, tf.constant("sha"))


@pytest.mark.parametrize("length", [4, 8, 12, 6, 0])
@pytest.mark.parametrize("little_endian", [True, False])
def test_padded_numbers(length, little_endian):
  texts = tf.constant([b"abcdefgh", b"123", b""])
  check(
    lambda x, n: _RAW.DecodePaddedRaw(input_bytes=x, fixed_length=n, out_type=tf.int32, little_endian=little_endian),
    texts,
    tf.constant(length),
  )


@pytest.mark.parametrize(
  "value", [np.float32([[1.5, 2]]), np.int64(3), np.array([b"x", b""], object), np.zeros((0, 2))]
)
def test_serialized_tensors(value):
  data = tf.io.serialize_tensor(tf.constant(value))
  check(lambda x: tf.io.parse_tensor(x, tf.as_dtype(tf.constant(value).dtype)), data)
  check(lambda x: tf.io.parse_tensor(x, tf.uint8), data)
  check(lambda x: tf.io.parse_tensor(x, tf.uint8), tf.constant(b"\xff\x01"))
  check(lambda x: tf.io.parse_tensor(tf.io.serialize_tensor(x), x.dtype), tf.constant(value))


@pytest.mark.parametrize(
  "line", ["1,2.5,x", ",,", "3,,y z", '4,1,"a,""b"', '5,1,"open', '6,1,a"b', "7,1", "NA,2,NA", "x,1,y", " 8, 2 ,z", ""]
)
def test_lines_of_csv(line):
  defaults = [tf.constant([7]), tf.constant([], tf.float32), tf.constant(["d"])]
  check(lambda x: tf.io.decode_csv(x, defaults), tf.constant([line, "1,2,3"]))
  check(lambda x: tf.io.decode_csv(x, [[7], [0.5], ["d"]], na_value="NA"), tf.constant(line))
  check(lambda x: tf.io.decode_csv(x, [["d"]], use_quote_delim=False, select_cols=[1]), tf.constant([line]))
