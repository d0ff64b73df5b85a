"""Ops on strings against TensorFlow's kernels, on ten thousand strings of all planes of Unicode, also malformed."""

import unicodedata

import numpy as np
import pytest
import tensorflow as tf

from graftax.convert.host_ops.strings import add
from graftax.convert.host_split.host_function import host_obstacles, plan_host_function
from graftax.convert.live.function import program_from_concrete_function
from graftax.graphdef_ir import GraftaxError, LimitExceededError, Limits
from graftax.ops_jax import InvalidInputError
from graftax.testing.resource_limits import within_limits
from graftax.testing.texts import random_texts

_RAW = tf.raw_ops
_NUM_TEXTS = 10_000
TEXTS = tf.constant(np.array(random_texts(_NUM_TEXTS), object))
SOME = TEXTS[-2000:]
WORDS = tf.constant(["héllo", "€é😀x", "wo"])
FLOATS = tf.constant([0.0, -0.0, 1.5, -2.25, 1e10, 1e-10, np.pi, np.inf, -np.inf, np.nan, 1e38])


def check(function, *args):
  """Compares the results of a TensorFlow function with those of the host."""
  concrete = tf.function(function, autograph=False).get_concrete_function(
    *(tf.TensorSpec(arg.shape, arg.dtype) for arg in args)
  )
  program = program_from_concrete_function(concrete)
  assert host_obstacles(program) == {}
  values = [np.asarray(arg.numpy(), object if arg.dtype == tf.string else None) for arg in args]
  try:
    expected = tf.nest.flatten(concrete(*args), expand_composites=True)
  except tf.errors.InvalidArgumentError:
    with pytest.raises(GraftaxError):
      plan_host_function(program)(values)
    return
  got = plan_host_function(program)(values)
  for theirs, ours in zip(expected, got, strict=True):
    theirs = np.asarray(theirs.numpy(), object if theirs.dtype == tf.string else None)
    assert theirs.dtype == ours.dtype
    np.testing.assert_array_equal(ours, theirs)
    if ours.dtype == object:
      assert {type(item) for item in ours.reshape(-1).tolist()} <= {bytes}


@pytest.mark.parametrize(
  "function",
  [
    tf.strings.lower,
    tf.strings.upper,
    tf.strings.strip,
    tf.strings.length,
    lambda x: tf.strings.length(x, "UTF8_CHAR"),
    lambda x: tf.strings.substr(x, 0, 3),
    lambda x: tf.strings.substr(x, 0, 3, unit="UTF8_CHAR"),
    lambda x: tf.strings.join([x, "<>", x], separator="-"),
    lambda x: tf.io.encode_base64(x, pad=True),
    lambda x: tf.io.decode_base64(tf.io.encode_base64(x)),
    lambda x: tf.strings.regex_full_match(x, r"[a-zA-Z ,.]*"),
  ],
)
def test_functions_of_one_string(function):
  check(function, TEXTS)


def test_strings_are_added():
  check(lambda x: "id_" + x + "\0", TEXTS)
  check(lambda x, y: x + y, TEXTS[:60], tf.reshape(TEXTS[:120], [2, 60]))
  check(lambda x, y: x + y, tf.reshape(WORDS, [3, 1]), WORDS[:0])
  check(lambda x, y: x + y, tf.constant("a"), tf.constant("b"))
  with pytest.raises(InvalidInputError, match=r"Add of strings: shapes \(2,\) and \(3,\) do not broadcast"):
    add(np.array([b"a"] * 2, object), np.array([b"b"] * 3, object))


@pytest.mark.parametrize("change_case", [tf.strings.lower, tf.strings.upper])
def test_cases_of_all_letters_of_unicode_13(change_case):
  # Python 3.11 knows Unicode 14; the letters that this added are recognised by their blocks and left out.
  added = {
    chr(point) for block in (range(0x10570, 0x105C0), range(0xA7C0, 0xA7DA), range(0x2C2F, 0x2C60)) for point in block
  }
  letters = [chr(point) for point in range(0x110000) if unicodedata.category(chr(point))[0] == "L"]
  texts = [letter.encode() for letter in letters if letter not in added]
  check(lambda x: change_case(x, "utf-8"), tf.constant(np.array(texts, object)))
  check(lambda x: change_case(x, "utf-8"), tf.constant([b"A\xffB\0C", "ΑΣ ΑΣΑ".encode()]))


@pytest.mark.parametrize(("sep", "maxsplit"), [("", -1), ("", 0), ("", 1), ("", 2), (" ", -1), ("e", 2), (",", 0)])
def test_split_at_a_separator(sep, maxsplit):
  check(lambda x: _RAW.StringSplitV2(input=x, sep=sep, maxsplit=maxsplit), TEXTS)


@pytest.mark.parametrize("skip_empty", [True, False])
@pytest.mark.parametrize("delimiter", ["", " ", " ,t"])
def test_split_at_any_of_several_bytes(delimiter, skip_empty):
  check(lambda x: _RAW.StringSplit(input=x, delimiter=delimiter, skip_empty=skip_empty), SOME)


