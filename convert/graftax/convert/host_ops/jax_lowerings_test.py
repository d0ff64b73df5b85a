"""Ops that move, compare and loop over strings, against TensorFlow's kernels."""

import pytest
import tensorflow as tf

from graftax.convert.host_ops.strings_test import SOME, check


@pytest.mark.parametrize(
  "function",
  [
    lambda x: tf.gather(tf.reshape(x, [10, -1]), [3, 1]),
    lambda x: tf.unique_with_counts(x),
    lambda x: tf.where(x == "", x, "b"),
    lambda x: tf.concat([x[:5], x[-3:]], 0),
    lambda x: tf.pad(x[:4], [[1, 2]]),
    lambda x: tf.strings.split(x).to_tensor(),
    lambda x: tf.strings.split(x).to_tensor("?", shape=[None, 3]),
    lambda x: tf.sparse.to_dense(tf.strings.split(x).to_sparse()),
    lambda x: tf.transpose(tf.stack([x, tf.reverse(x, [0])])),
    lambda x: tf.map_fn(lambda s: tf.strings.join([s, "!"]), x[:50]),
    lambda x: tf.map_fn(tf.strings.length, x[:50], fn_output_signature=tf.int32),
    lambda x: tf.cond(tf.equal(x[0], ""), lambda: x[:2], lambda: x[2:4]),
    lambda x: tf.strings.ngrams(tf.strings.split(x), 2).flat_values,
    lambda x: tf.scatter_nd([[1], [3], [1]], x[:3], [5]),
    lambda x: tf.raw_ops.ListDiff(x=x, y=x[:3])[0],
    lambda x: tf.pad(x[:4], [[1, 2]], "SYMMETRIC"),
    lambda x: tf.edit_distance(*(tf.strings.bytes_split(part).to_sparse() for part in (x[:50], x[50:99]))),
    lambda x: tf.one_hot(tf.strings.to_hash_bucket_fast(x[:9], 4), 4),
    lambda x: tf.sets.union(x[None, :20], x[None, 10:30]),
    lambda x: tf.sets.intersection(*(tf.strings.bytes_split(part).to_sparse() for part in (x[:50], x[50:100]))),
    lambda x: tf.sets.size(tf.strings.bytes_split(x[:50]).to_sparse()),
    lambda x: tf.sets.union(x[None, :20], x[None, 10:30]),
    lambda x: tf.sets.intersection(*(tf.strings.bytes_split(part).to_sparse() for part in (x[:50], x[50:100]))),
    lambda x: tf.sets.size(tf.strings.bytes_split(x[:50]).to_sparse()),
  ],
)
def test_strings_are_rearranged_compared_and_looped_over(function):
  check(function, SOME)
