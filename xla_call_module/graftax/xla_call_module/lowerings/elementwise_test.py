import numpy as np
import pytest

from graftax.xla_call_module import Module, embed, lift

_MATRIX = np.arange(6).reshape(2, 3) - 2
_ROW = np.array([3, -1, 2])
_LESS = "{comparison_direction = #chlo<comparison_direction LT>}"


@pytest.mark.parametrize(
  "op, kind, dtype",
  [
    ("add", "f32", np.float32),
    ("add", "i1", np.bool_),
    ("multiply", "i1", np.bool_),
    ("power", "i32", np.int32),
    ("divide", "i32", np.int32),
    ("shift_left", "ui8", np.uint8),
    ("next_after", "f32", np.float32),
    (f"compare {_LESS}", "f32", np.float32),
    (f"compare {_LESS}", "i8", np.int8),
  ],
  ids=lambda value: value.split()[0] if isinstance(value, str) else "",
)
def test_op_that_broadcasts_gives_what_xla_gives(op, kind, dtype):
  name, _, attributes = op.partition(" ")
  made = "i1" if name == "compare" else kind
  module = Module.from_text(f"""module {{
    func.func public @main(%x: tensor<2x3x{kind}>, %y: tensor<3x{kind}>) -> tensor<2x3x{made}> {{
    %r = chlo.broadcast_{name} %x, %y {attributes} : (tensor<2x3x{kind}>, tensor<3x{kind}>) -> tensor<2x3x{made}>
    return %r : tensor<2x3x{made}> }} }}""")
  x, y = _MATRIX.astype(dtype), _ROW.astype(dtype)
  (got,), (want,) = lift(module)(x, y), embed(module)(x, y)
  np.testing.assert_array_equal(got, want, strict=True)
