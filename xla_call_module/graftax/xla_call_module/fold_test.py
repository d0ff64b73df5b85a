import numpy as np
import pytest

from graftax.xla_call_module import Module, embed, fold, lift

_UNARY = ("negate", "abs", "sign", "not")
_BINARY = ("add", "subtract", "multiply", "divide", "remainder", "maximum", "minimum", "and", "or", "xor")
_SHIFTS = ("shift_left", "shift_right_arithmetic", "shift_right_logical")
_DIRECTIONS = ("EQ", "NE", "LT", "LE", "GT", "GE")


def _ops(kind: str, num: int) -> list[tuple[str, str]]:
  """(op, result type) for each op on integer arrays that has a rule; operands are %x, %y, and %s within the width."""
  array, mask = f"tensor<{num}x{kind}>", f"tensor<{num}xi1>"
  signed_only = ("abs", "sign") if kind.startswith("u") else ()
  ops = [(f"stablehlo.{name} %x : {array}", array) for name in _UNARY if name not in signed_only]
  ops += [(f"stablehlo.{name} %x, %y : {array}", array) for name in _BINARY]
  ops += [(f"stablehlo.{name} %x, %s : {array}", array) for name in _SHIFTS]
  ops += [(f"stablehlo.compare {way}, %x, %y : ({array}, {array}) -> {mask}", mask) for way in _DIRECTIONS]
  ops += [(f"stablehlo.clamp %s, %x, %y : {array}", array)]
  ops += [
    (f"stablehlo.convert %x : ({array}) -> tensor<{num}x{to}>", f"tensor<{num}x{to}>") for to in ("i32", "ui8", "i1")
  ]
  return ops


def _module(ops: list[tuple[str, str]], parameters: str) -> Module:
  lines = [f"%r{i} = {op}" for i, (op, _) in enumerate(ops)]
  results, kinds = ", ".join(f"%r{i}" for i in range(len(ops))), ", ".join(kind for _, kind in ops)
  body = "\n    ".join(lines)
  return Module.from_text(f"""module {{ func.func public @main({parameters}) -> ({kinds}) {{
    {body}
    return {results} : {kinds} }} }}""")


def _assert_rules_agree_with_xla(module: Module, values: dict[str, np.ndarray]) -> None:
  main = module.ir.main.body
  known = dict(zip(main.args, values.values(), strict=True))
  for op, want in zip(main.ops, embed(module)(*values.values()), strict=True):
    got = fold.evaluate(op, [known[number] for number in op.operands])
    assert got is not None, op.name
    np.testing.assert_array_equal(got, want, err_msg=f"{op.name} {dict(op.attrs)}", strict=True)


@pytest.mark.parametrize("kind, dtype", [("i8", np.int8), ("ui8", np.uint8)])
def test_every_pair_of_bytes_gives_what_xla_gives(kind, dtype):
  each = np.arange(256).astype(dtype)
  x, y = (part.ravel() for part in np.meshgrid(each, each[each != 0]))
  values = {"x": x, "y": y, "s": y & 7}
  parameters = ", ".join(f"%{name}: tensor<{x.size}x{kind}>" for name in values)
  _assert_rules_agree_with_xla(_module(_ops(kind, x.size), parameters), values)


def test_ops_that_move_elements_give_what_xla_gives():
  kind = "tensor<2x3xi32>"
  ops = [
    (f"stablehlo.broadcast_in_dim %x, dims = [0, 2] : ({kind}) -> tensor<2x4x3xi32>", "tensor<2x4x3xi32>"),
    (f"stablehlo.broadcast_in_dim %x, dims = [2, 0] : ({kind}) -> tensor<3x4x2xi32>", "tensor<3x4x2xi32>"),
    (f"stablehlo.reshape %x : ({kind}) -> tensor<3x2xi32>", "tensor<3x2xi32>"),
    (f"stablehlo.slice %x [0:2, 0:3:2] : ({kind}) -> tensor<2x2xi32>", "tensor<2x2xi32>"),
    (f"stablehlo.transpose %x, dims = [1, 0] : ({kind}) -> tensor<3x2xi32>", "tensor<3x2xi32>"),
    (f"stablehlo.reverse %x, dims = [1] : {kind}", kind),
    (f"stablehlo.concatenate %x, %y, dim = 1 : ({kind}, {kind}) -> tensor<2x6xi32>", "tensor<2x6xi32>"),
    (f"stablehlo.select %p, %x, %y : tensor<2x3xi1>, {kind}", kind),
  ]
  x = np.arange(6, dtype=np.int32).reshape(2, 3)
  values = {"x": x, "y": x - 9, "p": x % 2 == 0}
  parameters = f"%x: {kind}, %y: {kind}, %p: tensor<2x3xi1>"
  _assert_rules_agree_with_xla(_module(ops, parameters), values)


def test_broadcast_of_a_constant_may_permute_its_axes():
  module = Module.from_text("""module { func.func public @main() -> tensor<3x2xi32> {
    %c = stablehlo.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi32>
    %r = stablehlo.broadcast_in_dim %c, dims = [1, 0] : (tensor<2x3xi32>) -> tensor<3x2xi32>
    return %r : tensor<3x2xi32> } }""")
  np.testing.assert_array_equal(lift(module)()[0], [[1, 4], [2, 5], [3, 6]])


@pytest.mark.parametrize("op", ["divide", "remainder"])
def test_division_by_zero_is_left_to_xla(op):
  module = _module(
    [(f"stablehlo.{op} %x, %y : tensor<2xi32>", "tensor<2xi32>")], "%x: tensor<2xi32>, %y: tensor<2xi32>"
  )
  assert fold.evaluate(module.ir.main.body.ops[0], [np.array([1, 2], np.int32), np.array([1, 0], np.int32)]) is None
