"""Dimensions that a graph declares as dynamic, under jit, against TensorFlow's XLA."""

import jax
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.compiler.tf2xla.ops import gen_xla_ops

import graftax.convert as gc
from graftax.graphdef_ir.errors import UnsupportedError
from graftax.ops_jax import BoundedArray, InvalidInputError, UnsupportedOpError
from graftax.testing.bounded_sizes import check_bounded_sizes

_X = np.arange(1, 13, dtype=np.float32).reshape(3, 4)
_cut, _whole = gen_xla_ops.xla_set_dynamic_dimension_size, gen_xla_ops.xla_remove_dynamic_dimension_size


def test_a_dimension_has_its_dynamic_size_until_that_is_removed():
  @tf.function(jit_compile=True)
  def tf_fn(x, n):
    y = _cut(x, 1, n)
    sums = tf.reduce_sum(y, 1), tf.reduce_sum(_whole(y, 1), 1), tf.reduce_mean(_whole(y * 2.0 + 1.0, 1))
    shapes = tf.shape(y), tf.shape(_whole(y, 1))
    return y, _whole(y, 1), _whole(_cut(y, 0, n // 2), 1), *sums, *shapes

  assert check_bounded_sizes(tf_fn, *[(_X, np.int32(n)) for n in range(5)]) == 5


def test_a_size_that_is_out_of_range_is_marked():
  fn = jax.jit(
    gc.convert_functional(tf.function(lambda x, n: (_cut(x, 1, n), _whole(_cut(x, 1, n), 1))), _X, np.int32(0))
  )
  for size in (-1, 5):
    cut, whole = fn(_X, np.int32(size))
    assert isinstance(cut, BoundedArray) and cut.overflowed and np.isnan(whole).all()


def test_an_array_that_was_cut_to_a_known_size_cannot_return_to_its_bound():
  fn = gc.convert_functional(tf.function(lambda x, n: _whole(_cut(x, 1, n), 1)), _X, np.int32(0))
  with pytest.raises(UnsupportedOpError, match="was cut to it, and has no bound"):
    fn(_X, np.int32(2))
  fn = gc.convert_functional(tf.function(lambda x: _whole(_cut(x, 1, 2), 1)), _X)
  with pytest.raises(UnsupportedOpError, match="was cut to it, and has no bound"):
    jax.jit(fn)(_X)


@pytest.mark.parametrize(
  ("function", "message"),
  [
    (lambda x, n: _whole(_cut(x, 0, n), 1), "dimension 1 .* has no bound"),
    (lambda x, n: _cut(_cut(x, 1, n), 1, n), "it sets one of them again"),
    (lambda x, n: _cut(_cut(x, 1, n), 0, 2), "or another one to a known size"),
  ],
)
def test_what_the_bounds_do_not_tell_is_refused(function, message):
  fn = gc.convert_functional(tf.function(function), _X, np.int32(0))
  with pytest.raises(UnsupportedError, match=message):
    jax.jit(fn)(_X, np.int32(2))


def test_dimensions_that_do_not_exist_are_invalid():
  for function in (lambda x, n: _cut(x, 2, n), lambda x, n: _whole(_cut(x, 0, n), 2)):
    with pytest.raises(InvalidInputError, match="2"):
      jax.jit(gc.convert_functional(tf.function(function), _X, np.int32(0)))(_X, np.int32(1))
