"""Serialized sequence examples on the host, against TensorFlow's kernels."""

import pytest
import tensorflow as tf

from graftax.convert.host_ops.examples_test import example
from graftax.convert.host_ops.strings_test import check


def _sequence(context, **lists):
  message = tf.train.SequenceExample()
  message.context.MergeFromString(tf.train.Example.FromString(example(**context)).features.SerializeToString())
  for key, steps in lists.items():
    for step in steps:
      features = tf.train.Example.FromString(example(x=step)).features
      message.feature_lists.feature_list[key].feature.add().CopyFrom(features.feature["x"])
    message.feature_lists.feature_list[key].SetInParent()
  return message.SerializeToString()


SEQUENCES = [
  _sequence({"a": [1, 2], "d": [7]}, n=[[1, 2], [3, 4]], s=[[b"x"], [], [b"yy", b"z"]]),
  _sequence({"d": [5], "b": [b"q"]}, n=[[5, 6]], f=[[1.5], [2.5, -1.0]]),
  _sequence({"a": [3], "d": [2**40]}, n=[], s=[[b""]]),
]
_STEPS = {"n": tf.io.FixedLenSequenceFeature([2], tf.int64)}


@pytest.mark.parametrize(
  ("context", "steps"),
  [
    ({"a": tf.io.VarLenFeature(tf.int64), "d": tf.io.FixedLenFeature([], tf.int64)}, _STEPS),
    (
      {"b": tf.io.FixedLenFeature([], tf.string, default_value="none")},
      {"s": tf.io.VarLenFeature(tf.string), **_STEPS},
    ),
    ({"a": tf.io.RaggedFeature(tf.int64)}, {"s": tf.io.RaggedFeature(tf.string), "f": tf.io.RaggedFeature(tf.float32)}),
    ({}, {"f": tf.io.FixedLenSequenceFeature([], tf.float32, allow_missing=True)}),
    ({}, {"s": tf.io.FixedLenSequenceFeature([], tf.string)}),
    ({}, {"n": tf.io.VarLenFeature(tf.float32)}),
    ({}, {"none": tf.io.VarLenFeature(tf.int64)}),
  ],
)
def test_sequence_examples(context, steps):
  check(lambda x: tf.io.parse_sequence_example(x, context, steps), tf.constant(SEQUENCES))
  for message in SEQUENCES:
    check(lambda x: tf.io.parse_single_sequence_example(x, context, steps), tf.constant(message))


def test_steps_of_another_size_and_damaged_sequence_examples():
  check(lambda x: tf.io.parse_sequence_example(x, {}, _STEPS), tf.constant([_sequence({}, n=[[1, 2], [3]])]))
  check(lambda x: tf.io.parse_sequence_example(x, {}, _STEPS), tf.constant([b"\x12\x02hello"]))


def test_sequence_examples_of_older_graphs():
  def parse(x, op, **inputs):
    return op(
      serialized=x,
      context_dense_defaults=[tf.constant([], tf.int64)],
      context_sparse_types=[tf.int64],
      context_dense_shapes=[[]],
      feature_list_dense_types=[tf.int64],
      feature_list_sparse_types=[tf.string],
      feature_list_dense_shapes=[[2]],
      **inputs,
    )

  keys = {
    "context_sparse_keys": ["a"],
    "context_dense_keys": ["d"],
    "feature_list_sparse_keys": ["s"],
    "feature_list_dense_keys": ["n"],
    "feature_list_dense_missing_assumed_empty": [],
  }
  check(
    lambda x: parse(
      x,
      tf.raw_ops.ParseSequenceExample,
      debug_name=tf.constant([], tf.string),
      Ncontext_sparse=1,
      Ncontext_dense=1,
      Nfeature_list_sparse=1,
      Nfeature_list_dense=1,
      **keys,
    ),
    tf.constant(SEQUENCES),
  )
  check(lambda x: parse(x, tf.raw_ops.ParseSingleSequenceExample, debug_name="", **keys), tf.constant(SEQUENCES[0]))
