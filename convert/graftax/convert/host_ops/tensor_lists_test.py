"""Lists of strings and ragged tensors in variants on the host, against TensorFlow's kernels."""

import pytest
import tensorflow as tf

from graftax.convert.host_ops.strings_test import check
from graftax.convert.host_split.host_function import plan_host_function
from graftax.convert.live.function import program_from_concrete_function
from graftax.graphdef_ir import LimitExceededError, Limits
from graftax.testing.resource_limits import within_limits

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


def _raw_list(x):
  return tf.raw_ops.TensorListFromTensor(tensor=x, element_shape=tf.constant([], tf.int32))


def _length(x):
  return tf.raw_ops.TensorListLength(input_handle=x)


_SCALAR = tf.constant([], tf.int32)


def test_a_list_has_no_negative_size():
  check(lambda x: _length(tf.raw_ops.TensorListResize(input_handle=_raw_list(x), size=-1)), WORDS)


@pytest.mark.parametrize(
  "make",
  [
    lambda x: tf.raw_ops.TensorListResize(input_handle=_raw_list(x), size=2**31 - 1),
    lambda x: tf.raw_ops.TensorListReserve(element_shape=_SCALAR, num_elements=2**31 - 1, element_dtype=tf.string),
    lambda x: tf.raw_ops.TensorListScatterV2(
      tensor=x, indices=[0, 1, 2, 2**31 - 2], element_shape=_SCALAR, num_elements=-1
    ),
    lambda x: tf.raw_ops.TensorListScatterIntoExistingList(
      input_handle=_raw_list(x), tensor=x, indices=[0, 1, 2, 2**31 - 2]
    ),
    lambda x: tf.raw_ops.TensorListSetItem(
      input_handle=_raw_list(x), index=2**31 - 2, item=x[0], resize_if_index_out_of_bounds=True
    ),
  ],
)
def test_huge_lists_are_refused_before_they_are_made(make):
  concrete = tf.function(lambda x: _length(make(x)), autograph=False).get_concrete_function(WORDS)
  with pytest.raises(LimitExceededError, match="TensorList"):
    plan_host_function(program_from_concrete_function(concrete))([WORDS.numpy()])


_NUM_UNSET, _VECTOR = 1 << 14, tf.constant([1 << 14])


def _unset(shape=(-1,)):
  return tf.raw_ops.TensorListReserve(element_shape=list(shape), num_elements=_NUM_UNSET, element_dtype=tf.string)


def _doubled(x):
  found = _raw_list(x)
  for _ in range(20):
    found = tf.raw_ops.TensorListConcatLists(input_a=found, input_b=found, element_dtype=tf.string)
  return _length(found)


def _repeated_variant(x):
  splits, size = [0, _NUM_UNSET], tf.size(tf.strings.split(x)) * 0 + _NUM_UNSET
  variant = tf.raw_ops.RaggedTensorToVariant(
    rt_nested_splits=[tf.constant(splits, tf.int64)], rt_dense_values=tf.zeros(_NUM_UNSET), batched_input=False
  )
  return tf.raw_ops.RaggedTensorFromVariant(
    encoded_ragged=tf.fill([size], variant),
    input_ragged_rank=1,
    output_ragged_rank=2,
    Tvalues=tf.float32,
    Tsplits=tf.int64,
  )[-1]


_MANY = 1 << 17


def _many_rows(x):
  return tf.fill([_MANY], tf.cast(tf.size(x), tf.int8))


def _first_of_many_variants(x):
  variants = tf.raw_ops.RaggedTensorToVariant(rt_nested_splits=[], rt_dense_values=_many_rows(x), batched_input=True)
  return tf.raw_ops.RaggedTensorFromVariant(
    encoded_ragged=variants[:1], input_ragged_rank=0, output_ragged_rank=1, Tvalues=tf.int8, Tsplits=tf.int64
  )[-1]


_OF_STRINGS = {"element_shape": _VECTOR, "element_dtype": tf.string}


@pytest.mark.parametrize(
  "function",
  [
    _doubled,
    _repeated_variant,
    lambda x: tf.raw_ops.TensorListStack(input_handle=_unset(), **_OF_STRINGS),
    lambda x: tf.raw_ops.TensorListGather(input_handle=_unset(), indices=tf.range(_NUM_UNSET), **_OF_STRINGS),
    lambda x: tf.raw_ops.TensorListConcatV2(
      input_handle=_unset(), leading_dims=tf.constant([], tf.int64), **_OF_STRINGS
    )[0],
    lambda x: tf.raw_ops.TensorListGetItem(
      input_handle=_unset(), index=0, element_shape=[2**31 - 1], element_dtype=tf.string
    ),
    lambda x: tf.raw_ops.TensorListPopBack(input_handle=_unset(), element_shape=[2**31 - 1], element_dtype=tf.string)[
      1
    ],
    lambda x: _length(_raw_list(_many_rows(x))),
    lambda x: _length(
      tf.raw_ops.TensorListScatterV2(
        tensor=_many_rows(x), indices=tf.range(_MANY) * 0, element_shape=_SCALAR, num_elements=1
      )
    ),
    lambda x: _length(
      tf.raw_ops.TensorListSplit(tensor=x[:0], element_shape=[-1], lengths=tf.fill([_MANY], tf.zeros([], tf.int64)))
    ),
    _first_of_many_variants,
  ],
)
def test_lists_and_variants_that_repeat_what_is_stored_once_are_refused_before_it_is_repeated(function):
  concrete = tf.function(function, autograph=False).get_concrete_function(WORDS)
  run = plan_host_function(program_from_concrete_function(concrete), Limits(array_bytes=1 << 20))
  with within_limits(memory_mib=600), pytest.raises(LimitExceededError, match="List|Variant"):
    run([WORDS.numpy()])
