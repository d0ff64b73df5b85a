import numpy as np
import pytest

from graftax.xla_call_module import Module, ir, lift
from graftax.xla_call_module.context import Context, Options
from graftax.xla_call_module.patterns.triangles import keeps_lower_triangle, keeps_upper_triangle

_SELECT = """module {{ func.func public @main(%x: tensor<3x3xf32>) -> tensor<3x3xf32> {{
  %zero = stablehlo.constant dense<0.0> : tensor<3x3xf32>
  %rows = stablehlo.iota dim = 0 : tensor<3x3xi32>
  %columns = stablehlo.iota dim = 1 : tensor<3x3xi32>
  %m = stablehlo.compare {direction}, %rows, %columns : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi1>
  %mask = stablehlo.broadcast_in_dim %m, dims = {dims} : (tensor<3x3xi1>) -> tensor<3x3xi1>
  %r = stablehlo.select %mask, %x, %zero : tensor<3x3xi1>, tensor<3x3xf32>
  return %r : tensor<3x3xf32> }} }}"""


@pytest.mark.parametrize("direction", ["GE", "GT", "LE", "LT", "NE"])
@pytest.mark.parametrize("dims", ["[0, 1]", "[1, 0]"])
def test_only_a_mask_that_keeps_the_triangle_is_taken_for_one(direction, dims):
  module = Module.from_text(_SELECT.format(direction=direction, dims=dims))
  ones = np.ones((3, 3), np.float32)
  kept = np.asarray(lift(module)(ones)[0])
  (select,) = (op for op in ir.walk(module.ir.main.body) if op.name == "stablehlo.select")
  context = Context(module.ir, Options())
  # Whatever is recognized must be true; a mask that permutes the axes need not be recognized.
  assert not keeps_lower_triangle(context, select) or np.array_equal(kept, np.tril(ones))
  assert not keeps_upper_triangle(context, select, 1) or np.array_equal(kept, np.triu(ones))
  if dims == "[0, 1]":
    assert keeps_lower_triangle(context, select) == (direction == "GE")
    assert keeps_upper_triangle(context, select, 1) == (direction == "LE")
