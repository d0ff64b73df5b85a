"""Sorts that are `top_k`, and sorts that are almost one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from graftax.xla_call_module import Module, lift

_TEXT = """
func.func @main(%x: tensor<2x6x{dtype}>) -> (tensor<2x3x{dtype}>, tensor<2x3xi32>) {{
  %i = stablehlo.iota dim = 1 : tensor<2x6xi32>
  %s:2 = "stablehlo.sort"(%x, %i) <{{dimension = 1 : i64, is_stable = true}}> ({{
  ^bb0(%a: tensor<{dtype}>, %b: tensor<{dtype}>, %c: tensor<i32>, %d: tensor<i32>):
    %g = stablehlo.compare GT, %a, %b, {kind} : (tensor<{dtype}>, tensor<{dtype}>) -> tensor<i1>
    stablehlo.return %g : tensor<i1>
  }}) : (tensor<2x6x{dtype}>, tensor<2x6xi32>) -> (tensor<2x6x{dtype}>, tensor<2x6xi32>)
  %v = stablehlo.slice %s#0 [0:2, 0:3] : (tensor<2x6x{dtype}>) -> tensor<2x3x{dtype}>
  %j = stablehlo.slice %s#1 [0:2, 0:3] : (tensor<2x6xi32>) -> tensor<2x3xi32>
  return %v, %j : tensor<2x3x{dtype}>, tensor<2x3xi32>
}}"""
_FLOATS = _TEXT.format(dtype="f32", kind="TOTALORDER")
_X = np.array([[0, -0.0, np.nan, 3, 3, -np.nan], [-1, -np.inf, -2, -0.0, 0, -3]], np.float32)


def _has_top_k(text, x):
  return "top_k[" in str(jax.make_jaxpr(lift(Module.from_text(text)))(x))


@pytest.mark.parametrize(
  "dtype, kind",
  [("f32", "TOTALORDER"), ("f16", "TOTALORDER"), ("bf16", "TOTALORDER"), ("i32", "SIGNED"), ("ui8", "UNSIGNED")],
)
def test_the_slice_of_a_descending_sort_is_top_k(dtype, kind):
  text = _TEXT.format(dtype=dtype, kind=kind)
  named = {"f32": "float32", "f16": "float16", "bf16": "bfloat16", "i32": "int32", "ui8": "uint8"}[dtype]
  x = jnp.asarray(_X if kind == "TOTALORDER" else np.array([[1, 0, 2, 3, 3, 1], [5, 4, 5, 4, 200, 4]]), named)
  assert _has_top_k(text, x)
  values, places = lift(Module.from_text(text))(x)
  if kind == "TOTALORDER":
    assert places.tolist() == [[2, 3, 4], [4, 3, 0]]  # NaN before numbers, 0 before -0.0
  else:
    assert places.tolist() == [[3, 4, 2], [4, 0, 2]]
  expected = np.take_along_axis(np.asarray(x.astype(np.float32)), np.asarray(places), 1)
  np.testing.assert_array_equal(values.astype(np.float32), expected)
  if kind == "TOTALORDER":
    gradient = jax.grad(lambda x: lift(Module.from_text(text))(x)[0].sum().astype(np.float32))(x)
    assert gradient.tolist() == [[0, 0, 1, 1, 1, 0], [1, 0, 0, 1, 1, 0]]


@pytest.mark.parametrize(
  "old, new, places",
  [
    ("GT, %a, %b", "LT, %a, %b", [[5, 1, 0], [1, 5, 2]]),
    ("GT, %a, %b", "GT, %b, %a", [[5, 1, 0], [1, 5, 2]]),
    ("#1 [0:2, 0:3]", "#1 [0:2, 1:4]", [[3, 4, 0], [3, 0, 2]]),
    ("#1 [0:2, 0:3]", "#1 [0:2, 0:5:2]", [[2, 4, 1], [4, 0, 5]]),
    ("#0 [0:2, 0:3]", "#0 [0:2, 3:6]", [[2, 3, 4], [4, 3, 0]]),
    ("iota dim = 1", "iota dim = 0", [[0, 0, 0], [1, 1, 1]]),
  ],
)
def test_other_sorts_stay_as_they_are(old, new, places):
  assert old in _FLOATS
  text = _FLOATS.replace(old, new)
  assert not _has_top_k(text, _X)
  assert lift(Module.from_text(text))(_X)[1].tolist() == places


def test_a_sort_that_is_also_returned_stays():
  text = _FLOATS.replace("(tensor<2x3xf32>, tensor<2x3xi32>) {", "(tensor<2x3xf32>, tensor<2x6xi32>) {")
  text = text.replace(
    "return %v, %j : tensor<2x3xf32>, tensor<2x3xi32>", "return %v, %s#1 : tensor<2x3xf32>, tensor<2x6xi32>"
  )
  assert not _has_top_k(text, _X)
  assert lift(Module.from_text(text))(_X)[1].tolist() == [[2, 3, 4, 0, 1, 5], [4, 3, 0, 2, 5, 1]]
