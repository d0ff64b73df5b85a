import jax
import jax.numpy as jnp
import numpy as np

from graftax.xla_call_module import Module, lift


def _window(body: str, init: str, padding: str = "[[1, 1]]") -> Module:
  return Module.from_text(f"""module {{ func.func public @main(%x: tensor<5xf32>) -> tensor<5xf32> {{
    %i = stablehlo.constant dense<{init}> : tensor<f32>
    %r = "stablehlo.reduce_window"(%x, %i) <{{window_dimensions = array<i64: 3>,
        padding = dense<{padding}> : tensor<1x2xi64>}}> ({{
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      {body}
      stablehlo.return %s : tensor<f32>
    }}) : (tensor<5xf32>, tensor<f32>) -> tensor<5xf32>
    return %r : tensor<5xf32> }} }}""")


_X = np.array([0.5, 1.5, 2.0, 0.25, 3.0], np.float32)


def test_initial_value_also_fills_the_padding():
  got = lift(_window("%s = stablehlo.add %a, %b : tensor<f32>", "10.0"))(_X)[0]
  padded = np.concatenate([[10], _X, [10]])
  np.testing.assert_allclose(got, [10 + padded[i : i + 3].sum() for i in range(5)], rtol=1e-6)


def test_product_over_a_window_differentiates():
  def function(x):
    return lift(_window("%s = stablehlo.multiply %a, %b : tensor<f32>", "1.0"))(x)[0]

  def wanted(x):
    return jnp.array([1.0, *x, 1.0])[:-2] * x * jnp.array([1.0, *x, 1.0])[2:]

  x = jnp.asarray(_X)
  np.testing.assert_allclose(function(x), wanted(x), rtol=1e-6)
  np.testing.assert_allclose(jax.jacrev(function)(x), jax.jacrev(wanted)(x), rtol=1e-5)
  np.testing.assert_allclose(jax.jacfwd(function)(x), jax.jacrev(wanted)(x), rtol=1e-5)


def test_select_and_scatter_with_a_selector_of_its_own():
  text = """module { func.func public @main(%x: tensor<4xf32>, %u: tensor<2xf32>) -> tensor<4xf32> {
    %i = stablehlo.constant dense<0.0> : tensor<f32>
    %r = "stablehlo.select_and_scatter"(%x, %u, %i) <{window_dimensions = array<i64: 2>,
        window_strides = array<i64: 2>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %c = stablehlo.abs %a : tensor<f32>
      %d = stablehlo.abs %b : tensor<f32>
      %p = stablehlo.compare GE, %c, %d : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    }, {
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<4xf32>, tensor<2xf32>, tensor<f32>) -> tensor<4xf32>
    return %r : tensor<4xf32> } }"""
  got = lift(Module.from_text(text))(np.array([1, -3, 2, 1], np.float32), np.array([10, 20], np.float32))[0]
  np.testing.assert_array_equal(got, [0, 10, 20, 0])