@pytest.mark.parametrize("axis", [0, -1, [0, 1], [2, 0], []])
@pytest.mark.parametrize("keep", [True, False])
def test_reduce_join(axis, keep):
  array = tf.constant([[["a", "b"], ["c", "d"], ["", "f"]]] * 2)
  check(lambda x: tf.strings.reduce_join(x, axis, keepdims=keep, separator="|"), array)


@pytest.mark.parametrize("ids", [[0, 2, 0, -1], [3, 0, 0, 0], [[0, 1], [1, 0], [2, 2], [-5, 2]]])
def test_strings_are_joined_by_segment(ids):
  texts = tf.constant([["a", "b"], ["c", "d"], ["", "f"], ["g", "h"]])
  check(lambda x, i: tf.strings.unsorted_segment_join(x, i, 3, separator="|"), texts, tf.constant(ids))


@pytest.mark.parametrize(("position", "length"), [(0, 2), (-2, 1), (1, 9), (5, 1), (1, -1), (-1, -1), (-2, -9)])
def test_substrings(position, length):
  check(lambda x: tf.strings.substr(x, position, length), WORDS)
  check(lambda x: tf.strings.substr(x, position, length, unit="UTF8_CHAR"), WORDS)


@pytest.mark.parametrize("summarize", [2, -1])
def test_text_with_values(summarize):
  check(lambda x: tf.strings.format("{} \xff", x, summarize=summarize), tf.constant(1.5))
  check(lambda x: tf.strings.format("{} of {}", (x, x[0] > 2), summarize=summarize), FLOATS)
  check(
    lambda x: tf.strings.format("{}{}", (x, x[0]), summarize=summarize),
    tf.constant([b'a "b"', b"\xff\n", b"", b"'", b"\\"]),
  )


@pytest.mark.parametrize("text", ["YQ==", "YQ", "YQ=", "Y", "a+/b", "a-_b", "YQ===", "===="])
def test_base64(text):
  check(tf.io.decode_base64, tf.constant([text]))


@pytest.mark.parametrize(
  ("widths", "padding", "left", "right", "short"),
  [
    ([1, 2], -1, "", "", False),
    ([2], 0, "", "", False),
    ([3, 2], 1, "L", "R", False),
    ([5], 0, "", "", True),
    ([5], 1, "L", "R", True),
  ],
)
def test_n_grams(widths, padding, left, right, short):
  def n_grams(data, splits):
    return _RAW.StringNGrams(
      data=data,
      data_splits=splits,
      separator="|",
      ngram_widths=widths,
      left_pad=left,
      right_pad=right,
      pad_width=padding,
      preserve_short_sequences=short,
    )

  check(n_grams, tf.constant(list("abcdefg")), tf.constant([0, 3, 3, 4, 7], tf.int64))


@pytest.mark.parametrize(
  ("function", "op"),
  [
    (lambda repeated, x: tf.strings.split(repeated, " ").values, "StringSplitV2"),
    (lambda repeated, x: tf.strings.length(repeated), "StringLength"),
    (lambda repeated, x: tf.strings.to_hash_bucket_fast(tf.reshape(repeated, [2, -1]), 3), "Reshape"),
    (lambda repeated, x: tf.strings.to_hash_bucket_strong(repeated, 3, [1, 2]), "StringToHashBucketStrong"),
    (lambda repeated, x: tf.strings.unicode_decode(repeated, "UTF-8").values, "UnicodeDecode"),
    (lambda repeated, x: tf.strings.substr(x, tf.zeros([1 << 20], tf.int32), tf.ones([1 << 20], tf.int32)), "Substr"),
  ],
)
def test_a_constant_that_repeats_one_string_counts_in_full_where_it_is_used(function, op):
  concrete = tf.function(
    lambda x: (function(tf.constant("a b c", shape=[1 << 20]), x), tf.strings.lower(x)), autograph=False
  ).get_concrete_function(tf.TensorSpec([None], tf.string))
  run = plan_host_function(program_from_concrete_function(concrete), Limits(text_bytes=1 << 20))
  with within_limits(memory_mib=100), pytest.raises(LimitExceededError, match=f"{op}.*the limit text_bytes"):
    run([np.array([b"A"], object)])


@pytest.mark.parametrize("dtype", [tf.int32, tf.int64])
def test_strings_are_looked_up_by_number(dtype):
  numbers = np.array([7, -3, dtype.max, 0, dtype.min], dtype.as_numpy_dtype)
  for size in (1, 5):
    contents = tf.lookup.KeyValueTensorInitializer(numbers[:size], tf.constant(["a", "b", "c", "d", "e"])[:size])
    table = tf.lookup.StaticHashTable(contents, "none")
    check(table.lookup, tf.constant([*numbers, 1, -4, 8], dtype, [2, 4]))
    check(table.lookup, tf.constant(7, dtype))
