"""Sounds, bytes of numbers and compressed strings on the host, against TensorFlow's kernels."""

import gzip
import zlib

import numpy as np
import pytest
import tensorflow as tf

from graftax.convert.host_ops.strings_test import check

_RANDOM = np.random.default_rng(0)


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
