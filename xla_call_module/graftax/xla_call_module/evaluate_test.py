import jax
import numpy as np
import pytest

from graftax.xla_call_module import Limits, Module, UnsupportedModuleError, lift


def _chain(depth: int, argument: str) -> str:
  """`main` calls f0; each function calls the next one twice, and the last one adds."""
  functions = [
    f"""func.func private @f{i}(%x: tensor<f32>) -> tensor<f32> {{
      %a = call @f{i + 1}(%x) : (tensor<f32>) -> tensor<f32>
      %b = call @f{i + 1}(%a) : (tensor<f32>) -> tensor<f32>
      return %b : tensor<f32> }}"""
    for i in range(depth)
  ]
  return "\n".join(
    [
      "module {",
      f"""func.func public @main(%x: tensor<f32>) -> tensor<f32> {{
      %one = stablehlo.constant dense<1.0> : tensor<f32>
      %r = call @f0({argument}) : (tensor<f32>) -> tensor<f32>
      return %r : tensor<f32> }}""",
      *functions,
      f"""func.func private @f{depth}(%x: tensor<f32>) -> tensor<f32> {{
      %y = stablehlo.add %x, %x : tensor<f32>
      return %y : tensor<f32> }} }}""",
    ]
  )


@pytest.mark.parametrize("argument", ["%x", "%one"])
def test_calls_of_calls_are_not_written_out(argument):
  x = np.float32(1)
  assert float(lift(Module.from_text(_chain(4, argument)))(x)[0]) == 2.0**16
  # Written out, these would be 2**40 ops.
  lifted = lift(Module.from_text(_chain(40, argument)), limits=Limits(steps=1 << 50))
  (out,) = jax.make_jaxpr(lifted)(x).out_avals
  assert out.shape == ()


def test_function_that_calls_itself_is_a_typed_error():
  text = """module { func.func public @main(%x: tensor<f32>) -> tensor<f32> {
    %y = call @f(%x) : (tensor<f32>) -> tensor<f32>
    return %y : tensor<f32> }
  func.func private @f(%x: tensor<f32>) -> tensor<f32> {
    %y = call @f(%x) : (tensor<f32>) -> tensor<f32>
    return %y : tensor<f32> } }"""
  with pytest.raises(UnsupportedModuleError, match="function 'f' calls itself"):
    lift(Module.from_text(text))(np.float32(1))
