import jax
import numpy as np
import pytest

from graftax.xla_call_module import LiftError, Module, lift

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


@pytest.mark.parametrize(("kind", "shape"), [("?x3", "[4, 5]"), ("?x3", "[4]"), ("?", "[4, 3]")])
def test_shapes_that_contradict_the_type_of_a_result_raise(kind, shape):
  size = shape.count(",") + 1
  text = f"""module {{ func.func public @main(%a: tensor<4xf32>) -> tensor<{kind}xf32> {{
    %s = stablehlo.constant dense<{shape}> : tensor<{size}xi32>
    %0 = stablehlo.custom_call @mine(%a, %s) {{indices_of_shape_operands = dense<1> : tensor<1xi64>}} :
        (tensor<4xf32>, tensor<{size}xi32>) -> tensor<{kind}xf32>
    return %0 : tensor<{kind}xf32> }} }}"""
  with pytest.raises(LiftError, match="its operand for the shape of"):
    lift(Module.from_text(text), allow_custom_calls=["mine"])(_X)
