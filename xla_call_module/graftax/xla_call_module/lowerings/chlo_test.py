import jax
import numpy as np
import pytest
from jax import lax

from graftax.xla_call_module import DecodeError, Module, lift


@pytest.mark.parametrize("op", ["chlo.mulhi %x, %x : tensor<3xi32>, tensor<3xi32> ->", "mhlo.mulhi %x, %x :"])
def test_mulhi_as_an_op(op):
  text = f"""module {{ func.func public @main(%x: tensor<3xi32>) -> tensor<3xi32> {{
    %r = {op} tensor<3xi32>
    return %r : tensor<3xi32> }} }}"""
  x = np.array([1 << 20, -(1 << 30), 7], np.int32)
  try:
    module = Module.from_text(text)
  except DecodeError:
    pytest.skip("this jaxlib has no mulhi")
  np.testing.assert_array_equal(lift(module)(x)[0], (x.astype(np.int64) ** 2) >> 32)


def test_ragged_dot():
  x, y, sizes = (
    np.arange(24, dtype=np.float32).reshape(6, 4),
    np.arange(40, dtype=np.float32).reshape(2, 4, 5),
    np.array([2, 4], np.int32),
  )
  specs = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in (x, y, sizes)]
  exported = jax.export.export(jax.jit(lax.ragged_dot), platforms=["tpu"])(*specs)  # for CPU it exports expanded
  lifted = lift(Module.from_exported(exported), check_platform=False, gradient="primal")
  assert "ragged_dot" in str(jax.make_jaxpr(lifted)(x, y, sizes))
  np.testing.assert_allclose(lifted(x, y, sizes)[0], np.concatenate([x[:2] @ y[0], x[2:] @ y[1]]), rtol=1e-5)


def test_scan_op_of_chlo():
  text = """module { func.func public @main(%x: tensor<4xf32>, %i: tensor<f32>) -> (tensor<4xf32>, tensor<f32>) {
    %0:2 = "chlo.scan"(%x, %i) <{dimension = 0 : i64, is_reverse = true, operandSegmentSizes = array<i32: 1, 1>,
        resultSegmentSizes = array<i32: 1, 1>}> ({
    ^bb0(%a: tensor<f32>, %c: tensor<f32>):
      %s = stablehlo.add %a, %c : tensor<f32>
      stablehlo.return %s, %s : tensor<f32>, tensor<f32>
    }) : (tensor<4xf32>, tensor<f32>) -> (tensor<4xf32>, tensor<f32>)
    return %0#0, %0#1 : tensor<4xf32>, tensor<f32> } }"""
  try:
    function = lift(Module.from_text(text))
  except ValueError:
    pytest.skip("this jaxlib has no chlo.scan")
  outputs, carry = function(np.arange(4, dtype=np.float32), np.float32(1))
  np.testing.assert_array_equal(outputs, [7, 7, 6, 4])
  assert float(carry) == 7
