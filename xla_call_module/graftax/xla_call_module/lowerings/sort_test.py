import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from graftax.xla_call_module import Module, lift


def _sort(comparator: str, kind: str = "f32", size: int = 6) -> Module:
  return Module.from_text(f"""module {{ func.func public @main(%x: tensor<{size}x{kind}>, %y: tensor<{size}xi32>)
      -> (tensor<{size}x{kind}>, tensor<{size}xi32>) {{
    %r:2 = "stablehlo.sort"(%x, %y) <{{dimension = 0 : i64, is_stable = true}}> ({{
    ^bb0(%a: tensor<{kind}>, %b: tensor<{kind}>, %c: tensor<i32>, %d: tensor<i32>):
      {comparator}
      stablehlo.return %p : tensor<i1>
    }}) : (tensor<{size}x{kind}>, tensor<{size}xi32>) -> (tensor<{size}x{kind}>, tensor<{size}xi32>)
    return %r#0, %r#1 : tensor<{size}x{kind}>, tensor<{size}xi32> }} }}""")


_SPECIAL = np.array([np.nan, 0.0, -0.0, np.inf, -1.0, -np.nan], np.float32)
_INDEX = np.arange(6, dtype=np.int32)


def test_total_order_comparator_tells_the_zeros_and_the_nans_apart():
  function = lift(_sort("%p = stablehlo.compare LT, %a, %b, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>"))
  order = list(np.asarray(function(_SPECIAL, _INDEX)[1]))
  assert order == [5, 4, 2, 1, 3, 0]


def test_descending_total_order_is_stable():
  function = lift(_sort("%p = stablehlo.compare GT, %a, %b, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>"))
  assert list(np.asarray(function(_SPECIAL, _INDEX)[1])) == [0, 3, 1, 2, 4, 5]
  ties = np.array([1, 2, 1, 2, 1, 3], np.float32)
  assert list(np.asarray(function(ties, _INDEX)[1])) == [5, 1, 3, 0, 2, 4]


def test_plain_comparison_takes_the_zeros_as_equal():
  function = lift(_sort("%p = stablehlo.compare LT, %a, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>"))
  x = np.array([0.0, -0.0, 1.0, -1.0, -0.0, 0.0], np.float32)
  assert list(np.asarray(function(x, _INDEX)[1])) == [3, 0, 1, 4, 5, 2]


def test_own_comparator_of_jax_is_recognized():
  exported = jax.export.export(jax.jit(lambda x, y: lax.sort((x, y), num_keys=2)))(_SPECIAL, _INDEX)
  function = lift(Module.from_exported(exported), gradient="primal")
  assert "num_keys=2" in str(jax.make_jaxpr(function)(_SPECIAL, _INDEX))
  for got, want in zip(function(_SPECIAL, _INDEX), lax.sort((_SPECIAL, _INDEX), num_keys=2), strict=True):
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
  "kind, dtype", [("i32", np.int32), ("ui8", np.uint8), ("i1", np.bool_), ("bf16", jnp.bfloat16)]
)
def test_descending_order_of_other_types(kind, dtype):
  function = lift(_sort(f"%p = stablehlo.compare GT, %a, %b : (tensor<{kind}>, tensor<{kind}>) -> tensor<i1>", kind))
  x = np.array([3, 0, 1, 3, 2, 1]).astype(dtype)
  got = np.asarray(function(x, _INDEX)[1])
  assert list(got) == sorted(range(6), key=lambda i: (-float(x[i]), i))


def test_any_comparator_sorts_and_differentiates():
  by_size = """%e = stablehlo.abs %a : tensor<f32>
      %f = stablehlo.abs %b : tensor<f32>
      %p = stablehlo.compare LT, %e, %f : (tensor<f32>, tensor<f32>) -> tensor<i1>"""
  function = lift(_sort(by_size))
  x = np.array([3, -1, 2, 1, -5, 0.5], np.float32)
  values, order = function(x, _INDEX)
  assert list(np.asarray(order)) == [5, 1, 3, 2, 0, 4]
  np.testing.assert_array_equal(values, x[np.asarray(order)])
  weights = np.arange(6, dtype=np.float32)
  gradient = jax.grad(lambda x: (function(x, _INDEX)[0] * weights).sum())(x)
  np.testing.assert_array_equal(gradient[np.asarray(order)], weights)
  batched = jax.vmap(function, (0, None))(np.stack([x, -x]), _INDEX)
  np.testing.assert_array_equal(batched[1][1], order)


def test_comparator_that_holds_of_equals_sorts():
  function = lift(_sort("%p = stablehlo.compare GE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>"))
  assert list(np.asarray(function(np.array([1, 3, 2, 3, 1, 0], np.float32), _INDEX)[1])) == [1, 3, 2, 0, 4, 5]
  function = lift(_sort("%p = stablehlo.and %a, %a : tensor<i1>", "i1"))
  flags = np.array([False, True, False, True, True, False])
  np.testing.assert_array_equal(function(flags, _INDEX)[0], [True, True, True, False, False, False])


def test_4_bit_floats_sort():
  kind = "f4E2M1FN"
  function = lift(_sort(f"%p = stablehlo.compare LT, %a, %b : (tensor<{kind}>, tensor<{kind}>) -> tensor<i1>", kind))
  x = np.array([3, -0.5, 6, 0, -6, 1]).astype(jnp.float4_e2m1fn)
  assert list(np.asarray(function(x, _INDEX)[1])) == [4, 1, 3, 5, 0, 2]
