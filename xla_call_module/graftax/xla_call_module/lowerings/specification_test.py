"""Small modules at the edges of the specification; the oracle is XLA, which runs each module as it is (`embed`)."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from graftax.xla_call_module import Module, VersionError, attributes, embed, lift, mlir


@dataclasses.dataclass(frozen=True, slots=True)
class _Case:
  """`body` computes `%r` of type `result` from `%a`, `%b`, ..., which hold `arguments`."""

  name: str
  body: str
  arguments: tuple[Any, ...]
  result: str

  def text(self) -> str:
    named = zip("abcde", self.arguments, strict=False)
    parameters = ", ".join(f"%{name}: {attributes.type_spelling(x.shape, x.dtype)}" for name, x in named)
    return (
      f"module {{ func.func public @main({parameters}) -> {self.result} {{\n{self.body}\n"
      f"return %r : {self.result} }} }}"
    )

  def module(self) -> Module:
    return Module.from_text(self.text())


_I32 = np.arange(1, 5, dtype=np.int32).reshape(2, 2)
_F32 = np.linspace(-2, 2, 6, dtype=np.float32).reshape(2, 3)


def _reduce(body: str, kind: str = "f32") -> str:
  return f"""%r = "stablehlo.reduce"(%a, %b) <{{dimensions = array<i64: 1>}}> ({{
    ^bb0(%x: tensor<{kind}>, %y: tensor<{kind}>):
    {body}
    stablehlo.return %s : tensor<{kind}> }}) : (tensor<2x3x{kind}>, tensor<{kind}>) -> tensor<2x{kind}>"""


def _batch_norm_grad(kind: str) -> str:
  wide, narrow = f"tensor<64x2x{kind}>", f"tensor<2x{kind}>"
  return f"""%q:3 = "stablehlo.batch_norm_grad"(%a, %b, %b, %b, %a) <{{
      epsilon = 1.0e-03 : f32, feature_index = 1 : i64}}>
      : ({wide}, {narrow}, {narrow}, {narrow}, {wide}) -> ({wide}, {narrow}, {narrow})
    %r = stablehlo.negate %q#0 : {wide}"""


_CASES = (
  _Case(
    "broadcast permutes a square",
    "%r = stablehlo.broadcast_in_dim %a, dims = [1, 0] : (tensor<2x2xi32>) -> tensor<2x2xi32>",
    (_I32,),
    "tensor<2x2xi32>",
  ),
  _Case(
    "broadcast permutes a known square",
    """%k = stablehlo.constant dense<[[1, 2], [3, 4]]> : tensor<2x2xi32>
    %q = stablehlo.broadcast_in_dim %k, dims = [1, 0] : (tensor<2x2xi32>) -> tensor<2x2xi32>
    %r = stablehlo.add %a, %q : tensor<2x2xi32>""",
    (_I32,),
    "tensor<2x2xi32>",
  ),
  _Case(
    "broadcast permutes and widens",
    "%r = stablehlo.broadcast_in_dim %a, dims = [2, 0] : (tensor<2x3xf32>) -> tensor<3x4x2xf32>",
    (_F32,),
    "tensor<3x4x2xf32>",
  ),
  _Case(
    "conjugate of reals",
    "%r = chlo.conj %a : tensor<2x3xf32> -> tensor<2x3xf32>",
    (_F32,),
    "tensor<2x3xf32>",
  ),
  _Case(
    "constant like complex numbers",
    """%r = "chlo.constant_like"(%a) {value = #complex.number<:f32 1.5, 0x7F800000> : complex<f32>}
      : (tensor<2xcomplex<f32>>) -> tensor<2xcomplex<f32>>""",
    (np.ones(2, np.complex64),),
    "tensor<2xcomplex<f32>>",
  ),
  _Case(
    "logistic in 8 bits",
    "%r = stablehlo.logistic %a : tensor<4xf8E4M3FN>",
    (np.array([-100, -1, 0, 3], np.float32).astype(jnp.float8_e4m3fn),),
    "tensor<4xf8E4M3FN>",
  ),
  _Case(
    "permutation that sends nothing",
    """%r = "stablehlo.collective_permute"(%a) <{source_target_pairs = dense<> : tensor<0x2xi64>}>
      : (tensor<2x3xf32>) -> tensor<2x3xf32>""",
    (_F32,),
    "tensor<2x3xf32>",
  ),
  _Case(
    "sum over all of one device",
    """%r = "stablehlo.all_reduce"(%a) <{replica_groups = dense<> : tensor<0x0xi64>}> ({
    ^bb0(%x: tensor<f32>, %y: tensor<f32>):
      %s = stablehlo.add %x, %y : tensor<f32>
      stablehlo.return %s : tensor<f32> }) : (tensor<2x3xf32>) -> tensor<2x3xf32>""",
    (_F32,),
    "tensor<2x3xf32>",
  ),
  _Case(
    "broadcasting add of booleans",
    "%r = chlo.broadcast_add %a, %b : (tensor<2x3xi1>, tensor<3xi1>) -> tensor<2x3xi1>",
    (_F32 > 0, np.array([True, False, True])),
    "tensor<2x3xi1>",
  ),
  _Case(
    "broadcasting power of integers",
    "%r = chlo.broadcast_power %a, %b : (tensor<4xi32>, tensor<i32>) -> tensor<4xi32>",
    (np.array([-1, 1, 2, 7], np.int32), np.int32(3)),
    "tensor<4xi32>",
  ),
  _Case(
    "broadcasting comparison",
    """%r = chlo.broadcast_compare %a, %b {comparison_direction = #chlo<comparison_direction LT>,
      compare_type = #chlo<comparison_type TOTALORDER>} : (tensor<2x1xf32>, tensor<2xf32>) -> tensor<2x2xi1>""",
    (np.array([[0.0], [-0.0]], np.float32), np.array([0.0, -0.0], np.float32)),
    "tensor<2x2xi1>",
  ),
  _Case(
    "magnitude of 4-bit integers",
    "%r = stablehlo.abs %a : tensor<3xi4>",
    (np.array([-8, -3, 7]).astype(jnp.int4),),
    "tensor<3xi4>",
  ),
  _Case(
    "power of 4-bit integers",
    "%r = stablehlo.power %a, %b : tensor<3xi4>",
    (np.array([-2, 3, -1]).astype(jnp.int4), np.array([3, 1, 3]).astype(jnp.int4)),
    "tensor<3xi4>",
  ),
  _Case(
    "reducer of its own, initial value an argument",
    _reduce(
      "%p = stablehlo.multiply %x, %y : tensor<f32>\n%t = stablehlo.add %x, %y : tensor<f32>\n"
      "%s = stablehlo.add %p, %t : tensor<f32>"
    ),
    (_F32, np.float32(0)),
    "tensor<2xf32>",
  ),
  _Case(
    "reducer that keeps the last",
    _reduce("%s = stablehlo.minimum %y, %y : tensor<f32>"),
    (_F32, np.float32(0)),
    "tensor<2xf32>",
  ),
  _Case(
    "xor of 4-bit integers",
    _reduce("%s = stablehlo.xor %x, %y : tensor<i4>", "i4"),
    (np.arange(6).reshape(2, 3).astype(jnp.int4), np.zeros((), jnp.int4)),
    "tensor<2xi4>",
  ),
)


