"""Elementwise ops against XLA, which runs each module as it is (`embed`)."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from graftax.xla_call_module import Module, embed, lift

_MATRIX = np.arange(6).reshape(2, 3) - 2
_ROW = np.array([3, -1, 2])
_LESS = "{comparison_direction = #chlo<comparison_direction LT>}"


@pytest.mark.parametrize(
  "op, kind, dtype",
  [
    ("add", "f32", np.float32),
    ("add", "i1", np.bool_),
    ("multiply", "i1", np.bool_),
    ("power", "i32", np.int32),
    ("divide", "i32", np.int32),
    ("shift_left", "ui8", np.uint8),
    ("next_after", "f32", np.float32),
    (f"compare {_LESS}", "f32", np.float32),
    (f"compare {_LESS}", "i8", np.int8),
  ],
  ids=lambda value: value.split()[0] if isinstance(value, str) else "",
)
def test_op_that_broadcasts_gives_what_xla_gives(op, kind, dtype):
  name, _, attributes = op.partition(" ")
  made = "i1" if name == "compare" else kind
  module = Module.from_text(f"""module {{
    func.func public @main(%x: tensor<2x3x{kind}>, %y: tensor<3x{kind}>) -> tensor<2x3x{made}> {{
    %r = chlo.broadcast_{name} %x, %y {attributes} : (tensor<2x3x{kind}>, tensor<3x{kind}>) -> tensor<2x3x{made}>
    return %r : tensor<2x3x{made}> }} }}""")
  # XLA's older emitters, which tests use, return 0 for (-1) ** -1; the next test has negative exponents.
  x, y = _MATRIX.astype(dtype), (abs(_ROW) if name == "power" else _ROW).astype(dtype)
  (got,), (want,) = lift(module)(x, y), embed(module)(x, y)
  np.testing.assert_array_equal(got, want, strict=True)


def test_negative_exponents_of_integers_give_0_except_for_bases_1_and_minus_1():
  module = Module.from_text("""module { func.func public @main(%x: tensor<4xi32>, %y: tensor<4xi32>) -> tensor<4xi32> {
    %r = stablehlo.power %x, %y : tensor<4xi32>
    return %r : tensor<4xi32> } }""")
  bases = np.array([-2, -1, 1, 5], np.int32)
  for exponent, expected in ((-1, [0, -1, 1, 0]), (-2, [0, 1, 1, 0])):
    np.testing.assert_array_equal(lift(module)(bases, np.full(4, exponent, np.int32))[0], expected)


_REAL_OPS = (
  "abs cbrt ceil cosine exponential exponential_minus_one floor imag is_finite log log_plus_one logistic negate real "
  "round_nearest_afz round_nearest_even rsqrt sign sine sqrt tan tanh"
)
_COMPLEX_OPS = (
  "abs cosine exponential exponential_minus_one imag log log_plus_one logistic negate real rsqrt sign sine "
  "sqrt tan tanh"
)
_INTEGER_OPS = "abs count_leading_zeros negate not popcnt sign"
_REALS = np.array([-2.5, -0.5, 0.0, 0.25, 1.5, 7.0], np.float32)


@pytest.mark.parametrize(
  "ops, kind, x",
  [
    (_REAL_OPS, "f32", _REALS),
    (_COMPLEX_OPS, "complex<f32>", (_REALS + 1j * np.roll(_REALS, 2) + 0.125).astype(np.complex64)),
    (_INTEGER_OPS, "i32", np.array([-7, -1, 0, 1, 6, 2**31 - 1], np.int32)),
  ],
  ids=["real", "complex", "integer"],
)
def test_ops_of_one_operand_give_what_xla_gives(ops, kind, x):
  names = ops.split()
  # One module for all of them, since compiling takes longer than computing.
  made = [
    "i1" if n == "is_finite" else "f32" if n in ("abs", "imag", "real") and kind != "i32" else kind for n in names
  ]
  lines = [
    f"%{i} = stablehlo.{name} %x : (tensor<6x{kind}>) -> tensor<6x{out}>"
    for i, (name, out) in enumerate(zip(names, made, strict=True))
  ]
  types = ", ".join(f"tensor<6x{out}>" for out in made)
  module = Module.from_text(f"""module {{ func.func public @main(%x: tensor<6x{kind}>) -> ({types}) {{
    {chr(10).join(lines)}
    return {", ".join(f"%{i}" for i in range(len(names)))} : {types} }} }}""")
  for name, got, want in zip(names, jax.jit(lift(module))(x), embed(module)(x), strict=True):
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=1e-6, err_msg=name)


@pytest.mark.parametrize(
  "accuracy, shown",
  [
    (jax.lax.AccuracyMode.HIGHEST, "accuracy=AccuracyMode.HIGHEST"),
    (jax.lax.Tolerance(atol=1e-5, rtol=0, ulps=2), "Tolerance object"),
  ],
)
def test_accuracies_that_jax_exports_are_lifted(accuracy, shown):
  exported = jax.export.export(jax.jit(lambda x: jax.lax.exp(x, accuracy=accuracy)))(np.ones(3, np.float32))
  assert shown in str(jax.make_jaxpr(lift(Module.from_exported(exported)))(np.ones(3, np.float32)))


@pytest.mark.parametrize("jit", [False, True])
def test_scalar_bounds_of_clamp_have_derivatives(jit):
  module = Module.from_text("""
  func.func @main(%a: tensor<f32>, %x: tensor<2x3xf32>, %b: tensor<f32>) -> tensor<2x3xf32> {
    %0 = stablehlo.clamp %a, %x, %b : (tensor<f32>, tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
    return %0 : tensor<2x3xf32> }""")
  function = jax.jit(lift(module)) if jit else lift(module)
  arguments = np.float32(-0.3), np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3), np.float32(0.45)
  np.testing.assert_array_equal(function(*arguments)[0], embed(module)(*arguments)[0])
  weights = np.arange(1, 7, dtype=np.float32).reshape(2, 3)

  def weighted(clamp):
    return jax.value_and_grad(lambda *given: (clamp(*given) * weights).sum(), (0, 1, 2))

  got = weighted(lambda *given: function(*given)[0])(*arguments)
  want = weighted(lambda a, x, b: lax.clamp(jnp.full_like(x, a), x, jnp.full_like(x, b)))(*arguments)
  for mine, theirs in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
    np.testing.assert_allclose(mine, theirs, rtol=1e-6)
  tangents = np.float32(2), np.ones((2, 3), np.float32), np.float32(3)
  _, (tangent,) = jax.jvp(function, arguments, tangents)
  np.testing.assert_array_equal(tangent, [[2, 2, 1], [1, 3, 3]])


_INNER, _BEYOND_1 = np.array([-0.6, 0.2, 0.75], np.float32), np.array([1.25, 2, 7.5], np.float32)
_MHLO = {
  "acos": (_INNER, np.arccos, lambda x: -1 / np.sqrt(1 - x**2)),
  "acosh": (_BEYOND_1, np.arccosh, lambda x: 1 / np.sqrt(x**2 - 1)),
  "asin": (_INNER, np.arcsin, lambda x: 1 / np.sqrt(1 - x**2)),
  "asinh": (_BEYOND_1, np.arcsinh, lambda x: 1 / np.sqrt(x**2 + 1)),
  "atanh": (_INNER, np.arctanh, lambda x: 1 / (1 - x**2)),
  "cosh": (_BEYOND_1, np.cosh, np.sinh),
  "erf": (_INNER, np.vectorize(math.erf), lambda x: 2 / np.sqrt(np.pi) * np.exp(-(x**2))),
  "sinh": (_BEYOND_1, np.sinh, np.cosh),
  "tan": (_INNER, np.tan, lambda x: 1 / np.cos(x) ** 2),
}


@pytest.mark.parametrize("name", _MHLO)
def test_functions_of_mhlo_and_their_derivatives_are_those_of_numpy(name):
  x, function, derivative = _MHLO[name]
  # As TensorFlow 2.21 writes `tf.math.erf` with experimental_get_compiler_ir(stage="stablehlo").
  module = Module.from_text(f"""func.func @main(%arg0: tensor<3xf32>) -> tensor<3xf32> {{
    %0 = stablehlo.reshape %arg0 : (tensor<3xf32>) -> tensor<3xf32>
    %1 = mhlo.{name} %0 : tensor<3xf32>
    %2 = stablehlo.reshape %1 : (tensor<3xf32>) -> tensor<3xf32>
    return %2 : tensor<3xf32> }}""")
  lifted, exact = lift(module), x.astype(np.float64)
  np.testing.assert_allclose(lifted(x)[0], function(exact), rtol=1e-6)
  if jax.__version_info__ >= (0, 12) or name in ("erf", "tan"):  # XLA before does not compile the others
    np.testing.assert_allclose(lifted(x)[0], embed(module)(x)[0], rtol=1e-6)
  np.testing.assert_allclose(jax.grad(lambda x: lifted(x)[0].sum())(x), derivative(exact), rtol=2e-6)


def test_accuracy_of_the_tangent_of_mhlo_is_lifted():
  module = Module.from_text("""func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
    %0 = mhlo.tan %x {
        result_accuracy = #mhlo.result_accuracy<mode = #mhlo.result_accuracy_mode<HIGHEST>>} : tensor<3xf32>
    return %0 : tensor<3xf32> }""")
  assert "accuracy=AccuracyMode.HIGHEST" in str(jax.make_jaxpr(lift(module))(np.ones(3, np.float32)))
