"""Encodings of text on the host, against TensorFlow's kernels."""

import pytest
import tensorflow as tf

from graftax.convert.host_ops.strings_test import SOME, check
from graftax.convert.host_ops.unicode import code_points, unicode_decode_with_offsets, unicode_encode
from graftax.convert.host_ops.values import string_array
from graftax.graphdef_ir import Budget, LimitExceededError, Limits
from graftax.testing.resource_limits import within_limits

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


@pytest.mark.parametrize("encoding", ["UTF-8", "UTF-16-BE", "UTF-32-BE"])
def test_long_text_is_decoded_in_parts(encoding):
  parts = ["\U0001f600".encode(encoding), b"\xf0\x9f\x98", b"\xd8\x00\xe2", "\u20ac".encode(encoding), b"\xff\xff"]
  texts = [b"\x00a" * (length // 2) + b"b" * (length % 2) + b"".join(parts) * 200 for length in range(1010, 1030)]
  check(lambda x: _RAW.UnicodeDecodeWithOffsets(input=x, input_encoding=encoding), tf.constant(texts))


def test_malformed_text_takes_time_in_proportion_to_its_length():
  with within_limits(seconds=10):
    assert sum(point is None for point, _ in code_points(b"\xff" * (1 << 20))) == 1 << 20


@pytest.mark.parametrize("dtype", [tf.int32, tf.int64])
@pytest.mark.parametrize("splits", [[0], [3], [0, 2], [1, 3], [0, 4], [0, 2, 1, 3], [0, -1, 3], [0, 4, 3], [0, 0, 3]])
def test_row_splits_that_do_not_divide_the_code_points_are_refused(splits, dtype):
  check(
    lambda v, s: _RAW.UnicodeEncode(input_values=v, input_splits=s, output_encoding="UTF-8"),
    tf.constant([97, 98, 99]),
    tf.constant(splits, dtype),
  )


@pytest.mark.parametrize("errors", ["strict", "replace", "ignore"])
@pytest.mark.parametrize("encoding", ["UTF-8", "UTF-16-BE", "UTF-32-BE"])
def test_no_code_points_are_encoded(encoding, errors):
  for values, splits in (([], [0]), ([], [0, 0]), ([-1, 97], [0, 1, 1, 2])):
    check(
      lambda v, s: _RAW.UnicodeEncode(input_values=v, input_splits=s, output_encoding=encoding, errors=errors),
      tf.constant(values, tf.int32),
      tf.constant(splits, tf.int64),
    )


def test_many_code_points_take_little_memory():
  text = string_array([b"a" * (1 << 21)] * 2)
  with within_limits(memory_mib=250):
    splits, values, starts = unicode_decode_with_offsets(text, input_encoding="UTF-8")
  assert splits.tolist() == [0, 1 << 21, 1 << 22]
  assert starts[-1] == (1 << 21) - 1
  with within_limits(memory_mib=150):
    assert unicode_encode(values, splits, output_encoding="UTF-8").tolist() == text.tolist()
  with pytest.raises(LimitExceededError, match="UnicodeEncode.*the limit text_bytes"):
    unicode_encode(values, splits, output_encoding="UTF-8", budget=Budget(Limits(text_bytes=1 << 21)))
