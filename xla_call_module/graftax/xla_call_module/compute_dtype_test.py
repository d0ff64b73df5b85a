"""Compares with the same functions written in narrow dtypes by hand, and with float32."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from graftax.xla_call_module import errors, with_compute_dtype

_BF16 = jnp.bfloat16
_W = np.random.default_rng(0).normal(size=(8, 8)).astype(np.float32)
_X = np.random.default_rng(1).normal(size=(4, 8)).astype(np.float32)


def _narrow(x):
  return jnp.asarray(x, _BF16)


def _products(function, *args):
  """Returns the dtypes of the results of all products in a function, also within loops."""
  text = str(jax.make_jaxpr(function)(*args))
  return {
    line.split("=")[0].split(":")[-1].split("[")[0]
    for line in text.splitlines()
    if "= dot_general" in line or "= conv_general" in line
  }


def _layers(w, x):
  x = jax.nn.gelu(x @ w)
  return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-3)


def _converted(w, x):
  """As a program of float32 reads parameters and an input of bfloat16."""
  return _layers(w.astype(jnp.float32), x.astype(jnp.float32))


def test_a_product_is_that_of_narrow_operands():
  found = with_compute_dtype(lambda w, x: x @ w)(_W, _X)
  assert found.dtype == jnp.float32
  np.testing.assert_array_equal(found, (_narrow(_X) @ _narrow(_W)).astype(jnp.float32))


@pytest.mark.parametrize("dtype, tolerance", [(jnp.bfloat16, 2e-2), (jnp.float16, 3e-3)])
def test_values_and_gradients_are_near_those_of_float32(dtype, tolerance):
  narrow = with_compute_dtype(_layers, dtype)
  found = jax.value_and_grad(lambda w: (narrow(w, _X) ** 3).sum())(_W)
  wanted = jax.value_and_grad(lambda w: (_layers(w, _X) ** 3).sum())(_W)
  assert _products(narrow, _W, _X) == {"bf16" if dtype == _BF16 else "f16"}
  for a, b in zip(found, wanted, strict=True):
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * np.abs(b).max())


def test_parameters_that_are_narrow_are_not_widened_before_they_are_used():
  jaxpr = jax.make_jaxpr(with_compute_dtype(_converted))(_narrow(_W), _narrow(_X))
  first = next(e for e in jaxpr.eqns if e.primitive.name == "dot_general")
  assert all(x in jaxpr.jaxpr.invars for x in first.invars)
  assert jaxpr.out_avals[0].dtype == jnp.float32


def test_a_result_is_wide_where_a_wide_parameter_takes_part():
  narrow = with_compute_dtype(lambda w, b, x: x @ w + b)
  found = narrow(_W, np.float32(1) / 3 * np.ones(8, np.float32), _X)
  np.testing.assert_array_equal(found, (_narrow(_X) @ _narrow(_W)).astype(jnp.float32) + np.float32(1) / 3)


def test_a_convolution_is_that_of_narrow_operands():
  image, kernel = np.ones((1, 5, 5, 3), np.float32) / 3, np.ones((3, 3, 3, 2), np.float32) / 7
  dims = ("NHWC", "HWIO", "NHWC")

  def convolved(k, x):
    return lax.conv_general_dilated(x, k, (1, 1), "SAME", dimension_numbers=dims, precision="highest")

  np.testing.assert_array_equal(
    with_compute_dtype(convolved)(kernel, image), convolved(_narrow(kernel), _narrow(image)).astype(jnp.float32)
  )


def _scanned(w, x):
  carry, rows = lax.scan(lambda c, row: (jnp.tanh(c @ w + row), c.sum()), x[0], x)
  return carry, rows


def _while(w, x):
  return lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, jnp.tanh(c[1] @ w)), (0, x))[1]


def _cond(w, x):
  return lax.cond(x.sum() > 0, lambda x: x @ w, lambda x: x * 2.0, x)


def _nested(w, x):
  return jax.checkpoint(lambda x: jax.jit(lambda x: x @ w)(x) @ w)(x)


@jax.custom_jvp
def _doubled(w, x):
  return x @ w


@_doubled.defjvp
def _doubled_jvp(primals, tangents):
  (w, x), (_, dx) = primals, tangents
  return x @ w, 2 * dx @ w  # not the derivative, so that a test sees whose rule is used


@jax.custom_vjp
def _tripled(w, x):
  return x @ w


_tripled.defvjp(lambda w, x: (x @ w, w), lambda w, ct: (jnp.zeros_like(w), 3 * ct @ w.T))


@pytest.mark.parametrize("function", [_scanned, _while, _cond, _nested, _doubled, _tripled], ids=lambda f: f.__name__)
def test_products_within_other_functions_are_narrow_and_right(function):
  narrow = with_compute_dtype(function)
  assert _products(narrow, _W / 3, _X) == {"bf16"}
  found, wanted = narrow(_W / 3, _X), function(_W / 3, _X)
  assert [x.dtype for x in jax.tree.leaves(found)] == [x.dtype for x in jax.tree.leaves(wanted)]
  jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=5e-2), found, wanted)


@pytest.mark.parametrize("function", [_scanned, _cond, _nested, _doubled, _tripled], ids=lambda f: f.__name__)
def test_derivatives_follow_the_rules_of_the_function(function):
  def loss(f):
    return jax.grad(lambda x: sum(y.sum() for y in jax.tree.leaves(f(_W / 3, x))))(_X)

  np.testing.assert_allclose(loss(with_compute_dtype(function)), loss(function), atol=6e-2)


@jax.custom_vjp
def _closing(x):
  return x @ _W


_closing.defvjp(lambda x: (x @ _W, ()), lambda _, ct: (3 * ct @ _W.T,))


@jax.custom_jvp
def _counting(x, n):
  return x @ _W, n + 1, jnp.argmax(x)


@_counting.defjvp
def _counting_jvp(primals, tangents):
  zero = np.zeros((), jax.dtypes.float0)
  return _counting(*primals), (2 * tangents[0] @ _W, zero, zero)


@pytest.mark.parametrize("function", [_closing, lambda x: _counting(x, 3)[0]], ids=["constant", "integers"])
def test_rules_may_close_over_constants_and_return_integers(function):
  found = jax.grad(lambda x: with_compute_dtype(function)(x).sum())(_X)
  np.testing.assert_allclose(found, jax.grad(lambda x: function(x).sum())(_X), atol=0.2)


def test_loops_with_several_conditions_run():
  def loops(x):
    return jax.vmap(lambda x, n: lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] @ _W / 3), (0, x))[1])(
      x, jnp.arange(4)
    )

  np.testing.assert_allclose(with_compute_dtype(loops)(_X), loops(_X), atol=1e-6)


@pytest.mark.parametrize("dtype, hidden", [(jnp.bfloat16, np.finfo(np.float32).min), (jnp.float16, -1e9)])
@pytest.mark.parametrize("masked", [jnp.where, lax.select], ids=["where", "select"])
def test_numbers_of_masks_stay_finite(dtype, hidden, masked):
  mask = np.arange(32).reshape(4, 8) % 8 < np.arange(4)[:, None]  # the first row has nothing

  def attend(x):
    y = x @ _W
    return jax.nn.softmax(masked(mask, y, jnp.full(y.shape, hidden, y.dtype)))

  np.testing.assert_allclose(with_compute_dtype(attend, dtype)(_X), attend(_X), atol=3e-2)


def test_small_numbers_do_not_become_zero():
  def normalized(x):
    y = x @ _W
    return y * lax.rsqrt(jnp.maximum((y * y).sum(-1, keepdims=True), 1e-12))

  np.testing.assert_array_equal(with_compute_dtype(normalized, jnp.float16)(0 * _X), 0 * _X)


def test_results_are_arrays_of_jax():
  found = with_compute_dtype(lambda w: (w, 1.0))(_W)
  assert all(isinstance(x, jax.Array) for x in found)


def test_other_dtypes_stay():
  with jax.enable_x64(True):
    x = np.ones((2, 2))
    assert _products(with_compute_dtype(jnp.dot), x, x) == {"f64"}
    assert _products(with_compute_dtype(jnp.dot), x.astype(np.int32), x.astype(np.int32)) == {"i32"}


def test_open_sizes_stay_open():
  (n,) = jax.export.symbolic_shape("n")
  exported = jax.export.export(jax.jit(with_compute_dtype(lambda x: _layers(_W, x))))(
    jax.ShapeDtypeStruct((n, 8), "float32")
  )
  np.testing.assert_allclose(exported.call(_X), _layers(_W, _X), atol=5e-2)


def test_another_dtype_is_an_argument_error():
  with pytest.raises(errors.ArgumentError, match="dtype=float64; expected one of bfloat16, float16"):
    with_compute_dtype(jnp.sin, "float64")
