"""Depthwise convolutions and their derivatives against `lax.conv_general_dilated`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from graftax.xla_call_module.lax_extras import Window, depthwise_conv

_RNG = np.random.default_rng(0)

# input [batch, *space, channels], window, multiplier, strides, dilations, padding
_CASES = {
  "same": ((2, 7, 6, 3), (3, 3), 1, (1, 1), (1, 1), ((1, 1), (1, 1))),
  "columns that are no multiple of the terms": ((1, 4, 7, 2), (2, 3), 1, (1, 1), (1, 1), ((0, 0), (1, 1))),
  "few columns": ((1, 5, 2, 2), (3, 2), 1, (1, 1), (1, 1), ((1, 1), (0, 0))),
  "many columns": ((1, 2, 131, 2), (1, 3), 1, (1, 1), (1, 1), ((0, 0), (1, 1))),
  "many columns, strides": ((1, 2, 300, 1), (2, 3), 1, (1, 2), (1, 1), ((0, 1), (1, 2))),
  "strides": ((2, 7, 8, 3), (3, 3), 1, (2, 3), (1, 1), ((1, 0), (0, 1))),
  "strides, a large window": ((1, 9, 8, 2), (5, 4), 1, (2, 3), (1, 1), ((2, 2), (1, 1))),
  "strides that leave rows over": ((1, 8, 9, 2), (4, 3), 1, (3, 4), (1, 1), ((0, 0), (0, 0))),
  "a window smaller than its strides": ((1, 8, 9, 2), (4, 4), 1, (5, 5), (1, 1), ((0, 0), (0, 0))),
  "dilations": ((2, 9, 8, 2), (3, 2), 1, (1, 1), (2, 3), ((2, 2), (3, 0))),
  "strides and dilations": ((1, 9, 11, 2), (3, 4), 1, (2, 1), (2, 3), ((2, 1), (4, 5))),
  "more padding than window": ((1, 3, 4, 2), (2, 2), 1, (1, 1), (1, 1), ((4, 3), (5, 0))),
  "many cells": ((1, 8, 8, 2), (6, 6), 1, (1, 1), (1, 1), ((3, 2), (2, 3))),
  "two filters for each channel": ((2, 6, 5, 3), (3, 2), 2, (1, 2), (1, 1), ((1, 1), (1, 0))),
  "one dimension": ((2, 9, 3), (4,), 1, (2,), (1,), ((1, 2),)),
  "three dimensions": ((1, 4, 5, 6, 2), (2, 3, 2), 1, (1, 2, 1), (1, 1, 2), ((1, 0), (1, 1), (1, 1))),
}


def _functions(name, dtype="float32", order=None):
  """Returns input, filter, the convolution, and that of lax, with the axes of the input in some order."""
  shape, size, multiplier, strides, dilations, padding = _CASES[name]
  space, order = len(size), order or tuple(range(len(shape)))
  x = jnp.asarray(_RNG.normal(size=shape).astype(dtype)).transpose(order)
  kernel = jnp.asarray(_RNG.normal(size=(*size, shape[-1], multiplier)).astype(dtype))
  rank, back = len(shape), tuple(np.argsort(order))

  def full(values, rest):
    return tuple([rest, *values, rest][axis] for axis in order)

  window = Window(full(size, 1), full(strides, 1), (1,) * rank, full(dilations, 1), full(padding, (0, 0)))

  def found(x, kernel):
    return depthwise_conv(x, kernel, window, order.index(rank - 1), order.index(0))

  def expected(x, kernel):
    letters = "".join(map(str, range(space)))
    y = lax.conv_general_dilated(
      x.transpose(back),
      kernel.reshape(*size, 1, -1),
      strides,
      padding,
      rhs_dilation=dilations,
      dimension_numbers=(f"N{letters}C", f"{letters}IO", f"N{letters}C"),
      feature_group_count=shape[-1],
      precision="highest",
    )
    return y.transpose(order)

  return x, kernel, found, expected


def _assert_close(found, expected, tolerance=1e-4):
  for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
    assert a.shape == b.shape and a.dtype == b.dtype
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * float(jnp.max(jnp.abs(b), initial=1)))


@pytest.mark.parametrize("name", _CASES)
def test_values_and_first_derivatives(name):
  x, kernel, *functions = _functions(name)

  def run(function):
    y, pull = jax.vjp(function, x, kernel)
    return y, pull(jnp.sin(y)), jax.jvp(function, (x, kernel), (jnp.cos(x), jnp.cos(kernel)))[1]

  _assert_close(*(jax.jit(run, static_argnums=0)(function) for function in functions))


@pytest.mark.parametrize("order", [(0, 3, 1, 2), (3, 1, 2, 0), (1, 2, 0, 3)])
@pytest.mark.parametrize("name", ["strides and dilations", "two filters for each channel"])
def test_axes_in_any_order(name, order):
  x, kernel, *functions = _functions(name, order=order)
  _assert_close(*(jax.vjp(function, x, kernel)[1](functions[1](x, kernel)) for function in functions))


@pytest.mark.parametrize("name", ["strides", "dilations", "two filters for each channel", "one dimension"])
def test_derivatives_of_second_order_and_batches(name):
  x, kernel, *functions = _functions(name)

  def run(function):
    def loss(x, kernel):
      return jnp.sum(function(x, kernel) ** 3)

    gradient = jax.grad(loss, (0, 1))
    pushed = jax.jvp(gradient, (x, kernel), (jnp.cos(x), jnp.cos(kernel)))[1]
    pulled = jax.grad(lambda *args: sum(jnp.sum(g**2) for g in gradient(*args)), (0, 1))(x, kernel)
    xs = jnp.stack([x, 2 * x])
    return (
      pushed,
      pulled,
      jax.vmap(gradient, (0, None))(xs, kernel),
      jax.vmap(gradient)(xs, jnp.stack([kernel, -kernel])),
    )

  _assert_close(*(jax.jit(run, static_argnums=0)(function) for function in functions), tolerance=1e-3)


@pytest.mark.parametrize("position", [0, 1])
def test_each_argument_alone_can_be_transposed(position):
  x, kernel, *functions = _functions("strides")
  spec = jax.ShapeDtypeStruct((x, kernel)[position].shape, x.dtype)

  def pulled(function):
    def of_one(value):
      return function(*(value, kernel) if position == 0 else (x, value))

    return jax.linear_transpose(of_one, spec)(functions[1](x, kernel))

  _assert_close(*map(pulled, functions))


def test_an_infinite_pixel_stays_in_the_gradients_of_its_own_cells():
  x, kernel, found, expected = _functions("many columns, strides")
  x = x.at[0, 0, 0, 0].set(jnp.inf)
  gradients = [
    jax.vjp(lambda k: function(x, k), kernel)[1](jnp.ones_like(expected(x, kernel)))[0]  # noqa: B023
    for function in (found, expected)
  ]
  assert np.isinf(gradients[1]).any() and np.isfinite(gradients[1]).any()
  np.testing.assert_allclose(*gradients, rtol=1e-4, atol=1e-4)


def test_short_types_are_added_up_in_float32():
  x, kernel, found, _ = _functions("same", "float16")
  *_, expected = _functions("same")
  wide = x.astype(jnp.float32), kernel.astype(jnp.float32)
  assert found(x, kernel).dtype == jnp.float16
  np.testing.assert_allclose(found(x, kernel), expected(*wide), rtol=1e-3, atol=1e-3)


def test_a_chain_computes_each_convolution_once():
  x = jnp.ones((1, 8, 8, 4))
  window = Window((1, 3, 3, 1), (1,) * 4, (1,) * 4, (1,) * 4, ((0, 0), (1, 1), (1, 1), (0, 0)))

  def chain(x, *kernels):
    for kernel in kernels:
      x = jax.nn.relu(depthwise_conv(x, kernel, window, 3))
    return x

  kernels = [jnp.ones((3, 3, 4, 1))] * 4
  text = jax.jit(chain).lower(x, *kernels).compile().as_text()
  products = text.count(" multiply(")
  assert products == len(kernels) * 9, f"{products} products of {len(kernels)} convolutions with 9 cells"


def test_derivatives_in_a_loop_of_rows_do_not_grow_with_the_input():
  def size_of_gradient(height):
    x, kernel = jnp.ones((1, height, 16, 2)), jnp.ones((3, 3, 2, 1))
    window = Window((1, 3, 3, 1), (1,) * 4, (1,) * 4, (1,) * 4, ((0, 0), (1, 1), (1, 1), (0, 0)))
    return len(str(jax.make_jaxpr(jax.grad(lambda k: jnp.sum(depthwise_conv(x, k, window, 3))))(kernel)))

  small, large = map(size_of_gradient, (8, 512))
  assert large < 1.1 * small


def test_what_differs_between_devices_is_convolved_like_the_rest():
  x, kernel, *functions = _functions("same")
  mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("data",))
  data, same = jax.P("data"), jax.P()

  def run(function):
    def loss(x, kernel):
      return lax.psum(jnp.sum(function(x, kernel) ** 3), "data")

    split = jax.shard_map(function, mesh=mesh, in_specs=(data, same), out_specs=data)
    total = jax.shard_map(loss, mesh=mesh, in_specs=(data, same), out_specs=same)
    return jax.jit(split)(x, kernel), jax.jit(jax.grad(total, (0, 1)))(x, kernel)

  _assert_close(*map(run, functions))
