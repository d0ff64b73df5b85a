import jax
import numpy as np

from graftax.xla_call_module import Module, lift

_X = np.arange(4, dtype=np.float32)


def test_unknown_ffi_custom_call_that_the_caller_names_is_called_again():
  text = """module { func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.custom_call @somebodys_kernel(%a) {
        api_version = 4 : i32, backend_config = {alpha = 2.0 : f32, n = 3 : i64}}
        : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32> } }"""
  lifted = lift(Module.from_text(text), allow_custom_calls=["somebodys_kernel"])
  jaxpr = str(jax.make_jaxpr(lifted)(_X))
  assert "ffi_call" in jaxpr and "somebodys_kernel" in jaxpr and "alpha" in jaxpr
  assert lifted.records[0].kind == "custom call"
