"""Encodings of text on the host, against TensorFlow's kernels."""

import pytest
import tensorflow as tf

from graftax.convert.host_ops.strings_test import SOME, check

_RAW = tf.raw_ops


@pytest.mark.parametrize("errors", ["replace", "ignore", "strict"])
@pytest.mark.parametrize("controls", [True, False])
def test_unicode_is_decoded_and_transcoded(errors, controls):
  options = {"errors": errors, "replace_control_characters": controls}
  check(lambda x: _RAW.UnicodeDecodeWithOffsets(input=x, input_encoding="UTF-8", **options), SOME)
  check(lambda x: _RAW.UnicodeTranscode(input=x, input_encoding="UTF-8", output_encoding="UTF-16-BE", **options), SOME)


@pytest.mark.parametrize("encoding", ["UTF-16-BE", "UTF-32-BE", "US-ASCII", "ISO-8859-1", "utf8", "UTF-16-LE"])
def test_other_encodings(encoding):
  check(lambda x: _RAW.UnicodeDecode(input=x, input_encoding=encoding), SOME)


@pytest.mark.parametrize("errors", ["replace", "ignore", "strict"])
def test_code_points_are_encoded(errors):
  points = tf.constant([65, 0x1F600, 0xD800, -1, 0x110000, 0x20AC]), tf.constant([0, 2, 2, 6], tf.int64)
  check(
    lambda v, s: _RAW.UnicodeEncode(input_values=v, input_splits=s, output_encoding="UTF-8", errors=errors), *points
  )
