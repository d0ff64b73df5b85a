import numpy as np
import pytest

from graftax.xla_call_module import Module, embed, lift

_X = np.arange(5, dtype=np.float32)


def test_dynamic_slice_clamps_negative_starts():
  text = """module { func.func public @main(%x: tensor<5xf32>, %i: tensor<i32>) -> tensor<2xf32> {
    %r = stablehlo.dynamic_slice %x, %i, sizes = [2] : (tensor<5xf32>, tensor<i32>) -> tensor<2xf32>
    return %r : tensor<2xf32> } }"""
  function = lift(Module.from_text(text))
  np.testing.assert_array_equal(function(_X, np.int32(-1))[0], [0, 1])
  np.testing.assert_array_equal(function(_X, np.int32(9))[0], [3, 4])


@pytest.mark.parametrize("dims", ["[0, 1]", "[1, 0]", "[2, 0]"])
@pytest.mark.parametrize("op", ["broadcast_in_dim", "dynamic_broadcast_in_dim"])
def test_broadcast_may_permute_the_axes_also_of_a_square(op, dims):
  shape = "3x3" if "2" not in dims else "3x2x3"
  operands, kinds = "%x", "tensor<3x3xf32>"
  if op.startswith("dynamic"):
    operands, kinds = "%x, %shape", f"tensor<3x3xf32>, tensor<{len(shape.split('x'))}xi32>"
  module = Module.from_text(f"""module {{ func.func public @main(%x: tensor<3x3xf32>) -> tensor<{shape}xf32> {{
    %shape = stablehlo.constant dense<[{shape.replace("x", ", ")}]> : tensor<{len(shape.split("x"))}xi32>
    %r = stablehlo.{op} {operands}, dims = {dims} : ({kinds}) -> tensor<{shape}xf32>
    return %r : tensor<{shape}xf32> }} }}""")
  x = np.arange(9, dtype=np.float32).reshape(3, 3)
  np.testing.assert_array_equal(lift(module)(x)[0], embed(module)(x)[0])
