import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from graftax.xla_call_module import Module, lift

_X = np.linspace(-1, 1, 12).reshape(3, 4).astype(np.float32)


def _lowered(function, *args):
  exported = jax.export.export(jax.jit(function))(*[jax.ShapeDtypeStruct(np.shape(a), a.dtype) for a in args])
  return lift(Module.from_exported(exported), gradient="primal")


@pytest.mark.parametrize(
  "preset", ["F32_F32_F32", "BF16_BF16_F32", "BF16_BF16_F32_X3", "TF32_TF32_F32", "TF32_TF32_F32_X3"]
)
def test_dot_algorithm_survives(preset):
  precision = getattr(lax.DotAlgorithmPreset, preset)

  def function(x):
    return lax.dot_general(x, x.T, (((1,), (0,)), ((), ())), precision=precision)

  exported = jax.export.export(jax.jit(function), platforms=["tpu"])(jax.ShapeDtypeStruct(_X.shape, _X.dtype))
  lifted = lift(Module.from_exported(exported), gradient="primal", check_platform=False)
  again = jax.export.export(jax.jit(lifted), platforms=["tpu"])(jax.ShapeDtypeStruct(_X.shape, _X.dtype))

  def algorithm(e):
    return [
      line.split("algorithm = <")[1].split(">")[0] for line in e.mlir_module().splitlines() if "algorithm = <" in line
    ]

  assert algorithm(exported) and algorithm(again) == algorithm(exported)


def test_precision_survives():
  lifted = _lowered(lambda x: jnp.dot(x, x.T, precision="highest"), _X)
  assert "HIGHEST" in str(jax.make_jaxpr(lifted)(_X))


def test_window_reversal_flips_the_kernel():
  text = """module { func.func public @main(%x: tensor<1x1x5xf32>, %k: tensor<1x1x3xf32>) -> tensor<1x1x3xf32> {
    %r = stablehlo.convolution(%x, %k) dim_numbers = [b, f, 0]x[o, i, 0]->[b, f, 0],
      window = {stride = [1], pad = [[0, 0]], lhs_dilate = [1], rhs_dilate = [1], reverse = [true]}
      {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
      : (tensor<1x1x5xf32>, tensor<1x1x3xf32>) -> tensor<1x1x3xf32>
    return %r : tensor<1x1x3xf32> } }"""
  x, k = np.arange(5, dtype=np.float32).reshape(1, 1, 5), np.array([1, 2, 4], np.float32).reshape(1, 1, 3)
  got = lift(Module.from_text(text))(x, k)[0]
  np.testing.assert_array_equal(got.ravel(), np.convolve(x.ravel(), k.ravel(), "valid"))
