"""Hashes, crossed features and fingerprints on the host, against TensorFlow's kernels."""

import pytest
import tensorflow as tf

from graftax.convert.host_ops.strings_test import SOME, TEXTS, check

_RAW = tf.raw_ops


@pytest.mark.parametrize("num_buckets", [7, 1000, 2**62])
def test_hash_buckets_bit_for_bit(num_buckets):
  check(lambda x: tf.strings.to_hash_bucket_fast(x, num_buckets), TEXTS)
  check(lambda x: tf.strings.to_hash_bucket_strong(x, num_buckets, [2**40 + 1, 98765]), TEXTS)
  check(lambda x: tf.strings.to_hash_bucket(x, num_buckets), TEXTS)


@pytest.mark.parametrize("strong", [True, False])
@pytest.mark.parametrize("num_buckets", [0, 100])
def test_crossed_features(strong, num_buckets):
  words = tf.sparse.from_dense(tf.constant([["a", "b"], ["c", ""]]))
  numbers = tf.sparse.from_dense(tf.constant([[2**40 + 1, 2], [3, 0]], tf.int64))
  dense = tf.constant([["x"], ["y"]])

  def columns(*parts):
    return {"indices": [parts[0], parts[3]], "values": [parts[1], parts[4]], "shapes": [parts[2], parts[5]]}

  parts = [p for sparse in (words, numbers) for p in (sparse.indices, sparse.values, sparse.dense_shape)]
  check(
    lambda *p: _RAW.SparseCrossHashed(
      **columns(*p), dense_inputs=[p[6]], num_buckets=num_buckets, strong_hash=strong, salt=[17, 18]
    ),
    *parts,
    dense,
  )
  check(
    lambda *p: _RAW.SparseCross(
      **columns(*p),
      dense_inputs=[p[6]],
      hashed_output=True,
      num_buckets=num_buckets,
      hash_key=956888297470,
      out_type=tf.int64,
      internal_type=tf.int64,
    ),
    *parts,
    dense,
  )
  check(lambda *p: _RAW.SparseCrossV2(**columns(*p), dense_inputs=[p[6]], sep="-"), *parts, dense)


@pytest.mark.parametrize("data", [SOME[:50], tf.reshape(SOME[:48], [8, 6]), tf.reshape(tf.range(24.0), [4, 2, 3])])
def test_fingerprints(data):
  check(lambda x: tf.fingerprint(x), data)
  check(lambda x, method: _RAW.Fingerprint(data=x, method=method), data, tf.constant("sha"))
