import jax
import numpy as np
import pytest
from jax import lax

from graftax.xla_call_module import Module, lift


@pytest.mark.parametrize("platform", ["cpu", "cuda", "tpu"])
def test_approximate_top_k(platform):
  x = np.sin(np.arange(200, dtype=np.float32)).reshape(2, 100)

  def function(x):
    return lax.approx_max_k(x, 3)

  exported = jax.export.export(jax.jit(function), platforms=[platform])(jax.ShapeDtypeStruct(x.shape, x.dtype))
  for got, want in zip(
    lift(Module.from_exported(exported), check_platform=False, gradient="primal")(x), function(x), strict=True
  ):
    np.testing.assert_array_equal(got, want)
