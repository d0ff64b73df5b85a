"""Compares programs on strings, whose indices and conditions are computed, with TensorFlow."""

import jax
import numpy as np
import pytest
import tensorflow as tf

from graftax.convert import convert
from graftax.graphdef_ir import UnsupportedError
from graftax.ops_jax import StaticInputError

# TensorFlow keeps zeros at the end of strings, and NumPy's type for bytes does not.
_NAMES = np.array([str(i).encode() + b"\0" for i in range(8)], object)
_SCORES = np.array([0.3, 0.9, 0.1, 0.5, 0.7, 0.2, 0.8, 0.6], np.float32)

_PROGRAMS = {
  "label of the best score": lambda x, names: tf.gather(names, tf.argmax(x)),
  "labels of several scores": lambda x, names: tf.gather(names, tf.math.top_k(x, 3).indices),
  "labels by coordinates": lambda x, names: tf.gather_nd(names, tf.argsort(x)[:, None]),
  "labels in batches": lambda x, names: tf.gather(
    tf.reshape(names, [2, 4]), tf.argsort(tf.reshape(x, [2, 4])), batch_dims=1
  ),
  "labels above a score": lambda x, names: tf.boolean_mask(names, x > 0.5),
  "a label or another": lambda x, names: tf.where(x > 0.5, names, "none"),
  "labels repeated": lambda x, names: tf.repeat(names, tf.cast(x * 4, tf.int32)),
  "labels moved": lambda x, names: tf.roll(names, tf.argmax(x, output_type=tf.int32), 0),
  "labels reversed": lambda x, names: tf.reverse_sequence(
    tf.reshape(names, [2, 4]), tf.cast(x[:2] * 4, tf.int32), seq_axis=1
  ),
  "labels put in places": lambda x, names: tf.scatter_nd(tf.argsort(x)[:4, None], names[:4], [9]),
  "labels changed": lambda x, names: tf.tensor_scatter_nd_update(names, tf.argsort(x)[:, None], names),
  "labels padded with nothing": lambda x, names: tf.pad(names, [[1, 2]]),
  "labels padded": lambda x, names: tf.pad(names, [[1, 2]], constant_values=names[3]),
  "labels in ragged rows": lambda x, names: tf.RaggedTensor.from_row_splits(names, [0, 3, 3, 8]).to_tensor("no"),
  "labels divided": lambda x, names: tf.dynamic_partition(names, tf.cast(x > 0.5, tf.int32), 2),
  "labels joined": lambda x, names: tf.dynamic_stitch([tf.argsort(x)], [names]),
  "no labels, padded": lambda x, names: tf.pad(tf.boolean_mask(names, x > 5), [[1, 2]]),
  "no labels in places": lambda x, names: tf.scatter_nd(tf.zeros([0, 1], tf.int32), tf.boolean_mask(names, x > 5), [2]),
  "no labels": lambda x, names: tf.where(tf.boolean_mask(x, x > 5) > 0, tf.boolean_mask(names, x > 5), "none"),
  "labels joined with gaps": lambda x, names: tf.dynamic_stitch([[1, 4]], [names[:2]]),
  "one label filled": lambda x, names: tf.fill([2, 3], names[1]),
  "one of two labels": lambda x, names: tf.cond(x[0] > 0.5, lambda: names[0], lambda: names[1]),
  "a loop that changes labels": lambda x, names: tf.while_loop(
    lambda i, _: i < 3, lambda i, s: (i + 1, tf.where(x > tf.cast(i, tf.float32) / 4, "high", s)), [0, names]
  )[1],
  "labels without two": lambda x, names: tf.raw_ops.ListDiff(x=tf.gather(names, tf.argsort(x)), y=names[:2])[0],
  "labels that occur": lambda x, names: tf.unique(tf.gather(names, tf.cast(x * 4, tf.int32)))[0],
  "labels in order of coordinates": lambda x, names: (
    tf.sparse.reorder(tf.SparseTensor(tf.cast(tf.argsort(x)[:, None], tf.int64), names, [8])).values
  ),
  "edits between labels": lambda x, names: tf.edit_distance(
    tf.sparse.from_dense(names[None]), tf.sparse.from_dense(tf.gather(names, tf.argsort(x))[None])
  ),
  "a comparison of labels": lambda x, names: tf.gather(names, tf.argsort(x)) == names,
}


def _converted(program, size=8):
  spec = [tf.TensorSpec([size], tf.float32), tf.TensorSpec([size], tf.string)]
  function = tf.function(program, input_signature=spec)
  fn, params = convert(function)
  return function, lambda scores, names: fn(params, scores, names)[0]


def _assert_equal(found, expected):
  for ours, theirs in zip(tf.nest.flatten(found), tf.nest.flatten(expected), strict=True):
    np.testing.assert_array_equal(np.array(ours, object), np.array(theirs.numpy(), object))


@pytest.mark.parametrize("name", _PROGRAMS)
def test_strings_are_chosen_by_computed_numbers(name):
  function, converted = _converted(_PROGRAMS[name])
  _assert_equal(converted(_SCORES, _NAMES), function(_SCORES, _NAMES))


def test_large_arrays_of_strings():
  # More elements than are kept known, and than are checked against the limits without a look at their shapes.
  size = 6000
  names = np.array([str(i).encode() for i in range(size)], object)
  scores = np.random.default_rng(0).random(size, np.float32)
  for program in (
    lambda x, s: tf.gather(s, tf.argsort(x)),
    lambda x, s: tf.where(x > 0.5, s, s[::-1]),
    lambda x, s: tf.roll(s, 5, 0),
    lambda x, s: tf.scatter_nd(tf.argsort(x)[:, None], s, [size]),
  ):
    function, converted = _converted(program, size)
    _assert_equal(converted(scores, names), function(scores, names))


@pytest.mark.parametrize(
  "name", ["label of the best score", "labels above a score", "one of two labels", "a loop that changes labels"]
)
def test_strings_that_depend_on_traced_numbers_are_refused(name):
  _, converted = _converted(_PROGRAMS[name])
  with pytest.raises(StaticInputError, match="JAX has no strings|no strings"):
    jax.jit(lambda scores: converted(scores, _NAMES))(_SCORES)


def test_an_op_without_a_form_for_strings_says_so():
  def program(x, names):
    return tf.TensorArray(tf.string, 2).scatter([1, 0], names[:2]).stack()

  _, converted = _converted(program)
  with pytest.raises(UnsupportedError, match=r"no form for strings here.*SavedModel\.split"):
    converted(_SCORES, _NAMES)
