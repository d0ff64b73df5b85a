"""Lists of strings and ragged tensors in variants on the host, against TensorFlow's kernels."""

import pytest
import tensorflow as tf

from graftax.convert.host_ops.strings_test import check

WORDS = tf.constant(["a b c", "", "dd e", "x"])
_STRINGS = tf.RaggedTensorSpec([None], tf.string)


def _array(size, **options):
  return tf.TensorArray(tf.string, size, infer_shape=False, **options)


def _unstacked(x):
  return tf.TensorArray(tf.string, 3).unstack(x[:3])


def _nested(x):
  letters = tf.map_fn(lambda s: tf.strings.bytes_split(tf.strings.split(s)), x[:3], _STRINGS_OF_STRINGS)
  return tf.map_fn(lambda row: tf.strings.reduce_join(row, axis=1), letters, fn_output_signature=_STRINGS)


_STRINGS_OF_STRINGS = tf.RaggedTensorSpec([None, None], tf.string, ragged_rank=1)


@pytest.mark.parametrize(
  "function",
  [
    lambda x: tf.map_fn(tf.strings.split, x, fn_output_signature=_STRINGS),
    lambda x: tf.map_fn(tf.size, tf.strings.split(x), fn_output_signature=tf.int32),
    lambda x: tf.map_fn(lambda row: tf.strings.reduce_join(row, separator="-"), tf.strings.split(x)[:, :2], tf.string),
    lambda x: tf.map_fn(lambda row: tf.unique(row)[0], tf.strings.split(x)),
    _nested,
    lambda x: tf.map_fn(lambda row: row, tf.strings.split(x)[:0]),
    lambda x: _array(2).write(0, tf.strings.split(x[0])).write(1, x[1:]).concat(),
    lambda x: _array(2).split(x, [1, 3]).read(1),
    lambda x: _array(2).split(x, [1, 2]).concat(),
    lambda x: (_unstacked(x).gather([2, 0]), _unstacked(x).size()),
    lambda x: _unstacked(x).scatter([0, 2], x[2:]).stack(),
  ],
)
def test_lists_of_strings_and_ragged_tensors(function):
  check(function, WORDS)
