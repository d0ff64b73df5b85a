"""Selects that hide a product with infinity, as TensorFlow's compiler writes `erfinv`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from graftax.xla_call_module import Module, lift

_TEXT = """
func.func @main(%x: tensor<4x{dtype}>) -> tensor<4x{dtype}> {{
  %one = stablehlo.constant dense<1.0> : tensor<4x{dtype}>
  %edge = stablehlo.abs %x : tensor<4x{dtype}>
  %at_edge = stablehlo.compare {direction}, %edge, %one : (tensor<4x{dtype}>, tensor<4x{dtype}>) -> tensor<4xi1>
  {infinity}
  %product = stablehlo.multiply {product} : tensor<4x{dtype}>
  %sine = stablehlo.sine %x : tensor<4x{dtype}>
  %y = stablehlo.select %at_edge, {values} : tensor<4xi1>, tensor<4x{dtype}>
  return %y : tensor<4x{dtype}>
}}"""
_SPLAT = "%inf = stablehlo.constant dense<{value}> : tensor<4x{dtype}>"
_BROADCAST = """%c = stablehlo.constant dense<{value}> : tensor<{dtype}>
  %inf = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<{dtype}>) -> tensor<4x{dtype}>"""
_BITS = {("f32", 1): "0x7F800000", ("f32", -1): "0xFF800000", ("bf16", 1): "0x7F80", ("bf16", -1): "0xFF80"}


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("constant", [_SPLAT, _BROADCAST])
@pytest.mark.parametrize("product", ["%x, %inf", "%inf, %x"])
@pytest.mark.parametrize("on_true", [True, False])
def test_the_gradient_is_that_of_the_value_that_is_selected(dtype, sign, constant, product, on_true):
  infinity = constant.format(value=_BITS[dtype, sign], dtype=dtype)
  direction, values = ("EQ", "%product, %sine") if on_true else ("NE", "%sine, %product")
  text = _TEXT.format(dtype=dtype, direction=direction, infinity=infinity, product=product, values=values)
  x = jnp.asarray([0, 0.5, 1, -1], {"f32": "float32", "bf16": "bfloat16"}[dtype])
  lifted = lift(Module.from_text(text))
  expected = np.where(np.abs(np.float32(x)) == 1, np.copysign(np.inf, np.float32(x) * sign), np.sin(np.float32(x)))
  np.testing.assert_allclose(np.float32(lifted(x)[0]), expected, rtol=1e-2 if dtype == "bf16" else 1e-6)
  slope = np.where(np.abs(np.float32(x)) == 1, sign * np.inf, np.cos(np.float32(x)))
  for gradient in (
    jax.grad(lambda x: lifted(x)[0].sum())(x),
    jax.jvp(lambda x: lifted(x)[0], (x,), (jnp.ones_like(x),))[1],
    jax.vmap(jax.grad(lambda x: lifted(x)[0].sum()))(jnp.stack([x, x]))[1],
  ):
    np.testing.assert_allclose(np.float32(gradient), slope, rtol=1e-2 if dtype == "bf16" else 1e-6)


def test_other_constants_stay_products():
  infinity = "%inf = stablehlo.constant dense<[0x7F800000, 1.0, 2.0, 3.0]> : tensor<4xf32>"
  text = _TEXT.format(dtype="f32", direction="EQ", infinity=infinity, product="%x, %inf", values="%product, %sine")
  assert str(jax.make_jaxpr(lift(Module.from_text(text)))(np.ones(4, np.float32))).count("select_n") == 1
