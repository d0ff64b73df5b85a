import jax
import jax.numpy as jnp
import numpy as np
import pytest

from graftax.xla_call_module import Module, embed, lift


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


def _select_and_scatter(direction: str, padding: str, size: int) -> Module:
  return Module.from_text(f"""module {{
    func.func public @main(%x: tensor<4xf32>, %u: tensor<{size}xf32>) -> tensor<4xf32> {{
    %i = stablehlo.constant dense<0.0> : tensor<f32>
    %r = "stablehlo.select_and_scatter"(%x, %u, %i) <{{window_dimensions = array<i64: 2>,
        window_strides = array<i64: 2>, padding = dense<{padding}> : tensor<1x2xi64>}}> ({{
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %p = stablehlo.compare {direction}, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    }}, {{
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }}) : (tensor<4xf32>, tensor<{size}xf32>, tensor<f32>) -> tensor<4xf32>
    return %r : tensor<4xf32> }} }}""")


@pytest.mark.parametrize("direction", ["GE", "GT", "LE", "LT"])
@pytest.mark.parametrize(
  "padding, x",
  [
    ("[[1, 1]]", [3, 1, 2, -4]),
    ("[[1, 1]]", [-np.inf, -np.inf, 2, np.inf]),
    ("[[1, 1]]", [np.inf, np.inf, -1, -np.inf]),
    ("[[-1, 1]]", [1, 2, 3, 2]),
  ],
)
def test_padding_never_wins_a_selection(direction, padding, x):
  size = 3 if padding == "[[1, 1]]" else 2
  module = _select_and_scatter(direction, padding, size)
  x, source = np.array(x, np.float32), np.array([10, 20, 30], np.float32)[:size]
  function = lift(module)
  np.testing.assert_array_equal(function(x, source)[0], embed(module)(x, source)[0])
  gradient = jax.grad(lambda source: (function(x, source)[0] * np.arange(4, dtype=np.float32)).sum())(source)
  ones = [int(np.flatnonzero(function(x, np.eye(size, dtype=np.float32)[i])[0])[0]) for i in range(size)]
  np.testing.assert_array_equal(gradient, ones)


def test_running_or_of_booleans():
  text = """module { func.func public @main(%x: tensor<4xi1>) -> tensor<4xi1> {
    %i = stablehlo.constant dense<false> : tensor<i1>
    %r = "stablehlo.reduce_window"(%x, %i) <{window_dimensions = array<i64: 4>,
        padding = dense<[[3, 0]]> : tensor<1x2xi64>}> ({
    ^bb0(%a: tensor<i1>, %b: tensor<i1>):
      %s = stablehlo.or %a, %b : tensor<i1>
      stablehlo.return %s : tensor<i1>
    }) : (tensor<4xi1>, tensor<i1>) -> tensor<4xi1>
    return %r : tensor<4xi1> } }"""
  got = lift(Module.from_text(text))(np.array([False, True, False, False]))[0]
  np.testing.assert_array_equal(got, [False, True, True, True])


def test_dilated_maximum_and_initial_value_that_is_an_argument():
  text = """module { func.func public @main(%x: tensor<5xf32>, %i: tensor<f32>) -> tensor<3xf32> {
    %r = "stablehlo.reduce_window"(%x, %i) <{window_dimensions = array<i64: 2>,
        window_dilations = array<i64: 2>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.maximum %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<5xf32>, tensor<f32>) -> tensor<3xf32>
    return %r : tensor<3xf32> } }"""
  function = lift(Module.from_text(text))
  starts = np.array([-9, 2], np.float32)
  for start, got in zip(starts, jax.vmap(function, (None, 0))(_X, starts)[0], strict=True):
    np.testing.assert_array_equal(got, np.maximum(np.maximum(_X[:3], _X[2:]), start))
  gradient = jax.grad(lambda x: (function(x, np.float32(-9))[0] * np.array([1, 2, 4], np.float32)).sum())(_X)
  np.testing.assert_array_equal(gradient, [0, 2, 1, 0, 4])
