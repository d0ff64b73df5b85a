"""Slices whose position is traced and whose extent is known, as loops over time steps make them."""

import gc

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from graftax.ops_jax import StaticInputError
from graftax.ops_jax._core import affine
from graftax.ops_jax.array import slicing
from graftax.ops_jax.array.cast import cast
from graftax.ops_jax.array.concat_split import concat_v2, pack
from graftax.ops_jax.math.binary import add, sub

_X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
_INT64 = np.dtype(np.int64)


def _zero():
  return np.int32(0)


def _window(x, t):
  return slicing.strided_slice(
    x, pack([_zero(), t]), pack([_zero(), add(t, np.int32(2))]), (1, 1), begin_mask=1, end_mask=1
  )


def _mixed(x, t):
  return slicing.strided_slice(
    x, pack([_zero(), t, np.int32(1)]), pack([np.int32(1), t, np.int32(3)]), (1, 1, 1), shrink_axis_mask=2
  )


def _before(x, t):
  begin = pack([_zero(), sub(t, np.int32(1))])
  return slicing.strided_slice(x, begin, add(begin, np.array([1, 1], np.int32)), (1, 1))


def _joined(x, t):
  begin = concat_v2([np.zeros(1, np.int32), pack([t]), np.zeros(1, np.int32)], 0)
  return slicing.slice_(x, cast(begin, DstT=_INT64), (-1, 1, -1))


@pytest.mark.parametrize(
  ("function", "expected"),
  [
    (_window, lambda t: _X[:, t : t + 2]),
    (_mixed, lambda t: _X[0:1, t, 1:3]),
    (_before, lambda t: _X[0:1, t - 1 : t]),
    (_joined, lambda t: _X[:, t : t + 1, :]),
  ],
)
def test_a_window_of_known_extent_may_move(function, expected):
  for t in (1,):
    np.testing.assert_array_equal(function(_X, jnp.int32(t)), expected(t))
    np.testing.assert_array_equal(jax.jit(function)(_X, np.int32(t)), expected(t))
  batch = jax.vmap(function, in_axes=(None, 0))(_X, jnp.array([1, 1]))
  np.testing.assert_array_equal(batch, np.stack([expected(1), expected(1)]))
  gradient = jax.grad(lambda x: function(x, jnp.int32(1)).sum())(_X)
  assert gradient.sum() == expected(1).size


def test_an_unknown_extent_is_still_refused():
  def ragged(x, s, t):
    return slicing.strided_slice(x, pack([s]), pack([t]), (1,))

  with pytest.raises(StaticInputError, match="begin plus a constant"):
    jax.jit(ragged)(_X, 0, 1)


def test_notes_go_away_with_their_arrays():
  gc.collect()
  before = len(affine._NOTES)
  jax.jit(_window)(_X, np.int32(0))
  gc.collect()
  assert len(affine._NOTES) <= before
