import numpy as np

from graftax.xla_call_module import Module, lift

_X = np.arange(5, dtype=np.float32)


def test_dynamic_slice_clamps_negative_starts():
  text = """module { func.func public @main(%x: tensor<5xf32>, %i: tensor<i32>) -> tensor<2xf32> {
    %r = stablehlo.dynamic_slice %x, %i, sizes = [2] : (tensor<5xf32>, tensor<i32>) -> tensor<2xf32>
    return %r : tensor<2xf32> } }"""
  function = lift(Module.from_text(text))
  np.testing.assert_array_equal(function(_X, np.int32(-1))[0], [0, 1])
  np.testing.assert_array_equal(function(_X, np.int32(9))[0], [3, 4])
