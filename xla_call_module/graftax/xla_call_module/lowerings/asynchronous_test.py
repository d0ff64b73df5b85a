import numpy as np

from graftax.xla_call_module import Module, embed, lift

_X = np.arange(4, dtype=np.float32)
_STARTED = """module { func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "stablehlo.async_start"(%x) ({
  ^bb0(%y: tensor<4xf32>):
    %1 = "stablehlo.all_gather"(%y) <{all_gather_dim = 0 : i64, replica_groups = dense<0> : tensor<1x1xi64>}>
      : (tensor<4xf32>) -> tensor<4xf32>
    "stablehlo.return"(%1) : (tensor<4xf32>) -> ()
  }) : (tensor<4xf32>) -> !stablehlo.future<tensor<4xf32>>
  %2 = "stablehlo.async_done"(%0) : (!stablehlo.future<tensor<4xf32>>) -> tensor<4xf32>
  %3 = stablehlo.add %2, %x : tensor<4xf32>
  return %3 : tensor<4xf32> } }"""


def test_what_is_waited_for_is_there():
  module = Module.from_text(_STARTED)
  np.testing.assert_array_equal(lift(module)(_X)[0], embed(module)(_X)[0])
  np.testing.assert_array_equal(lift(module)(_X)[0], _X * 2)
