import jax
import numpy as np
import pytest
from jax import lax

from graftax.xla_call_module import ir, mlir
from graftax.xla_call_module.patterns import regions


def _region(*ops: str, kind: str = "f32", returned: str = "%s") -> ir.Region:
  """The region of a reduction whose body is the given ops on `%a` and `%b`."""
  body = "\n      ".join(ops)
  module_ir = mlir.decode_text(f"""module {{ func.func public @main(%x: tensor<4x{kind}>, %i: tensor<{kind}>)
      -> tensor<{kind}> {{
    %r = stablehlo.reduce(%x init: %i) across dimensions = [0]
      : (tensor<4x{kind}>, tensor<{kind}>) -> tensor<{kind}>
     reducer(%a: tensor<{kind}>, %b: tensor<{kind}>) {{
      {body}
      stablehlo.return {returned} : tensor<{kind}> }}
    return %r : tensor<{kind}> }} }}""")
  return module_ir.main.body.ops[0].regions[0]


@pytest.mark.parametrize(
  "op, kind, name",
  [
    ("add %a, %b", "f32", "add"),
    ("add %b, %a", "f32", "add"),
    ("maximum %a, %b", "i1", "or"),
    ("multiply %a, %b", "i1", "and"),
    ("add %a, %a", "f32", None),
    ("subtract %a, %b", "f32", None),
  ],
)
def test_reducer_is_named_where_one_op_joins_both_arguments(op, kind, name):
  assert regions.reducer(_region(f"%s = stablehlo.{op} : tensor<{kind}>", kind=kind)) == name


_SQUARE_A, _SQUARE_B = ("%p = stablehlo.multiply %a, %a : tensor<f32>", "%q = stablehlo.multiply %b, %b : tensor<f32>")
_JOINED = "%s = stablehlo.add %p, %q : tensor<f32>"


def test_order_of_independent_ops_and_dead_code_do_not_matter():
  plain = regions.canonical(_region(_SQUARE_A, _SQUARE_B, _JOINED))
  assert plain == regions.canonical(_region(_SQUARE_B, _SQUARE_A, _JOINED))
  assert plain == regions.canonical(_region(_SQUARE_A, "%d = stablehlo.sine %a : tensor<f32>", _SQUARE_B, _JOINED))


def test_other_operands_and_other_constants_matter():
  plain = regions.canonical(_region(_SQUARE_A, _SQUARE_B, _JOINED))
  assert plain != regions.canonical(_region(_SQUARE_A, _SQUARE_B, _JOINED.replace("%p, %q", "%q, %p")))
  scaled = [
    regions.canonical(
      _region(f"%c = stablehlo.constant dense<{c}> : tensor<f32>", "%s = stablehlo.multiply %a, %c : tensor<f32>")
    )
    for c in ("0.0", "-0.0", "2.0")
  ]
  assert len(set(scaled)) == 3


def test_region_of_what_jax_exports_is_the_one_that_its_program_holds():
  function, spec = (lambda x: lax.argmax(x, 0, np.dtype(np.int32))), jax.ShapeDtypeStruct((2,), np.float32)
  found = regions.exported_region(function, "stablehlo.reduce", spec)
  module_ir = mlir.decode_text(jax.jit(function).lower(spec).as_text())
  (reduce,) = (op for f in module_ir.functions.values() for op in ir.walk(f.body) if op.name == "stablehlo.reduce")
  assert found is not None and found == regions.canonical(reduce.regions[0])
  assert regions.exported_region(lax.sin, "stablehlo.reduce", spec) is None
