import numpy as np
import pytest

from graftax.xla_call_module import LiftError, Module, lift

_OPS = {
  "outfeed": "(%x, %t) : (tensor<4xf32>, !stablehlo.token) -> !stablehlo.token",
  "infeed": "(%t) : (!stablehlo.token) -> (!stablehlo.token)",
}


@pytest.mark.parametrize("name", list(_OPS))
def test_op_raises_with_its_name_its_place_and_the_reason(name):
  module = Module.from_text(f"""module {{ func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {{
    %t = stablehlo.create_token : !stablehlo.token
    %r = "stablehlo.{name}"{_OPS[name]} loc("model.py":7:3)
    return %x : tensor<4xf32> }} }}""")
  message = f"stablehlo.{name} at model.py:7:3 does not lift: it exchanges data with the process that exported it"
  with pytest.raises(LiftError, match=message) as caught:
    lift(module)(np.zeros(4, np.float32))
  assert (caught.value.op, caught.value.location) == (f"stablehlo.{name}", "model.py:7:3")
