"""Serialized examples on the host, against TensorFlow's kernels."""

import pytest
import tensorflow as tf

from graftax.convert.host_ops.strings_test import check


def example(**features):
  kinds = {
    bytes: lambda values: {"bytes_list": tf.train.BytesList(value=values)},
    float: lambda values: {"float_list": tf.train.FloatList(value=values)},
    int: lambda values: {"int64_list": tf.train.Int64List(value=values)},
  }
  feature = {k: tf.train.Feature(**kinds[type(v[0]) if v else int](v)) for k, v in features.items()}
  return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()


EXAMPLES = [
  example(a=[1, 2], b=[b"x", b"yy"], c=[1.5, 2.5, -1.0], d=[7]),
  example(a=[-5], c=[0.0, 1.0, 2.0], d=[2**40]),
  example(c=[9.0, 8.0, 7.0], b=[b""]),
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
