"""Modules as TensorFlow 2.21 writes them with `experimental_get_compiler_ir(stage="stablehlo")`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from graftax.xla_call_module import CustomCallError, Module, call, embed, explain, lift

_PAIR = "tuple<tensor<3x3xf32>, tensor<3xf32>>"
_EIGENVALUES = f"""func.func @main(%x: tensor<3x3xf32>) -> (tensor<3xf32>, tensor<3x3xf32>) {{
  %1 = stablehlo.custom_call @Eigh(%x) {{
      backend_config = "1,1,100,0.000001", xla_shape = "(f32[3,3]{{1,0}}, f32[3]{{0}})"}} : (tensor<3x3xf32>) -> {_PAIR}
  %2 = stablehlo.get_tuple_element %1[0] : ({_PAIR}) -> tensor<3x3xf32>
  %3 = stablehlo.get_tuple_element %1[1] : ({_PAIR}) -> tensor<3xf32>
  return %3, %2 : tensor<3xf32>, tensor<3x3xf32> }}"""
_QR = f"""func.func @main(%x: tensor<3x3xf32>) -> (tensor<3x3xf32>, tensor<3x3xf32>) {{
  %1 = stablehlo.custom_call @Qr(%x) {{backend_config = "", xla_shape = "(f32[3,3]{{1,0}}, f32[3]{{0}})"}}
      : (tensor<3x3xf32>) -> {_PAIR}
  %2 = stablehlo.get_tuple_element %1[0] : ({_PAIR}) -> tensor<3x3xf32>
  %3 = stablehlo.get_tuple_element %1[1] : ({_PAIR}) -> tensor<3xf32>
  %4 = stablehlo.custom_call @ProductOfElementaryHouseholderReflectors(%2, %3) {{backend_config = ""}}
      : (tensor<3x3xf32>, tensor<3xf32>) -> tensor<3x3xf32>
  %5 = stablehlo.slice %4 [0:3, 0:3] : (tensor<3x3xf32>) -> tensor<3x3xf32>
  %6 = stablehlo.iota dim = 0 : tensor<3xi32>
  %c = stablehlo.constant dense<-1> : tensor<i32>
  %7 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<3xi32>
  %8 = stablehlo.add %6, %7 : tensor<3xi32>
  %9 = stablehlo.broadcast_in_dim %8, dims = [0] : (tensor<3xi32>) -> tensor<3x3xi32>
  %10 = stablehlo.iota dim = 0 : tensor<3xi32>
  %11 = stablehlo.broadcast_in_dim %10, dims = [1] : (tensor<3xi32>) -> tensor<3x3xi32>
  %12 = stablehlo.compare GE, %9, %11 : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi1>
  %cst = stablehlo.constant dense<0.0> : tensor<f32>
  %14 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<3x3xf32>
  %15 = stablehlo.slice %2 [0:3, 0:3] : (tensor<3x3xf32>) -> tensor<3x3xf32>
  %16 = stablehlo.select %12, %14, %15 : tensor<3x3xi1>, tensor<3x3xf32>
  return %5, %16 : tensor<3x3xf32>, tensor<3x3xf32> }}"""
_X = np.array([[2.0, -1, 0.5], [0.25, 3, 1], [1, -0.5, 5]], np.float32)
_SYMMETRIC = _X + _X.T
_WEIGHTS = np.arange(9, dtype=np.float32).reshape(3, 3)


@pytest.mark.parametrize(
  ("text", "function", "x"),
  [(_EIGENVALUES, jnp.linalg.eigh, _SYMMETRIC), (_QR, jnp.linalg.qr, _X)],
  ids=["Eigh", "Qr"],
)
def test_a_decomposition_whose_result_is_a_tuple_lifts_embeds_and_differentiates(text, function, x):
  module = Module.from_text(text)
  wanted = function(x)
  for way in (lift, embed):
    got = way(module)(x)
    # The sign of a vector is free, and that of Q and R together.
    for mine, theirs in zip(got, wanted, strict=True):
      np.testing.assert_allclose(np.abs(mine), np.abs(theirs), rtol=1e-4, atol=1e-5)
  assert explain(module).plan == "lift"
  np.testing.assert_array_equal(call(module, x)[0], lift(module)(x)[0])

  def loss(results):
    return sum((result**2 * _WEIGHTS.reshape(-1)[: result.size].reshape(result.shape)).sum() for result in results)

  got, want = (jax.jit(jax.grad(lambda x, f=f: loss(f(x))))(x) for f in (lift(module), function))
  if text is _EIGENVALUES:  # jnp.linalg.eigh makes its operand symmetric first, so that its gradient is, too
    got = (got + got.T) / 2
  np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_explain_of_a_factorization_whose_reflectors_are_read_does_not_end_the_process():
  module = Module.from_text(f"""func.func @main(%x: tensor<3x3xf32>) -> tensor<3xf32> {{
    %1 = stablehlo.custom_call @Qr(%x) : (tensor<3x3xf32>) -> {_PAIR}
    %2 = stablehlo.get_tuple_element %1[1] : ({_PAIR}) -> tensor<3xf32>
    return %2 : tensor<3xf32> }}""")
  found = explain(module)
  assert (found.plan, found.refusals) == ("lift", ())
  np.testing.assert_allclose(lift(module)(_X)[0], np.linalg.qr(_X, mode="raw")[1], rtol=1e-5)


def test_a_tuple_of_a_call_without_a_rule_names_what_allows_it():
  module = Module.from_text(_EIGENVALUES.replace("@Eigh", "@other"))
  for way in (lift, embed):
    with pytest.raises(CustomCallError, match=r"allow_custom_calls=\['other'\]"):
      way(module)(_X)
  assert "allow_custom_calls" in str(explain(module))


def test_elements_are_read_in_a_region():
  module = Module.from_text(f"""func.func @main(%x: tensor<3x3xf32>, %p: tensor<i1>) -> tensor<3xf32> {{
    %1 = stablehlo.custom_call @Eigh(%x) {{backend_config = "1,1,100,0.000001"}} : (tensor<3x3xf32>) -> {_PAIR}
    %2 = "stablehlo.if"(%p) ({{
      %3 = stablehlo.get_tuple_element %1[1] : ({_PAIR}) -> tensor<3xf32>
      stablehlo.return %3 : tensor<3xf32> }}, {{
      %4 = stablehlo.get_tuple_element %1[1] : ({_PAIR}) -> tensor<3xf32>
      %5 = stablehlo.negate %4 : tensor<3xf32>
      stablehlo.return %5 : tensor<3xf32> }}) : (tensor<i1>) -> tensor<3xf32>
    return %2 : tensor<3xf32> }}""")
  for flag, sign in ((True, 1), (False, -1)):
    got = lift(module)(_SYMMETRIC, np.bool_(flag))[0]
    np.testing.assert_allclose(got, sign * np.linalg.eigvalsh(_SYMMETRIC), rtol=1e-5)


@pytest.mark.parametrize(
  ("old", "new", "message"),
  [
    ("1,1,100,0.000001", "", "its backend_config is ''; expected settings"),
    ("1,1,100,0.000001", "1,1,99999999999,0.0", "expected settings such as '1,1,100,1e-6'"),
    ("tensor<3xf32>>", "tensor<4xf32>>", r"result 1 is float32\[4\]; expected n=3"),
    ("(%x) {", "(%x, %x) {", "it has 2 operands; expected 1"),
  ],
)
def test_a_call_that_xla_would_not_compile_is_refused(old, new, message):
  text = f"""func.func @main(%x: tensor<3x3xf32>) -> tensor<3x3xf32> {{
    %1 = stablehlo.custom_call @Eigh(%x) {{backend_config = "1,1,100,0.000001"}} : (tensor<3x3xf32>) -> {_PAIR}
    %2 = stablehlo.get_tuple_element %1[0] : ({_PAIR}) -> tensor<3x3xf32>
    return %2 : tensor<3x3xf32> }}""".replace(old, new)
  if "%x, %x" in text:
    text = text.replace("} : (tensor<3x3xf32>)", "} : (tensor<3x3xf32>, tensor<3x3xf32>)")
  with pytest.raises(CustomCallError, match=message):
    embed(Module.from_text(text))
