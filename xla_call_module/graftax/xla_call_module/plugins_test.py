import jax
import jax.numpy as jnp
import numpy as np
import pytest

from graftax.xla_call_module import ArgumentError, CustomCall, LiftError, Module, lift, registry

X, Y = np.array([0.5, -2.0, 3.0], np.float32), np.array([1, 2, 3], np.int32)

_TEXT = """
func.func @main(%x: tensor<3xf32>, %y: tensor<3xi32>) -> (tensor<3xf32>, tensor<3xi32>) {
  %0:2 = stablehlo.custom_call @plugins_test.scale(%x, %y) {SETTINGS}
    : (tensor<3xf32>, tensor<3xi32>) -> (tensor<3xf32>, tensor<3xi32>)
  return %0#0, %0#1 : tensor<3xf32>, tensor<3xi32>
}
"""


class _Plain(CustomCall):
  target = "plugins_test.scale"
  settings = ("factor",)

  def compute(self, op, *operands):
    x, y = operands
    return op.attrs["factor"] * jnp.sin(x) * y, y + 1


class _Full(_Plain):
  """Its derivative is ten times that of `_Plain`, and its batches are shifted by 1."""

  def pull_back(self, op, operands, results, cotangents):
    (x, y), (cotangent, _) = operands, cotangents
    return [10 * op.attrs["factor"] * jnp.cos(x) * y * cotangent, None]

  def run_batch(self, op, size, is_batched, *operands):
    rows = [
      x if batched else jnp.broadcast_to(x, (size, *x.shape)) for x, batched in zip(operands, is_batched, strict=True)
    ]
    scaled, more = self.compute(op, *rows)
    return scaled + 1, more


def _module(settings="factor = 2.0 : f32"):
  return Module.from_text(_TEXT.replace("SETTINGS", settings))


def _lifted(plugin, **options):
  return lift(_module(), custom_calls={plugin.target: plugin}, **options)


def test_without_more_derivatives_and_batches_are_those_of_jax():
  function = _lifted(_Plain())
  expected = 2 * np.sin(X) * Y
  np.testing.assert_allclose(function(X, Y)[0], expected, rtol=1e-6)
  np.testing.assert_allclose(jax.vmap(function, (0, None))(np.stack([X, X]), Y)[0][1], expected, rtol=1e-6)
  np.testing.assert_allclose(jax.grad(lambda x: function(x, Y)[0].sum())(X), 2 * np.cos(X) * Y, rtol=1e-6)


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit])
def test_its_own_derivative_and_batching_are_used(wrap):
  function = wrap(_lifted(_Full()))
  gradient = jax.grad(lambda x, y: function(x, y)[0].sum())
  np.testing.assert_allclose(gradient(X, Y), 20 * np.cos(X) * Y, rtol=1e-6)
  second = jax.grad(lambda x: gradient(x, Y).sum())(X)
  np.testing.assert_allclose(second, -20 * np.sin(X) * Y, rtol=1e-6)
  batch = np.stack([X, 2 * X])
  found, more = jax.vmap(function, (0, None))(batch, Y)
  np.testing.assert_allclose(found, 2 * np.sin(batch) * Y + 1, rtol=1e-6)
  np.testing.assert_array_equal(more, [Y + 1, Y + 1])
  np.testing.assert_allclose(jax.vmap(gradient, (0, None))(batch, Y), 20 * np.cos(batch) * Y, rtol=1e-6)
  with pytest.raises(TypeError, match="forward-mode"):
    jax.jvp(lambda x: function(x, Y)[0], (X,), (X,))


class _Batched(CustomCall):
  target = "plugins_test.sine"

  def compute(self, op, *operands):
    return jnp.sin(operands[0])

  def run_batch(self, op, size, is_batched, *operands):
    return jnp.sin(operands[0]) + 1


def test_a_batching_of_its_own_keeps_the_derivative_of_jax():
  text = (
    "func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {"
    " %0 = stablehlo.custom_call @plugins_test.sine(%x) : (tensor<3xf32>) -> tensor<3xf32> return %0 : tensor<3xf32> }"
  )
  function = lift(Module.from_text(text), custom_calls={_Batched.target: _Batched()})
  np.testing.assert_allclose(jax.vmap(lambda x: function(x)[0])(X[None])[0], np.sin(X) + 1, rtol=1e-6)
  np.testing.assert_allclose(jax.jvp(lambda x: function(x)[0], (X,), (X,))[1], np.cos(X) * X, rtol=1e-6)
  for order, expected in ((jax.grad, np.cos(X)), (lambda f: jax.grad(lambda x: jax.grad(f)(x).sum()), -np.sin(X))):
    np.testing.assert_allclose(order(lambda x: function(x)[0].sum())(X), expected, rtol=1e-6)


def test_a_call_with_other_settings_does_not_lift():
  function = lift(_module("factor = 2.0 : f32, other = 1 : i32"), custom_calls={_Plain.target: _Plain()})
  with pytest.raises(LiftError, match=r"_Plain reads \['factor'\], and the call has other = 1"):
    function(X, Y)


class _Wrong(_Full):
  def run_batch(self, op, size, is_batched, *operands):
    scaled, more = super().run_batch(op, size, is_batched, *operands)
    return scaled[:1], more


def test_a_batch_of_another_size_raises():
  with pytest.raises(ArgumentError, match=r"_Wrong returned arrays \[1, 3\], \[2, 3\]; expected \[2, 3\], \[2, 3\]"):
    jax.vmap(_lifted(_Wrong()), (0, None))(np.stack([X, X]), Y)


def test_a_registered_call_checks_its_settings():
  plugin = _Full().register()
  try:
    np.testing.assert_allclose(lift(_module())(X, Y)[0], 2 * np.sin(X) * Y, rtol=1e-6)
    with pytest.raises(LiftError, match="other"):
      lift(_module("factor = 2.0 : f32, other = 1 : i32"))(X, Y)
    with pytest.raises(ValueError, match="override=True"):
      plugin.register()
    assert plugin.register(override=True) is plugin
  finally:
    del registry.custom_calls[plugin.target]
