"""Products of one row with large matrices, against `jax.lax.dot_general`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from graftax.xla_call_module.lax_extras import with_column_blocks

_RNG = np.random.default_rng(0)
_MATRIX = _RNG.normal(size=(1024, 512)).astype(np.float32)


def _row(*shape):
  return _RNG.normal(size=shape).astype(np.float32)


def _products(function, *args):
  """Returns the shapes of the factors of the products, after comparing the results with those of the function."""
  divided = with_column_blocks(function)
  for y, expected in zip(*map(jax.tree.leaves, (divided(*args), function(*args))), strict=True):
    assert (y.shape, y.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-4)
  equations = jax.make_jaxpr(divided)(*args).jaxpr.eqns
  return [[x.aval.shape for x in e.invars] for e in equations if e.primitive.name == "dot_general"]


@pytest.mark.parametrize(
  ("function", "shape"),
  [
    (lambda x: x @ _MATRIX, (1, 1024)),
    (lambda x: x @ _MATRIX, (1024,)),
    (lambda x: x @ jnp.asarray(_MATRIX), (1, 1, 1024)),
    (lambda x: lax.dot_general(x, _MATRIX.T, (((2,), (1,)), ((), ()))), (1, 1, 1024)),
    (lambda x: lax.dot_general(_MATRIX, x, (((0,), (1,)), ((), ()))), (1, 1024, 1)),
    (lambda x: lax.dot_general(_MATRIX.T, x, (((1,), (0,)), ((), ()))), (1024,)),
    (jax.jit(lambda x: {"y": x @ _MATRIX}), (1, 1024)),
  ],
)
def test_products_of_one_row_are_divided(function, shape):
  assert _products(function, _row(*shape)) == [[(4, 1024), (4, 1024, 128)]]


def test_what_the_product_asks_of_xla_is_kept():
  def product(x):
    return lax.dot_general(x, _MATRIX, (((1,), (0,)), ((), ())), lax.Precision.HIGHEST, jnp.float64)

  with jax.enable_x64(True):
    (equation,) = (
      e
      for e in jax.make_jaxpr(with_column_blocks(product))(_row(1, 1024)).jaxpr.eqns
      if e.primitive.name == "dot_general"
    )
  assert equation.params["precision"] == (lax.Precision.HIGHEST,) * 2
  assert equation.params["preferred_element_type"] == np.float64


@pytest.mark.parametrize(
  ("function", "args"),
  [
    (lambda x: x @ _MATRIX, (_row(2, 1024),)),
    (lambda x, w: x @ w, (_row(1, 1024), _MATRIX)),
    (lambda x: x @ _MATRIX[:, :508], (_row(1, 1024),)),
    (lambda x: x @ np.pad(_MATRIX, ((0, 0), (0, 2))), (_row(1, 1024),)),
    (lambda x: x @ _MATRIX.astype(np.float16), (_row(1, 1024).astype(np.float16),)),
    (lambda x: x @ _MATRIX.reshape(2, 512, 512), (_row(2, 1, 512),)),
    (lambda x: lax.dot_general(x, _MATRIX, (((0, 1), (0, 1)), ((), ()))), (_row(1024, 512),)),
    (lambda x: lax.dot_general(x, _MATRIX, (((), ()), ((), ()))), (_row(1),)),
  ],
)
def test_other_products_are_kept(function, args):
  before = jax.make_jaxpr(function)(*args).jaxpr.eqns
  expected = [[x.aval.shape for x in e.invars] for e in before if e.primitive.name == "dot_general"]
  assert _products(function, *args) == expected
