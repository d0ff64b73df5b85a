"""Ops on symbolic dimensions, exported once and called with several sizes, against TensorFlow with those sizes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from graftax.ops_jax._core.registry import InputParameter, Lowering
from graftax.ops_jax._core.values import materialize
from graftax.testing.raw_ops import NodeContext, raw_op

_I32, _I64 = np.int32, np.int64


def _ints(items, dtype=_I32):
  array = np.array(items, object)
  return array if any(map(jax.export.is_symbolic_dim, array.flat)) else array.astype(dtype)


_CASES = {
  "SelectV2 of a scalar": ("SelectV2", lambda d: [np.array(False), _ints(d), _ints(5)], {}),
  "SelectV2": ("SelectV2", lambda d: [np.array([False, True]), _ints([d, 7]), _ints([5, d])], {}),
  "Select of int64": ("Select", lambda d: [np.array(True), _ints([d, 7], _I64), _ints([5, d], _I64)], {}),
  "ClipByValue": ("ClipByValue", lambda d: [_ints(d), _ints(0), _ints(5)], {}),
  "Mean": ("Mean", lambda d: [_ints([d, 4], _I64), _ints([0])], {}),
  "TopKV2": ("TopKV2", lambda d: [_ints([d, 3]), _ints(1)], {}),
  "ArgMax": ("ArgMax", lambda d: [_ints([d, 3]), _ints(0)], {}),
  "Max along an axis": ("Max", lambda d: [_ints([[d, 2], [1, d]]), _ints([1])], {"keep_dims": True}),
  "Min along an axis": ("Min", lambda d: [_ints([[d, 2], [3, d]], _I64), _ints([0])], {}),
  "Min along two axes": ("Min", lambda d: [_ints([[d, 2], [3, d]]), _ints([0, 1])], {}),
  "Sum": ("Sum", lambda d: [_ints([[d, 2], [3, d]], _I64), _ints([0])], {}),
  "Range upwards": ("Range", lambda d: [_ints(1), _ints(d), _ints(2)], {}),
  "Range downwards": ("Range", lambda d: [_ints(d - 1, _I64), _ints(-1, _I64), _ints(-1, _I64)], {}),
  "Range downwards by two": ("Range", lambda d: [_ints(d), _ints(0), _ints(-2)], {}),
  "Range below 0": ("Range", lambda d: [_ints(0), _ints(-d), _ints(-3)], {}),
  "Range by a symbol": ("Range", lambda d: [_ints(0), _ints(7), _ints(d)], {}),
  "ZerosLike": ("ZerosLike", lambda d: [_ints([d, d], _I64)], {}),
  "OnesLike": ("OnesLike", lambda d: [_ints([d, d])], {}),
  "AddV2": ("AddV2", lambda d: [_ints([d, 3], _I64), _ints([1, 2], _I64)], {}),
  "OneHot": ("OneHot", lambda d: [_ints([d, 3]), _ints(9), np.float32(1), np.float32(0)], {}),
  "GatherV2": ("GatherV2", lambda d: [np.arange(9, dtype=np.float32), _ints([d - 1, 2]), _ints(0)], {}),
  "GatherNd": ("GatherNd", lambda d: [np.arange(9, dtype=np.float32), _ints([[d - 1], [2]])], {}),
  "Sign": ("Sign", lambda d: [_ints([d, -3], _I64)], {}),
  "BitwiseAnd": ("BitwiseAnd", lambda d: [_ints(d, _I64), _ints(5, _I64)], {}),
  "Cumsum": ("Cumsum", lambda d: [_ints([d, 3, d], _I64), _ints(0)], {}),
  "Pack": ("Pack", lambda d: [[_ints(d, _I64), _ints(3, _I64)]], {}),
  "Less": ("Less", lambda d: [_ints([d, 3], _I64), _ints(3, _I64)], {}),
  "Equal": ("Equal", lambda d: [_ints([d, 3]), _ints(3)], {}),
  "Cast": ("Cast", lambda d: [_ints([d, 3], _I64)], {"DstT": np.float32}),
  "SquaredDifference": ("SquaredDifference", lambda d: [_ints([d, 3]), _ints(5)], {}),
}


@pytest.mark.parametrize("name", _CASES)
def test_an_op_on_symbolic_dimensions_exports_to_what_tensorflow_computes(name):
  op, inputs_of, attrs = _CASES[name]
  with jax.enable_x64(True):
    case = raw_op(op, inputs_of(3), attrs)
    dtypes = [t.dtype.as_numpy_dtype for t in case.oracle(case.inputs)]

    def function(x):
      outputs = case.kernel.run(NodeContext(), jax.tree.leaves(inputs_of(x.shape[0])))
      return [jnp.asarray(materialize(y, dtype)) for y, dtype in zip(outputs, dtypes, strict=True)]

    shape = jax.export.symbolic_shape("n", constraints=["n >= 1"])
    exported = jax.export.export(jax.jit(function))(jax.ShapeDtypeStruct(shape, np.float32))
    for size in (1, 3, 8):
      expected = [t.numpy() for t in case.oracle(jax.tree.leaves(inputs_of(size)))]
      for got, want in zip(exported.call(jnp.zeros(size, np.float32)), expected, strict=True):
        np.testing.assert_array_equal(got, want)
        assert got.dtype == want.dtype


def test_known_results_keep_the_type_that_the_op_declares():
  (n,) = jax.export.symbolic_shape("n")
  case = raw_op("ZerosLike", [np.array([1, 2], _I64)])
  (zeros,) = case.kernel.run(NodeContext(), [np.array([n, n], object)])
  assert isinstance(zeros, np.ndarray) and zeros.dtype == _I64


def test_a_lowering_that_does_not_declare_symbols_gets_arrays():
  lowering = Lowering(lambda x: x, (InputParameter("x", None),), {}, frozenset({"T"}), needs_context=False)
  with jax.enable_x64(True):
    case = raw_op("Neg", [np.array([1, 2], _I64)], lowering=lowering)

    def function(x):
      (result,) = case.kernel.run(NodeContext(), [np.array([x.shape[0], 2], object)])
      assert isinstance(result, jax.core.Tracer) and result.dtype == _I64
      return result

    shape = jax.export.symbolic_shape("n")
    exported = jax.export.export(jax.jit(function))(jax.ShapeDtypeStruct(shape, np.float32))
    assert exported.call(jnp.zeros(7, np.float32)).tolist() == [7, 2]
