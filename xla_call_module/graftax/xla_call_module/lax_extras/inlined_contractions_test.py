"""Programs without calls, against the same programs of JAX."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from graftax.xla_call_module.lax_extras.inlined_contractions import inlined

_RNG = np.random.default_rng(0)


def _normal(*shape):
  return _RNG.normal(size=shape).astype(np.float32)


def _checked(function, *args):
  """Returns the names of the primitives of an inlined program, which has the results of the function."""
  closed = inlined(jax.make_jaxpr(function)(*args))
  expected = jax.tree.leaves(function(*args))
  for found, y in zip(jax.core.eval_jaxpr(closed.jaxpr, closed.consts, *args), expected, strict=True):
    assert (found.shape, found.dtype) == (y.shape, y.dtype)
    np.testing.assert_allclose(found, y, rtol=1e-5, atol=1e-6)
  return [equation.primitive.name for equation in closed.jaxpr.eqns]


def _convolution(numbers=("NHWC", "HWIO", "NHWC"), **options):
  options = {"window_strides": (1, 1), "padding": "VALID", **options}
  return lambda x, kernel: lax.conv_general_dilated(x, kernel, dimension_numbers=numbers, **options)


@pytest.mark.parametrize(
  ("numbers", "shape"), [(("NHWC", "HWIO", "NHWC"), (1, 1, 6, 5)), (("NHWC", "OIHW", "NHWC"), (5, 6, 1, 1))]
)
def test_small_convolutions_by_windows_of_one_pixel_are_products(numbers, shape):
  assert _checked(_convolution(numbers), _normal(2, 3, 4, 6), _normal(*shape)) == ["squeeze", "dot_general"]
  line = _convolution(("NWC", "WIO", "NWC"), window_strides=(1,))
  assert _checked(line, _normal(2, 3, 6), _normal(1, 6, 5))[-1] == "dot_general"


@pytest.mark.parametrize(
  ("options", "x", "kernel"),
  [
    ({}, (2, 3, 4, 6), (2, 1, 6, 5)),
    ({"window_strides": (2, 1)}, (2, 3, 4, 6), (1, 1, 6, 5)),
    ({"padding": ((0, 1), (0, 0))}, (2, 3, 4, 6), (1, 1, 6, 5)),
    ({"padding": ((-1, 0), (0, 0))}, (2, 3, 4, 6), (1, 1, 6, 5)),
    ({"lhs_dilation": (1, 2), "padding": ((0, 0), (0, 0))}, (2, 3, 4, 6), (1, 1, 6, 5)),
    ({"feature_group_count": 2}, (2, 3, 4, 6), (1, 1, 3, 4)),
    ({"batch_group_count": 2}, (2, 3, 4, 6), (1, 1, 6, 4)),
    ({"numbers": ("NCHW", "OIHW", "NCHW")}, (2, 6, 3, 4), (5, 6, 1, 1)),
    ({"numbers": ("NHWC", "HWIO", "NWHC")}, (2, 3, 4, 6), (1, 1, 6, 5)),
    ({}, (1, 64, 64, 32), (1, 1, 32, 32)),
  ],
)
def test_other_convolutions_are_kept(options, x, kernel):
  assert _checked(_convolution(**options), _normal(*x), _normal(*kernel)) == ["conv_general_dilated"]


def test_narrow_dtypes_are_not_rounded_more_often():
  x, kernel = (jnp.asarray(_normal(*shape), jnp.bfloat16) for shape in ((2, 3, 4, 6), (1, 1, 6, 5)))
  assert _checked(_convolution(), x, kernel) == ["conv_general_dilated"]


def test_factors_of_one_are_left_out():
  x = _normal(3, 4)
  assert _checked(lambda x: x * jnp.float32(1) * lax.logistic(1.0 * x), x) == ["logistic", "mul"]
  assert _checked(lambda x: x * 2, x) == ["mul"]
  assert _checked(lambda x: np.float32(1) * x, np.float32(3)) == []


def test_calls_of_contractions_and_of_small_functions_are_inlined():
  @jax.jit
  def layer(x, w):
    return jax.nn.relu6(x @ w)

  assert "pjit" not in (found := _checked(layer, _normal(2, 3), _normal(3, 4)))
  assert found[0] == "dot_general"
