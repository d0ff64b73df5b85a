import jax
import numpy as np
import pytest

from graftax.xla_call_module import Module, lift, register_composite, registry

_X = np.linspace(-0.9, 0.9, 4, dtype=np.float32)


def _composite(name: str) -> Module:
  return Module.from_text(f"""module {{ func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {{
    %r = stablehlo.composite "{name}" %x {{composite_attributes = {{factor = 3 : i64}}, decomposition = @plain}}
      : (tensor<4xf32>) -> tensor<4xf32>
    return %r : tensor<4xf32> }}
  func.func private @plain(%x: tensor<4xf32>) -> tensor<4xf32> {{
    %r = stablehlo.negate %x : tensor<4xf32>
    return %r : tensor<4xf32> }} }}""")


def test_composite_of_an_unknown_name_is_its_decomposition():
  np.testing.assert_array_equal(lift(_composite("somebodys.op"))(_X)[0], -_X)


def test_composite_that_names_a_chlo_op_is_that_op():
  lifted = lift(_composite("chlo.erf_inv"))
  np.testing.assert_array_equal(lifted(_X)[0], jax.lax.erf_inv(_X))
  assert "erf_inv" in str(jax.make_jaxpr(lifted)(_X))


def test_registered_composite_sees_the_attributes_of_the_composite():
  register_composite("my.scaled")(lambda context, op, x: x * op.attrs["factor"])
  try:
    np.testing.assert_array_equal(lift(_composite("my.scaled"))(_X)[0], 3 * _X)
    with pytest.raises(ValueError, match=r"'my.scaled' is registered already; pass override=True"):
      register_composite("my.scaled")(lambda context, op, x: x)
  finally:
    del registry.composites["my.scaled"]
