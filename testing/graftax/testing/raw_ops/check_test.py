"""Tests that `check_raw_op` accepts correct lowerings and rejects wrong ones."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from graftax.ops_jax import InvalidInputError, Lowering, Static, lowering, register
from graftax.testing.raw_ops import check_raw_op, check_raw_op_rejects, raw_op
from graftax.testing.tolerance import tolerance

_X = np.array([1.0, -2.0, 0.5], np.float32)


def _lowering_of(function, ignores=("T",)) -> Lowering:
  register("TestOnly", ignores=ignores, override=True)(function)
  entry = lowering("TestOnly")
  assert entry is not None
  return entry


def _check_square(function, **kwargs) -> None:
  check_raw_op("Square", [_X], lowering=_lowering_of(function), **kwargs)


def test_a_right_lowering_passes_every_check():
  _check_square(lambda x: x * x, grad=True, grad_order=2)


@pytest.mark.parametrize(
  ("function", "message"),
  [
    (lambda x: x * x + 1e-3, "concrete inputs"),
    (lambda x: (x * x).astype(np.float16), "dtype float16"),
    (lambda x: jnp.expand_dims(x * x, 0), "shape"),
    (lambda x: (x * x, x), "2 outputs"),
    (lambda x: "text", "neither a numpy"),
    (lambda x: x * x if isinstance(x, jax.Array) else -x, "known inputs"),
    (lambda x: x * x if not isinstance(x, jax.core.Tracer) else -x, "jit"),
  ],
)
def test_a_wrong_value_raises(function, message):
  with pytest.raises(AssertionError, match=message):
    _check_square(function)


def test_a_lowering_that_fails_for_known_inputs_raises_in_every_case():
  def square(x):
    return x.at[()].set(x * x)  # numpy arrays have no `at`

  entry = _lowering_of(square)
  for _ in range(2):
    with pytest.raises(AttributeError, match="'numpy.ndarray' object has no attribute 'at'"):
      check_raw_op("Square", [_X], lowering=entry)


def test_a_wrong_value_from_known_inputs_raises_in_every_case():
  entry = _lowering_of(lambda x: x * x if isinstance(x, jax.Array) or x.ndim == 1 else -jnp.asarray(x))
  check_raw_op("Square", [_X], lowering=entry)
  with pytest.raises(AssertionError, match="known inputs under jit"):
    check_raw_op("Square", [_X[None]], lowering=entry)


def test_a_wrong_gradient_raises():
  with pytest.raises(AssertionError, match="gradient with respect to x"):
    _check_square(lambda x: jax.lax.stop_gradient(x * x), grad=True)


def test_a_wrong_second_derivative_raises():
  def square(x):
    return _square_with_linear_gradient(x)

  _check_square(square, grad=True)
  with pytest.raises(AssertionError, match="second derivative"):
    _check_square(square, grad=True, grad_order=2)


@jax.custom_jvp
def _square_with_linear_gradient(x):
  return x * x


@_square_with_linear_gradient.defjvp
def _square_jvp(primals, tangents):
  (x,), (t,) = primals, tangents
  return x * x, 2 * jax.lax.stop_gradient(x) * t


def test_a_batch_that_mixes_examples_raises():
  @jax.custom_batching.custom_vmap
  def square(x):
    return x * x

  @square.def_vmap
  def _(axis_size, in_batched, x):
    return jnp.roll(x * x, 1, axis=0), True

  with pytest.raises(AssertionError, match="vmap over"):
    _check_square(square, jit=False)


def test_a_64_bit_result_without_64_bit_types_raises():
  def shape(input):
    return np.asarray(input.shape, np.float64 if not jax.config.jax_enable_x64 else np.int32)

  register("TestOnly", ignores=("T", "out_type"), override=True)(shape)
  with pytest.raises(AssertionError, match="64-bit types off"):
    check_raw_op("Shape", [_X], lowering=lowering("TestOnly"))


def test_a_wrong_value_without_64_bit_types_raises():
  def square(x):
    return x * x if jax.config.jax_enable_x64 else -x

  with pytest.raises(AssertionError, match="64-bit types off"):
    _check_square(square)
  for dtype in (np.int64, np.float64):
    with pytest.raises(AssertionError, match="64-bit types off"):
      check_raw_op("Square", [np.array([3, 1], dtype)], lowering=_lowering_of(square))
  # 32 bits cannot hold the input, or the result.
  check_raw_op("Square", [np.array([2**40])], lowering=_lowering_of(square))
  check_raw_op("Square", [np.array([2**20])], lowering=_lowering_of(square))


def test_inputs_are_rounded_before_tensorflow_computes_with_them():
  # The sine of 1e6 differs in the second digit from that of its float32 neighbors.
  check_raw_op("Sin", [np.array([1e6 + 0.01])])


def test_a_wrong_value_of_symbolic_dimensions_raises():
  def fill(dims: Static[tuple[int, ...]], value):
    return jnp.zeros(dims[::-1] if jax.export.is_symbolic_dim(dims[0]) else dims) + value

  entry = _lowering_of(fill, ignores=("T", "index_type"))
  inputs = [np.array([2, 3], np.int32), np.float64(1)]
  check_raw_op("Fill", inputs, lowering=entry)
  with pytest.raises(AssertionError, match="symbolic dimensions"):
    check_raw_op("Fill", inputs, lowering=entry, symbolic={"dims": "a, 3"})
  check_raw_op("Fill", inputs, symbolic={"dims": "a, 3"})
  with pytest.raises(AssertionError, match="names no input"):
    check_raw_op("Fill", inputs, symbolic={"shape": "a, 3"})


def test_symbolic_values_and_shapes_share_their_dimensions():
  inputs = [np.arange(6.0), np.array([2, 3], np.int32)]
  check_raw_op("Reshape", inputs, symbolic={"shape": "a, b", "tensor": "a*b"})
  check_raw_op("AddV2", [np.int32(5), np.int32(7)], symbolic={"x": "a - 1"})


def test_renamed_and_list_arguments_reach_tensorflow():
  check_raw_op("Sum", [np.ones((2, 3), np.float32), np.array([1], np.int32)], {"keep_dims": True}, grad=True)
  check_raw_op("AddN", [[_X, _X, _X]], grad=True)


def test_rejection_needs_both_sides():
  x = np.ones((2, 3), np.float32)
  check_raw_op_rejects("Sum", [x, np.array([5], np.int32)], match="out of range")
  with pytest.raises(AssertionError, match="does not contain"):
    check_raw_op_rejects("Sum", [x, np.array([5], np.int32)], match="something else")
  with pytest.raises(AssertionError, match="TensorFlow accepts"):
    check_raw_op_rejects("Sum", [x, np.array([0], np.int32)])


def test_static_inputs_stay_known():
  def double(x):
    if isinstance(x, jax.Array):
      raise InvalidInputError("traced")
    return x * x

  register("TestOnly", ignores=("T",), override=True)(double)
  check_raw_op("Square", [_X], static=("x",), lowering=lowering("TestOnly"))
  assert raw_op("Square", [_X], static=("x",)).dynamic_inputs == ()


def test_tolerance_is_exact_for_integers_and_wider_for_narrow_floats():
  assert tolerance(np.int64) == (0.0, 0.0)
  assert tolerance(np.float16)[0] > tolerance(np.float32)[0] > tolerance(np.float64)[0]
