import numpy as np
import pytest

from graftax.xla_call_module import Module, analysis, ir, lift
from graftax.xla_call_module.context import Context, Options

_VALUES = {
  "iota": ("3x3", "stablehlo.iota dim = 0 : tensor<3x3xi32>"),
  "other axis": ("3x3", "stablehlo.iota dim = 1 : tensor<3x3xi32>"),
  "broadcast of a row": ("3", "stablehlo.broadcast_in_dim %i, dims = [1] : (tensor<3xi32>) -> tensor<3x3xi32>"),
  "transposed": ("3x3", "stablehlo.broadcast_in_dim %i, dims = [1, 0] : (tensor<3x3xi32>) -> tensor<3x3xi32>"),
  "one entry repeated": ("1x3", "stablehlo.broadcast_in_dim %i, dims = [0, 1] : (tensor<1x3xi32>) -> tensor<3x3xi32>"),
  "offset": ("3x3", "stablehlo.add %i, %c : tensor<3x3xi32>"),
  "offset first": ("3x3", "stablehlo.add %c, %i : tensor<3x3xi32>"),
  "twice": ("3x3", "stablehlo.add %i, %i : tensor<3x3xi32>"),
}


@pytest.mark.parametrize("name", list(_VALUES))
def test_what_is_said_to_count_along_an_axis_does(name):
  inner, value = _VALUES[name]
  module = Module.from_text(f"""module {{ func.func public @main() -> tensor<3x3xi32> {{
    %i = stablehlo.iota dim = 0 : tensor<{inner}xi32>
    %c = stablehlo.constant dense<-2> : tensor<3x3xi32>
    %r = {value}
    return %r : tensor<3x3xi32> }} }}""")
  context = Context(module.ir, Options())
  found = analysis.iota_offset(context, module.ir.main.body.returns[0])
  (evaluated,) = lift(module)()
  if found is None:
    assert name in ("one entry repeated", "twice")
  else:
    axis, offset = found
    np.testing.assert_array_equal(evaluated, np.indices((3, 3))[axis] + offset)


_CALLS = Module.from_text("""module {
  func.func public @main(%x: tensor<f32>) -> tensor<f32> {
    %a = call @quiet(%x) : (tensor<f32>) -> tensor<f32>
    %b = call @outer(%a) : (tensor<f32>) -> tensor<f32>
    return %b : tensor<f32> }
  func.func private @quiet(%x: tensor<f32>) -> tensor<f32> {
    return %x : tensor<f32> }
  func.func private @outer(%x: tensor<f32>) -> tensor<f32> {
    %a = call @loud(%x) : (tensor<f32>) -> tensor<f32>
    return %a : tensor<f32> }
  func.func private @loud(%x: tensor<f32>) -> tensor<f32> {
    stablehlo.custom_call @log(%x) {has_side_effect = true} : (tensor<f32>) -> ()
    return %x : tensor<f32> } }""")


def test_effects_and_sizes_are_those_of_all_functions_that_are_called():
  context = Context(_CALLS.ir, Options())
  quiet, outer = _CALLS.ir.main.body.ops
  assert not analysis.has_effect(context, quiet) and analysis.has_effect(context, outer)
  # Two calls, the call in @outer, and the custom call in @loud.
  assert analysis.expanded_size(context, _CALLS.ir.main) == 4


def test_definitions_and_uses_name_every_value_once():
  context = Context(_CALLS.ir, Options())
  ops = [op for function in _CALLS.ir.functions.values() for op in ir.walk(function.body)]
  assert set(analysis.definitions(context)) == {number for op in ops for number in op.results}
  first, second = _CALLS.ir.main.body.ops
  uses = analysis.uses_of_values(context)
  assert uses[first.results[0]] == [(second, 0)] and uses[second.results[0]] == [(None, 0)]


@pytest.mark.parametrize(
  "kind, size, offset", [("i8", 200, "0"), ("i8", 100, "100"), ("ui8", 3, "255"), ("bf16", 3, "0.0")]
)
def test_what_may_wrap_or_round_does_not_count(kind, size, offset):
  array = f"tensor<{size}x{kind}>"
  module_ir = Module.from_text(f"""module {{ func.func public @main() -> {array} {{
    %i = stablehlo.iota dim = 0 : {array}
    %c = stablehlo.constant dense<{offset}> : {array}
    %r = stablehlo.add %i, %c : {array}
    return %r : {array} }} }}""").ir
  assert analysis.iota_offset(Context(module_ir, Options()), module_ir.main.body.returns[0]) is None
