import jax
import numpy as np
import pytest
from jax import lax

from graftax.xla_call_module import Module, UnsupportedOpError, lift


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


def test_approximate_top_k_by_a_comparator_of_its_own_is_refused():
  exported = jax.export.export(jax.jit(lambda x: lax.approx_max_k(x, 3)), platforms=["tpu"])
  text = exported(jax.ShapeDtypeStruct((100,), np.float32)).mlir_module()
  swapped = text.replace("compare GT, %arg0, %arg1", "compare GT, %arg1, %arg0")
  assert swapped != text
  with pytest.raises(UnsupportedOpError, match="neither greater-than nor less-than"):
    lift(Module.from_text(swapped))(np.zeros(100, np.float32))
