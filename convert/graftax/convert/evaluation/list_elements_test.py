"""Lists whose elements differ in shape, and `tf.map_fn` of ragged tensors, against TensorFlow."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tensorflow as tf

import graftax.convert as gc
from graftax.graphdef_ir import LimitExceededError
from graftax.ops_jax import InvalidInputError

X = np.arange(6, dtype=np.float32)
ROWS = tf.ragged.constant([[1.0, 2.0], [], [3.0], [4.0, 5.0, 6.0]])
NESTED = tf.ragged.constant([[[1.0, 2.0], [3.0]], [], [[4.0, 5.0, 6.0]]])
PAIRS = tf.ragged.constant([[[1.0, 2.0], [3.0, 4.0]], [], [[5.0, 6.0]]], ragged_rank=1)


def _array(**options):
  return tf.TensorArray(tf.float32, 3, infer_shape=False, **options)


def _pieces(x):
  return _array(element_shape=[None]).write(0, x[:2]).write(1, x[2:3]).write(2, x[3:])


def _grown(x):
  array = tf.TensorArray(tf.float32, 0, dynamic_size=True, infer_shape=False, element_shape=[None])
  for i in tf.range(3):
    array = array.write(i, x[: i + 1] * 2.0)
  return array.concat()


def _filtered(x):
  array = _array(element_shape=[None])
  for i in tf.range(3):
    array = array.write(i, tf.boolean_mask(x, x > tf.cast(i, tf.float32)) ** 2)
  return array.concat()


ARRAYS = {
  "read": lambda x: tuple(_pieces(x).read(i) for i in range(3)),
  "concat": lambda x: _pieces(x).concat(),
  "split": lambda x: (_array().split(x, [2, 0, 4]).read(1), _array().split(x, [2, 1, 3]).concat()),
  "stack after it": lambda x: _pieces(x).write(0, x[1:4]).write(1, x[:3]).stack(),
  "grown": _grown,
  "filtered": _filtered,
}


def _leaves(result):
  is_bounded = lambda leaf: isinstance(leaf, gc.BoundedArray)  # noqa: E731
  leaves = jax.tree.leaves(result, is_leaf=is_bounded)
  return [np.asarray(leaf.cut() if is_bounded(leaf) else leaf) for leaf in leaves]


def _check(function, x, to_argument=lambda x: x):
  """Compares values and derivatives with respect to `x`, also under `jit`; `to_argument` makes the argument of it."""
  with tf.GradientTape() as tape:
    variable = tf.constant(x)
    tape.watch(variable)
    argument = to_argument(variable)
    theirs = tf.nest.flatten(function(argument), expand_composites=True)
    loss = tf.add_n([tf.reduce_sum(tf.sin(part)) for part in theirs if part.dtype.is_floating])
  fn, params = gc.convert(tf.function(function), argument)

  def ours(x):
    if not isinstance(argument, tf.RaggedTensor):
      return fn(params, x)[0]
    return fn(params, gc.RaggedTensor(x, tuple(splits.numpy() for splits in argument.nested_row_splits)))[0]

  def our_loss(x):
    parts = jax.tree.leaves(ours(x))
    return sum(jnp.sum(jnp.sin(part)) for part in parts if jnp.issubdtype(part.dtype, jnp.floating))

  for run in (ours, jax.jit(ours)):
    got = _leaves(run(x))
    assert [leaf.shape for leaf in got] == [tuple(part.shape) for part in theirs]
    for leaf, part in zip(got, theirs, strict=True):
      np.testing.assert_allclose(leaf, part, rtol=1e-6)
  gradient = tape.gradient(loss, variable)
  for differentiate in (jax.grad(our_loss), jax.jit(jax.grad(our_loss))):
    np.testing.assert_allclose(differentiate(x), gradient, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", sorted(ARRAYS))
def test_elements_of_a_list_may_differ_in_shape(name):
  _check(ARRAYS[name], X)


def test_elements_that_differ_are_not_stacked():
  fn, params = gc.convert(tf.function(lambda x: _pieces(x).stack()), X)
  with pytest.raises(InvalidInputError, match="elements of different shapes cannot be stacked"):
    fn(params, X)


_SUM = {"fn_output_signature": tf.float32}
MAPS = {
  "to numbers": (ROWS, lambda rows: tf.map_fn(tf.reduce_sum, rows, **_SUM)),
  "to ragged": (ROWS, lambda rows: tf.map_fn(lambda row: row * row, rows)),
  "to sums": (ROWS, lambda rows: tf.map_fn(tf.cumsum, rows)),
  "with an array": (ROWS, lambda rows: tf.map_fn(lambda p: tf.reduce_sum(p[0]) * p[1], (rows, X[:4]), **_SUM)),
  "nested": (NESTED, lambda rows: tf.map_fn(lambda row: row * 2.0, rows)),
  "nested to numbers": (NESTED, lambda rows: tf.map_fn(lambda row: tf.reduce_sum(row.flat_values), rows, **_SUM)),
  "pairs": (
    PAIRS,
    lambda rows: tf.map_fn(lambda row: tf.reduce_sum(row, 0), rows, fn_output_signature=tf.TensorSpec([2])),
  ),
}


@pytest.mark.parametrize("name", sorted(MAPS))
def test_map_fn_of_ragged_tensors(name):
  rows, function = MAPS[name]
  _check(function, rows.flat_values.numpy(), rows.with_flat_values)


def test_map_fn_makes_ragged_tensors_of_sizes():
  spec = tf.RaggedTensorSpec([None], tf.int32)
  sizes = np.array([3, 0, 2], np.int32)
  fn, params = gc.convert(tf.function(lambda n: tf.map_fn(tf.range, n, fn_output_signature=spec)), sizes)
  assert fn(params, sizes)[0].to_lists() == [[0, 1, 2], [], [0, 1]]


def test_row_splits_that_are_traced():
  fn, params = gc.convert(tf.function(MAPS["to ragged"][1]), ROWS)
  rows = gc.RaggedTensor(ROWS.flat_values.numpy(), tuple(splits.numpy() for splits in ROWS.nested_row_splits))
  got = jax.jit(lambda rows: fn(params, rows)[0])(rows)
  values, splits = _leaves(got)
  np.testing.assert_array_equal(values, np.square(rows.flat_values))
  np.testing.assert_array_equal(splits, rows.row_splits[0])


def test_gradients_that_the_graph_itself_computes():
  def f(values):
    mapped = tf.map_fn(lambda row: row * row, ROWS.with_flat_values(values))
    return tf.gradients(tf.reduce_sum(mapped.flat_values), values)[0]

  fn, params = gc.convert(tf.function(f), X)
  np.testing.assert_allclose(fn(params, X)[0], 2 * X, rtol=1e-6)


def _words(x):
  array = tf.TensorArray(tf.string, size=0, dynamic_size=True)
  for i in tf.range(tf.shape(x)[0]):
    array = array.write(i, x[i])
  return array.stack()


@pytest.mark.parametrize(
  "function",
  [
    _words,
    lambda x: tf.TensorArray(tf.string, 3).write(0, x[0]).write(2, x[2]).stack(),
    lambda x: tf.TensorArray(tf.string, 3).unstack(x).gather([2, 0]),
    lambda x: tf.TensorArray(tf.string, 2, infer_shape=False).split(x, [1, 2]).concat(),
    lambda x: tf.map_fn(lambda i: x[i], tf.constant([2, 1, 1]), fn_output_signature=tf.string),
  ],
)
def test_lists_of_strings_outside_of_jit(function):
  x = np.array([b"a b", b"", b"c"], object)
  fn, params = gc.convert(tf.function(function), x)
  assert fn(params, x)[0].tolist() == function(tf.constant(x)).numpy().tolist()


def _divided(lengths):
  return lambda x: tf.TensorArray(tf.float32, len(lengths), infer_shape=False).split(x, lengths).concat() * 2


def test_many_pieces_make_no_longer_program_and_pieces_of_very_different_lengths_are_refused():
  num_equations = set()
  for num_pieces in (10, 1000):
    x = np.arange(num_pieces + 5, dtype=np.float32)
    fn, params = gc.convert(tf.function(_divided([*[1] * num_pieces, 5])), x)
    program = jax.make_jaxpr(lambda x: fn(params, x)[0])(x)  # noqa: B023
    num_equations.add(len(program.jaxpr.eqns))
    np.testing.assert_array_equal(fn(params, x)[0], 2 * x)
  assert len(num_equations) == 1
  x = np.zeros(120_000, np.float32)
  fn, params = gc.convert(tf.function(_divided([*[1] * 20_000, 100_000])), x)
  with pytest.raises(LimitExceededError, match=r"TensorListSplit.*\[20001, 100000\]"):
    fn(params, x)


@pytest.mark.parametrize("axes", [[0, 1], [-1, 0], [1, 2]])
def test_loops_over_known_lists_do_not_run(axes):
  x = np.random.default_rng(0).normal(size=(3, 4, 2)).astype(np.float32)
  fn, params = gc.convert(tf.function(lambda x: tf.norm(x, 2, axis=axes)), x)
  run = jax.jit(lambda x: fn(params, x)[0])
  np.testing.assert_allclose(run(x), tf.norm(x, 2, axis=axes), rtol=1e-5)
  assert "while" not in str(jax.make_jaxpr(run)(x)) and "scan" not in str(jax.make_jaxpr(run)(x))
