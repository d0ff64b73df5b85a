import jax
import numpy as np
import pytest

from graftax.xla_call_module import Module, embed, lift

_X = np.sin(np.arange(24, dtype=np.float32)).reshape(2, 3, 4)
_VECTORS = [np.linspace(0.5, 2, 3, dtype=np.float32) + shift for shift in range(4)]
_PER_FEATURE = "tensor<3xf32>"
_SETTINGS = "<{epsilon = 0.001 : f32, feature_index = 1 : i64}>"


def _module(op: str, arguments: list[str], results: list[str]) -> Module:
  names = [f"%{letter}" for letter in "abcde"[: len(arguments)]]
  parameters = ", ".join(f"{name}: {kind}" for name, kind in zip(names, arguments, strict=True))
  made = ", ".join(results)
  returned = ", ".join(f"%r#{i}" for i in range(len(results))) if len(results) > 1 else "%r"
  return Module.from_text(f"""module {{ func.func public @main({parameters}) -> ({made}) {{
    %r{f":{len(results)}" if len(results) > 1 else ""} = "stablehlo.{op}"({", ".join(names)}) {_SETTINGS}
      : ({", ".join(arguments)}) -> ({made})
    return {returned} : {made} }} }}""")


_ARRAY = "tensor<2x3x4xf32>"
_CASES = {
  "batch_norm_inference": ([_ARRAY, *[_PER_FEATURE] * 4], [_ARRAY], (_X, *_VECTORS)),
  "batch_norm_training": ([_ARRAY, *[_PER_FEATURE] * 2], [_ARRAY, *[_PER_FEATURE] * 2], (_X, *_VECTORS[:2])),
  "batch_norm_grad": (
    [_ARRAY, *[_PER_FEATURE] * 3, _ARRAY],
    [_ARRAY, *[_PER_FEATURE] * 2],
    (_X, *_VECTORS[:3], np.cos(_X)),
  ),
}


@pytest.mark.parametrize("op", list(_CASES))
def test_lifted_op_computes_what_xla_computes(op):
  arguments, results, values = _CASES[op]
  module = _module(op, arguments, results)
  for got, want in zip(lift(module)(*values), embed(module)(*values), strict=True):
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_derivative_of_training_is_the_grad_op():
  arguments, results, (x, scale, offset) = _CASES["batch_norm_training"]
  training = lift(_module("batch_norm_training", arguments, results))
  (_, mean, variance), ct = training(x, scale, offset), np.cos(_X)
  got = jax.vjp(lambda x, scale, offset: training(x, scale, offset)[0], x, scale, offset)[1](ct)
  arguments, results, _ = _CASES["batch_norm_grad"]
  want = embed(_module("batch_norm_grad", arguments, results))(x, scale, mean, variance, ct)
  for a, b in zip(got, want, strict=True):
    np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
