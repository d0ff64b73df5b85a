import jax
import numpy as np

from graftax.xla_call_module import Module, lift

_TALL = np.arange(12, dtype=np.float32).reshape(4, 3) % 5 + np.eye(4, 3, dtype=np.float32)


def test_qr_whose_reflectors_are_read_is_not_taken_for_qr():
  text = """module { func.func public @main(%a: tensor<4x3xf32>) -> (tensor<4x3xf32>, tensor<4x3xf32>) {
    %0:2 = stablehlo.custom_call @Qr(%a) : (tensor<4x3xf32>) -> (tensor<4x3xf32>, tensor<3xf32>)
    %1 = stablehlo.custom_call @ProductOfElementaryHouseholderReflectors(%0#0, %0#1) :
        (tensor<4x3xf32>, tensor<3xf32>) -> tensor<4x3xf32>
    return %0#0, %1 : tensor<4x3xf32>, tensor<4x3xf32> } }"""
  lifted = lift(Module.from_text(text))
  assert "ffi_call" in str(jax.make_jaxpr(lifted)(_TALL))
