"""Binary functions against TensorFlow: broadcasting, every dtype, integer division, ties and poles of derivatives."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from graftax.ops_jax.math import binary
from graftax.testing.raw_ops import check_raw_op, raw_op

_SMOOTH = ("AddV2", "Add", "Sub", "Mul", "RealDiv", "Div", "SquaredDifference", "DivNoNan", "MulNoNan", "Xdivy")
_POSITIVE = ("Pow", "Xlogy", "Xlog1py", "Atan2")
_KINKED = ("Maximum", "Minimum", "FloorDiv", "FloorMod")
_TRUNCATED = ("Mod", "TruncateMod", "TruncateDiv", "NextAfter")
_FLOATS = (np.float32, np.float64, np.float16, ml_dtypes.bfloat16)
_X = [[-2.5, 1.0, 3.25], [0.5, 1.5, -7.5]]
_Y = [[2.0], [-1.25]]
_INT_OPS = ("AddV2", "Sub", "Mul", "Div", "FloorDiv", "FloorMod", "TruncateDiv", "Maximum", "Minimum")
# SquaredDifference is not holomorphic; TensorFlow leaves out a conjugate in the other two.
_COMPLEX_GRADIENT_DIFFERS = ("SquaredDifference", "Xlogy", "Xdivy")
_GRAD_MISSING = ("NextAfter", "TruncateDiv", "Mod", "TruncateMod")


@pytest.mark.parametrize("op", [*_SMOOTH, *_POSITIVE, *_KINKED, *_TRUNCATED])
def test_value_and_derivatives_match_tensorflow(op):
  for dtype in _FLOATS:
    x, y = np.array(_X, dtype), np.array(_Y, dtype)
    if op in _POSITIVE:
      x, y = np.abs(x), np.abs(y)
    if dtype in (np.float16, ml_dtypes.bfloat16) and op in ("Mod", "TruncateMod", "NextAfter"):
      continue
    if dtype in (np.float16, ml_dtypes.bfloat16):
      check_raw_op(op, [x, y], jit=False, vmap=False)
    else:
      order = 2 if dtype == np.float64 and op not in ("DivNoNan", "MulNoNan") else 1
      check_raw_op(op, [x, y], grad=op not in _GRAD_MISSING, grad_order=order, vmap=dtype == np.float32)


@pytest.mark.parametrize("op", [*_SMOOTH, *_POSITIVE, *_KINKED, *_TRUNCATED])
def test_zeros_infinities_and_nan_match_tensorflow(op):
  edges = np.array([0.0, 1.0, -1.0, 2.5, np.inf, -np.inf, np.nan], np.float32)
  x, y = (a.ravel() for a in np.meshgrid(edges, edges))
  if op == "NextAfter":
    x, y = x[np.abs(x) > 0], y[np.abs(x) > 0]
  check_raw_op(op, [x, y], vmap=False, jit=False)


@pytest.mark.parametrize("op", [*_SMOOTH, *_POSITIVE, *_KINKED])
def test_scalars_and_empty_arrays_keep_their_shape(op):
  check_raw_op(op, [np.float32(1.5), np.float32(2.5)], vmap=False)
  check_raw_op(op, [np.zeros((0, 3), np.float32), np.ones((1, 3), np.float32)], vmap=False)


@pytest.mark.parametrize(
  "op", ["AddV2", "Sub", "Mul", "RealDiv", "Pow", "SquaredDifference", "DivNoNan", "Xlogy", "Xdivy"]
)
def test_complex_numbers_match_tensorflow(op):
  x = np.array([0.3 + 0.4j, -0.5 + 0.2j, 1.5 - 0.7j], np.complex128)
  y = np.array([1.5 - 1j, 0.5 + 2j, -0.75 + 0.25j], np.complex128)
  check_raw_op(op, [x, y], grad=op not in _COMPLEX_GRADIENT_DIFFERS, vmap=False)


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16])
def test_integer_arithmetic_matches_tensorflow(dtype):
  info = np.iinfo(dtype)
  x = np.array([info.max, info.min + 1, 7, 7, 0, 100], dtype)
  y = np.array([1, 3, 2, 5, 4, 7], dtype)
  if info.min < 0:
    x, y = np.concatenate([x, -x]), np.concatenate([y, y])
    y = np.concatenate([y, -y])
    x = np.concatenate([x, x])
  for op in _INT_OPS:
    if op == "TruncateDiv" and dtype in (np.uint32, np.uint64):
      continue
    check_raw_op(op, [x, y], vmap=False)


@pytest.mark.parametrize("op", ["Mod", "TruncateMod"])
def test_truncated_remainder_has_the_sign_of_the_dividend(op):
  check_raw_op(op, [np.array([7, -7, 7, -7], np.int32), np.array([2, 2, -2, -2], np.int32)])


@pytest.mark.parametrize("op", ["Div", "FloorDiv", "FloorMod", "Mod"])
def test_integer_division_by_a_known_zero_raises(op):
  case = raw_op(op, [np.array([1, 2], np.int32), np.array([0, 1], np.int32)], static=("x", "y"))
  with pytest.raises(ValueError, match="division by zero"):
    case.run()


@pytest.mark.parametrize("op", ["Maximum", "Minimum"])
def test_a_tie_sends_the_derivative_to_x(op):
  x = np.array([1.0, 2.0, np.nan, 0.0], np.float32)
  y = np.array([1.0, 2.0, 1.0, -0.0], np.float32)
  check_raw_op(op, [x, y], grad=True, grad_order=2)
  assert jax.grad(lambda v: binary.maximum(v, jnp.float32(0)))(jnp.float32(0)) == 1


def test_no_nan_ops_have_zero_derivative_at_the_pole():
  x, y = np.array([0.0, 2.0, 0.0], np.float32), np.array([0.0, 0.0, 3.0], np.float32)
  for op in ("DivNoNan", "MulNoNan", "Xdivy", "Xlogy"):
    if op == "Xdivy":
      x = np.zeros_like(x)
    check_raw_op(op, [x, y], grad=True, forward=False)


def test_power_matches_tensorflow_at_zero_and_below():
  x = np.array([0.0, 0.0, 0.0, -2.0, -2.0, 3.0], np.float32)
  y = np.array([2.0, 1.0, 0.5, 2.0, 3.0, 0.0], np.float32)
  check_raw_op("Pow", [x, y], grad=True, forward=False)
  check_raw_op("Pow", [x[3:], y[3:]], grad=("x",), static=("y",), grad_order=2)


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64])
def test_integer_power_wraps(dtype):
  check_raw_op("Pow", [np.array([2, 3, 0, -5, 10], dtype), np.array([3, 9, 0, 1, 2], dtype)], vmap=False)


def test_negative_integer_powers_raise_when_known():
  case = raw_op("Pow", [np.array([2], np.int32), np.array([-1], np.int32)], static=("x", "y"))
  with pytest.raises(ValueError, match="negative integer powers"):
    case.run()


@pytest.mark.parametrize("num", [1, 2, 5])
def test_sums_of_lists_match_tensorflow(num):
  values = [np.array([i, 2.5 * i], np.float32) for i in range(num)]
  check_raw_op("AddN", [values], grad=True, vmap=False)


def test_known_strings_are_joined():
  check_raw_op("Add", [np.array([b"a", b"bc"], object), np.array(b"d", object)])


def test_arithmetic_on_symbolic_dimensions_stays_known():
  n, m = jax.export.symbolic_shape("n, m")
  dims = np.array([n, 4], object)
  two = np.int32(2)
  assert list(binary.mul(dims, two)) == [2 * n, 8]
  assert list(binary.floor_div(binary.add(dims, two), two)) == [(n + 2) // 2, 3]
  assert list(binary.floor_mod(dims, two)) == [n % 2, 0]
  assert binary.sub(dims[0:1], dims[0:1]).dtype == np.int32
  assert binary.maximum(dims, np.array([m, 2], object))[0] == jax.core.max_dim(n, m)
  scalar = binary.add(np.array(n, object), np.int32(1))
  assert isinstance(scalar, np.ndarray)
  assert scalar.shape == () and scalar.item() == n + 1


def test_shapes_that_do_not_broadcast_raise_in_tensorflow_too():
  with pytest.raises((TypeError, ValueError)):
    binary.add(jnp.ones(2), jnp.ones(3))


def test_next_after_has_the_derivative_of_its_first_argument():
  x = np.array([1, 1, 2], np.float32)
  check_raw_op("NextAfter", [x, np.array([2, 1, 1], np.float32)], grad=True)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_integer_powers_with_large_exponents_wrap(dtype):
  x = np.array([2, 3, -1, -1, -3, -207096841, 0, 7], dtype)
  check_raw_op("Pow", [x, np.array([64, 100, 64, 65, 1001, 267031626, 64, 0], dtype)], without_x64=False)
