"""Unary functions against TensorFlow: every dtype, NaN and infinities, rank 0, no elements, two derivatives."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

from graftax.testing.raw_ops import check_raw_op, raw_op

_FLOATS = (np.float32, np.float64, np.float16, ml_dtypes.bfloat16)
_ANY = [-2.5, -1.5, -0.5, 0.0, 0.3, 0.5, 1.5, 2.5]
_POSITIVE = [0.01, 0.3, 1.0, 2.5]
_UNIT = [-0.9, -0.5, 0.0, 0.3, 0.9]
_EDGES = [0.0, -0.0, np.inf, -np.inf, np.nan]

# op -> points where it and its derivatives are finite.
_DOMAINS = {
  "Abs": _ANY,
  "Neg": _ANY,
  "Sign": _ANY,
  "Square": _ANY,
  "Reciprocal": _POSITIVE,
  "Inv": _POSITIVE,
  "Sqrt": _POSITIVE,
  "Rsqrt": _POSITIVE,
  "Exp": _ANY,
  "Expm1": _ANY,
  "Log": _POSITIVE,
  "Log1p": _POSITIVE,
  "Sigmoid": _ANY,
  "Sin": _ANY,
  "Cos": _ANY,
  "Tan": _UNIT,
  "Asin": _UNIT,
  "Acos": _UNIT,
  "Atan": _ANY,
  "Sinh": _ANY,
  "Cosh": _ANY,
  "Tanh": _ANY,
  "Asinh": _ANY,
  "Acosh": [1.2, 2.0, 5.0],
  "Atanh": _UNIT,
}
_REAL_ONLY = {"Floor": _ANY, "Ceil": _ANY, "Rint": _ANY, "Round": _ANY, "Erf": _ANY, "Erfc": _ANY}
_INTEGER = ("Abs", "Neg", "Sign", "Square")
_NO_HALF_KERNEL = ("Rint",)


@pytest.mark.parametrize("op", [*_DOMAINS, *_REAL_ONLY])
def test_value_and_derivatives_match_tensorflow(op):
  points = {**_DOMAINS, **_REAL_ONLY}[op]
  for dtype in _FLOATS[:2] if op in _NO_HALF_KERNEL else _FLOATS:
    x = np.array(points, dtype)
    is_wide = dtype in (np.float32, np.float64)
    check_raw_op(op, [x], grad=is_wide, grad_order=2 if dtype == np.float64 else 1, vmap=is_wide, jit=is_wide)


@pytest.mark.parametrize("op", [*_DOMAINS, *_REAL_ONLY])
def test_zeros_infinities_and_nan_match_tensorflow(op):
  check_raw_op(op, [np.array(_EDGES, np.float32)], vmap=False, jit=False)


@pytest.mark.parametrize("op", [*_DOMAINS, *_REAL_ONLY])
def test_scalars_and_empty_arrays_keep_their_shape(op):
  check_raw_op(op, [np.array(1.5, np.float32)], vmap=False)
  check_raw_op(op, [np.zeros((0, 3), np.float32)], vmap=False)


@pytest.mark.parametrize("op", [op for op in _DOMAINS if op not in ("Abs",)])
def test_complex_numbers_match_tensorflow(op):
  x = np.array([0.3 + 0.4j, -0.5 + 0.2j, 1.5 - 0.7j, -1.5 - 0.5j], np.complex128)
  check_raw_op(op, [x], grad=op != "Sign", grad_tolerance=(1e-9, 1e-9), vmap=False)
  check_raw_op(op, [x.astype(np.complex64)], vmap=False, jit=False, tolerance=(1e-4, 1e-5))


@pytest.mark.parametrize("op", _INTEGER)
@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64])
def test_integers_wrap_like_tensorflow(op, dtype):
  info = np.iinfo(dtype)
  check_raw_op(op, [np.array([info.min, info.min + 1, -1, 0, 1, 7, info.max], dtype)], vmap=False)


def test_round_leaves_integers_alone():
  # TensorFlow's CPU kernel gives zeros here; its XLA kernel and the op's documentation agree with us.
  case = raw_op("Round", [np.array([1, 2], np.int32)])
  np.testing.assert_array_equal(case.run(*case.inputs)[0], [1, 2])


def test_derivative_at_the_edge_of_the_domain_matches_tensorflow():
  zero = np.array([0.0], np.float32)
  for op in ("Abs", "Sign", "Sqrt", "Rsqrt", "Reciprocal", "Log", "Floor", "Round"):
    check_raw_op(op, [zero], grad=True, forward=False, vmap=False, jit=False)
  for op in ("Asin", "Acos", "Acosh", "Atanh"):
    check_raw_op(op, [np.array([1.0], np.float32)], grad=True, forward=False, vmap=False, jit=False)


@pytest.mark.parametrize("op", ["SqrtGrad", "RsqrtGrad", "ReciprocalGrad", "InvGrad"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, ml_dtypes.bfloat16, np.complex64, np.complex128])
def test_gradient_ops_match_tensorflow(op, dtype):
  y = np.array([0.3, 1.0, 2.5], dtype)
  dy = np.array([1.0, -2.0, 0.5], dtype)
  if np.dtype(dtype).kind == "c":
    y, dy = y * (1 + 0.5j), dy * (1 - 0.25j)
  check_raw_op(op, [y.astype(dtype), dy.astype(dtype)], grad=op == "ReciprocalGrad" and dtype == np.float64)


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.complex64])
@pytest.mark.parametrize("op", ["SqrtGrad", "RsqrtGrad", "ReciprocalGrad"])
def test_gradients_of_zero_stay_zero_like_tensorflows(op, dtype):
  y, dy = np.array([0, np.inf, np.nan, 2, 0], dtype), np.array([0, 0, 0, 0, 1], dtype)
  check_raw_op(op, [y, dy], vmap=False)


@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
@pytest.mark.parametrize("op", ["Sqrt", "Rsqrt", "Reciprocal"])
def test_no_gradient_passes_from_what_was_not_selected(op, dtype):
  x = np.array([0.0, -1.0, -np.inf, np.nan, 4.0, np.inf], dtype)
  case = raw_op(op, [x])
  is_selected = np.array([False, False, False, False, True, True])
  with tf.GradientTape() as tape:
    given = tf.constant(x)
    tape.watch(given)
    y = tf.where(is_selected, getattr(tf.raw_ops, op)(x=given), 0)
  _, pull = jax.vjp(lambda x: jnp.where(is_selected, case.run(x)[0], 0), x)
  np.testing.assert_allclose(pull(np.ones_like(x))[0], tape.gradient(y, given), rtol=1e-6)


def test_derivative_of_acosh_below_1_is_undefined():
  x = np.array([0.5, -2, 0, 1, 2, np.nan, np.inf, -np.inf], np.float32)
  check_raw_op("Acosh", [x], grad=True, forward=False, vmap=False)
