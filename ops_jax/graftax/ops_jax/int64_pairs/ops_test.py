"""Integer ops on `Int64Pair` against TensorFlow, with `jax_enable_x64` off."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from graftax.graphdef_ir import UnsupportedError
from graftax.ops_jax import Int64Pair, as_int64_pair
from graftax.testing.raw_ops import NodeContext, raw_op

_SIGNED = np.array(
  [0, 1, -1, 7, -7, 2**31, -(2**31) - 1, 2**32 + 5, -(2**40) - 3, 2**63 - 1, -(2**63), 123456789012345]
)
_UNSIGNED = _SIGNED.astype(np.uint64)
_PAIRS = {dtype: np.meshgrid(x, x) for dtype, x in ((np.int64, _SIGNED), (np.uint64, _UNSIGNED))}
_BINARY = ["AddV2", "Sub", "Mul", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Maximum", "Minimum"]
_COMPARISONS = ["Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual"]
_DIVISIONS = ["FloorDiv", "FloorMod", "TruncateDiv", "TruncateMod"]


def _check(op, inputs, attrs=None, *, pairs=(0,)):
  """Runs an op with pairs at the input positions `pairs`, and compares with TensorFlow."""
  case = raw_op(op, inputs, attrs)
  want = case.oracle(case.inputs)[0].numpy()

  def run(*given_pairs):
    given = dict(zip(pairs, given_pairs, strict=True))
    return case.kernel.run(NodeContext(), [given.get(i, x) for i, x in enumerate(case.inputs)])[0]

  with jax.enable_x64(False):
    values = [as_int64_pair(case.inputs[i]) for i in pairs]
    for got in (run(*values), jax.jit(run)(*values)):
      assert not isinstance(got, Int64Pair) or got.dtype == want.dtype
      np.testing.assert_array_equal(np.asarray(got), want)


@pytest.mark.parametrize("dtype", list(_PAIRS))
@pytest.mark.parametrize("op", [*_BINARY, *_COMPARISONS])
def test_binary_ops(op, dtype):
  _check(op, list(_PAIRS[dtype]), pairs=(0, 1))


# TensorFlow has no TruncateMod of uint64.
@pytest.mark.parametrize(
  ("op", "dtype"), [(op, dtype) for op in _DIVISIONS for dtype in _PAIRS if (op, dtype) != ("TruncateMod", np.uint64)]
)
def test_divisions(op, dtype):
  x, y = (part.reshape(-1) for part in _PAIRS[dtype])
  # -2**63 / -1 is undefined.
  is_defined = (y != 0) & ~((x == -(2**63)) & (y == -1)) if dtype is np.int64 else y != 0
  _check(op, [x[is_defined], y[is_defined]], pairs=(0, 1))


def test_a_small_divisor_makes_an_ordinary_array():
  case = raw_op("FloorMod", [_SIGNED, np.array(10)])
  with jax.enable_x64(False):
    (rest,) = case.kernel.run(NodeContext(), [as_int64_pair(_SIGNED), np.array(10)])
  assert isinstance(rest, jax.Array)
  np.testing.assert_array_equal(rest, _SIGNED % 10)


@pytest.mark.parametrize("dtype", list(_PAIRS))
@pytest.mark.parametrize("op", ["LeftShift", "RightShift"])
def test_shifts(op, dtype):
  x, amount = np.meshgrid(_SIGNED.astype(dtype), np.array([0, 1, 31, 32, 33, 63], dtype))
  _check(op, [x, amount])


@pytest.mark.parametrize("op", ["Neg", "Abs", "Square", "Invert", "ZerosLike", "OnesLike"])
def test_unary_ops(op):
  _check(op, [_SIGNED])


def test_population_count():
  _check("PopulationCount", [_UNSIGNED])


@pytest.mark.parametrize("op", ["Sum", "Prod", "Max", "Min"])
@pytest.mark.parametrize("keep_dims", [False, True])
def test_reductions(op, keep_dims):
  _check(op, [_SIGNED.reshape(3, 4), np.array([1])], {"keep_dims": keep_dims})


@pytest.mark.parametrize("source", [np.int64, np.uint64])
@pytest.mark.parametrize("target", [np.int64, np.uint64, np.int32, np.uint32, np.int16, np.uint8, bool, np.float32])
def test_casts(source, target):
  _check("Cast", [_SIGNED.astype(source)], {"DstT": target})


@pytest.mark.parametrize("source", [np.int32, np.uint32, np.int8, np.float32])
def test_a_cast_to_uint64_keeps_all_bits(source):
  x = np.array([0, 1, 100, -1, -100, 2**30], np.float64)
  x = x.astype(source) if source is np.float32 else x.astype(np.int64).astype(source)
  case = raw_op("Cast", [x], {"DstT": np.uint64})
  want = case.oracle(case.inputs)[0].numpy()
  with jax.enable_x64(False):
    np.testing.assert_array_equal(np.asarray(jax.jit(case.run)(x)[0]), want)


@pytest.mark.parametrize("target", [np.int64, np.uint64, np.uint32, np.int16])
def test_bitcasts(target):
  _check("Bitcast", [_SIGNED], {"type": target})


@pytest.mark.parametrize("source", [np.uint32, np.int32, np.uint16, np.uint8])
def test_bitcasts_to_pairs(source):
  x = _SIGNED.view(source).reshape(len(_SIGNED), -1)
  case = raw_op("Bitcast", [x], {"type": np.int64})
  with jax.enable_x64(False):
    np.testing.assert_array_equal(np.asarray(jax.jit(case.run)(x)[0]), _SIGNED)


@pytest.mark.parametrize(
  ("op", "inputs", "attrs", "pairs"),
  [
    ("Reshape", [_SIGNED, np.array([3, 4])], {}, (0,)),
    ("GatherV2", [_SIGNED, np.array([5, 0, 9]), np.int32(0)], {}, (0,)),
    ("Pack", [[_SIGNED, _SIGNED[::-1].copy()]], {}, (1,)),
    ("SelectV2", [_SIGNED > 3, _SIGNED, np.array(-1)], {}, (1,)),
    ("Fill", [np.array([2, 3]), np.array(2**40)], {}, (1,)),
    ("Split", [np.int32(0), _SIGNED], {"num_split": 3}, (1,)),
    ("PadV2", [_SIGNED, np.array([[1, 2]]), np.array(-(2**41))], {}, (0,)),
    ("Shape", [_SIGNED], {}, (0,)),
  ],
)
def test_rearranging_elements_keeps_all_64_bits(op, inputs, attrs, pairs):
  _check(op, inputs, attrs, pairs=pairs)


def test_a_constant_beyond_32_bits_is_exact_beside_a_traced_value():
  case = raw_op("Mul", [np.array([5, -6]), np.array(6364136223846793005)])
  with jax.enable_x64(False):
    (result,) = jax.jit(lambda x: case.kernel.run(NodeContext(), [x, case.inputs[1]]))(jnp.array([5, -6]))
  np.testing.assert_array_equal(np.asarray(result), case.oracle(case.inputs)[0].numpy())


@pytest.mark.parametrize(
  ("op", "inputs", "traced"),
  [
    ("GatherV2", [_SIGNED, np.array([5, 0, 9], np.int32), np.int32(0)], 1),
    ("SelectV2", [np.array([True, False]), np.array(2**40), np.array(-(2**35))], 0),
    ("ConcatV2", [[np.array([1, 2]), np.array([2**40])], np.int32(0)], 0),
  ],
)
def test_a_constant_beyond_32_bits_is_rearranged_by_what_is_traced(op, inputs, traced):
  case = raw_op(op, inputs)

  def run(value):
    return case.kernel.run(NodeContext(), [value if i == traced else x for i, x in enumerate(case.inputs)])[0]

  with jax.enable_x64(False):
    np.testing.assert_array_equal(np.asarray(jax.jit(run)(case.inputs[traced])), case.oracle(case.inputs)[0].numpy())


def test_an_op_without_an_exact_form_raises():
  case = raw_op("Cumsum", [_SIGNED, np.int32(0)])
  with jax.enable_x64(False), pytest.raises(UnsupportedError, match=r"Cumsum node 'op_under_test'.*jax_enable_x64"):
    case.kernel.run(NodeContext(), [as_int64_pair(_SIGNED), np.int32(0)])
  pair = as_int64_pair(_SIGNED)
  with jax.enable_x64(True), np.errstate(over="ignore"):
    (total,) = case.kernel.run(NodeContext(), [pair, np.int32(0)])
    np.testing.assert_array_equal(total, np.cumsum(_SIGNED))
