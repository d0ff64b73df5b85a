"""Serialized tensors, padded numbers and lines of CSV on the host, against TensorFlow's kernels."""

import numpy as np
import pytest
import tensorflow as tf

from graftax.convert.host_ops.strings_test import check

_RAW = tf.raw_ops


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
  "line",
  [
    "1,2,a\r",
    "1,2\n,a",
    '1,2,"a\n"',
    "1,2.5,x",
    "1,\n2.5,x",
    "\r\n1,2.5,x",
    "1,2.5,\nx",
    '1,2.5,\r"x"',
    "1,2.5,\n",
    "1,2.5\n",
    "1,2.5,x,",
    "1,2.5,\n,",
    "\n",
    ",",
    ",,",
    "3,,y z",
    '4,1,"a,""b"',
    '5,1,"open',
    '6,1,a"b',
    "7,1",
    "NA,2,NA",
    "x,1,y",
    " 8, 2 ,z",
    "",
  ],
)
def test_lines_of_csv(line):
  defaults = [tf.constant([7]), tf.constant([], tf.float32), tf.constant(["d"])]
  check(lambda x: tf.io.decode_csv(x, defaults), tf.constant([line, "1,2,3"]))
  check(lambda x: tf.io.decode_csv(x, [[7], [0.5], ["d"]], na_value="NA"), tf.constant(line))
  check(lambda x: tf.io.decode_csv(x, [["d"]], use_quote_delim=False, select_cols=[1]), tf.constant([line]))
  check(lambda x: tf.io.decode_csv(x, [["d"]]), tf.constant([line]))