def _agree(got: Any, want: Any) -> None:
  for one, other in zip(got, want, strict=True):
    assert one.dtype == other.dtype
    exact = jnp.issubdtype(one.dtype, jnp.integer) or one.dtype == np.bool_
    wide = one.dtype if exact or np.dtype(one.dtype).kind in "fc" else np.float32
    np.testing.assert_allclose(
      np.asarray(one).astype(wide), np.asarray(other).astype(wide), rtol=0 if exact else 1e-6, atol=0
    )


@pytest.mark.parametrize("case", _CASES, ids=lambda case: case.name)
def test_lifted_module_is_what_xla_computes(case):
  module = case.module()
  function, oracle = lift(module), embed(module)
  _agree(function(*case.arguments), oracle(*case.arguments))
  twice = [np.stack([x, x[::-1] if x.ndim else x]) for x in case.arguments]
  _agree(jax.vmap(function)(*twice), jax.vmap(oracle)(*twice))


@pytest.mark.parametrize("case", _CASES, ids=lambda case: case.name)
def test_an_artifact_computes_what_its_text_computes(case):
  try:
    data = mlir.serialize(case.text())
  except VersionError:
    pytest.skip("the module cannot be written as an artifact")
  _agree(lift(Module.from_bytes(data))(*case.arguments), lift(case.module())(*case.arguments))


def test_broadcasting_op_follows_its_dimensions():
  # XLA refuses dimensions that are not the last ones, so the numbers are NumPy's.
  body = "%r = chlo.broadcast_subtract %b, %a {broadcast_dimensions = array<i64: 0>} : (tensor<2xi32>, tensor<2x2xi32>)"
  case = _Case("", f"{body} -> tensor<2x2xi32>", (_I32, np.array([10, 20], np.int32)), "tensor<2x2xi32>")
  np.testing.assert_array_equal(lift(case.module())(*case.arguments)[0], np.array([[10], [20]]) - _I32)


@pytest.mark.parametrize("kind, dtype", [("i8", np.int8), ("ui8", np.uint8)])
def test_index_of_8_bits_reaches_where_it_says(kind, dtype):
  # XLA clamps in the type of the index, and so misses where the array is longer than that counts.
  body = f"%r = stablehlo.dynamic_update_slice %a, %b, %c : (tensor<600xf32>, tensor<2xf32>, tensor<{kind}>)"
  case = _Case(
    "",
    f"{body} -> tensor<600xf32>",
    (np.zeros(600, np.float32), np.ones(2, np.float32), dtype(100)),
    "tensor<600xf32>",
  )
  x, update, _ = case.arguments
  indices = np.array([100, 0, np.iinfo(dtype).max], dtype)
  function = lift(case.module())
  batched = jax.vmap(function, (None, None, 0))(x, update, indices)[0]
  for index, one in zip(indices, batched, strict=True):
    np.testing.assert_array_equal(np.flatnonzero(one), [int(index), int(index) + 1])
    np.testing.assert_array_equal(function(x, update, index)[0], one)


def test_permuted_broadcast_differentiates():
  function = lift(_CASES[2].module())
  weights = np.arange(24, dtype=np.float32).reshape(3, 4, 2)
  gradient = jax.grad(lambda x: (function(x)[0] * weights).sum())(_F32)
  np.testing.assert_array_equal(gradient, weights.sum(1).T)


def test_batch_norm_in_16_bits_sums_in_32():
  x = np.linspace(-3, 4, 128, dtype=np.float32).reshape(64, 2).astype(jnp.bfloat16)
  v = np.array([0.5, 1.5], jnp.bfloat16)
  exact = np.asarray(_batch_norm_gradient("f32", x.astype(np.float32), v.astype(np.float32)))
  got = np.asarray(_batch_norm_gradient("bf16", x, v)).astype(np.float32)
  np.testing.assert_allclose(got, exact, rtol=5e-3)


def _batch_norm_gradient(kind: str, x: np.ndarray, v: np.ndarray) -> jax.Array:
  return lift(_Case("", _batch_norm_grad(kind), (x, v), f"tensor<64x2x{kind}>").module())(x, v)[0]
