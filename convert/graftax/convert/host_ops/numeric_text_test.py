"""Numbers as text and text as numbers, against TensorFlow's kernels."""

import pytest
import tensorflow as tf

from graftax.convert.host_ops.strings_test import FLOATS, check


@pytest.mark.parametrize(
  "options",
  [
    {},
    {"precision": 3},
    {"scientific": True},
    {"shortest": True},
    {"width": 12, "fill": "0"},
    {"width": 9, "precision": 2, "fill": " "},
    {"fill": "+"},
    {"width": 6, "fill": "+"},
    {"width": 7, "fill": " "},
    {"width": 7, "fill": "-"},
    {"scientific": True, "shortest": True},
  ],
)
def test_numbers_as_text(options):
  check(lambda x: tf.strings.as_string(x, **options), FLOATS)
  check(lambda x: tf.strings.as_string(x, **options), tf.cast(FLOATS, tf.float64))
  check(lambda x: tf.strings.as_string(x, **options), tf.complex(FLOATS, FLOATS[::-1]))
  check(lambda x: tf.strings.as_string(x, **options), tf.constant([0, -5, 2**62], tf.int64))
  check(lambda x: tf.strings.as_string(x, **options), tf.constant([0, 255], tf.uint8))
  check(lambda x: tf.strings.as_string(x, **options), tf.constant([True, False]))


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64, tf.int32, tf.int64])
@pytest.mark.parametrize(
  "text",
  [
    "5",
    " -7 ",
    "2147483648",
    "1.5",
    ".5",
    "",
    "abc",
    "1_0",
    "+3",
    "0x10",
    "1e3",
    "-Inf",
    "1e400",
    "16777217",
    "-0x1.8p-3",
    "0x1.00000100000000001p0",
    "-0x10000010000000000P+0003",
    "0x1.00000300000000001p-0",
    "0x1.000001p0",
    "0x0.00000000000000000001000001000000001p80",
    "0x1.000000000000080000001p0",
    "0x1.8p-149",
    "0x1p-150",
    "0x1.fffffeffffffffffp127",
    "0x1.ffffffp127",
    "0x1p99999999999",
    "-0x1p-99999999999",
    "-0x0p99999999999",
  ],
)
def test_text_as_numbers(text, dtype):
  check(lambda x: tf.strings.to_number(x, dtype), tf.constant([text]))
