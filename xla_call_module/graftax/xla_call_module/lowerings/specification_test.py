"""Small modules at the edges of the specification; the oracle is XLA, which runs each module as it is (`embed`)."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from graftax.xla_call_module import Module, attributes, embed, lift


@dataclasses.dataclass(frozen=True, slots=True)
class _Case:
  """`body` computes `%r` of type `result` from `%a`, `%b`, ..., which hold `arguments`."""

  name: str
  body: str
  arguments: tuple[Any, ...]
  result: str

  def module(self) -> Module:
    named = zip("abcde", self.arguments, strict=False)
    parameters = ", ".join(f"%{name}: {attributes.type_spelling(x.shape, x.dtype)}" for name, x in named)
    return Module.from_text(
      f"module {{ func.func public @main({parameters}) -> {self.result} {{\n{self.body}\n"
      f"return %r : {self.result} }} }}",
      guard=False,
    )


_I32 = np.arange(1, 5, dtype=np.int32).reshape(2, 2)
_F32 = np.linspace(-2, 2, 6, dtype=np.float32).reshape(2, 3)

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


def test_permuted_broadcast_differentiates():
  function = lift(_CASES[2].module())
  weights = np.arange(24, dtype=np.float32).reshape(3, 4, 2)
  gradient = jax.grad(lambda x: (function(x)[0] * weights).sum())(_F32)
  np.testing.assert_array_equal(gradient, weights.sum(1).T)
