"""Activations against TensorFlow: values at the edges, derivatives at the corners."""

import ml_dtypes
import numpy as np
import pytest

from graftax.testing.raw_ops import check_raw_op

pytestmark = pytest.mark.tensorflow

_FLOATS = [np.float32, np.float64, np.float16, ml_dtypes.bfloat16]
_EDGES = [-np.inf, -200.0, -20.0, -1.5, -0.0, 0.0, 0.25, 1.0, 5.5, 6.0, 6.5, 20.0, 200.0, np.inf, np.nan]
_SMOOTH = [-20.0, -6.0, -1.5, -0.0, 0.0, 0.25, 1.0, 5.5, 6.0, 6.5, 20.0]
_UNARY = ["Relu", "Relu6", "LeakyRelu", "Elu", "Selu", "Softplus", "Softsign"]


def _no_inf(op):
  # inf / inf: TensorFlow's vector and scalar paths disagree about softsign there.
  return [x for x in _EDGES if not np.isinf(x)] if op == "Softsign" else _EDGES


@pytest.mark.parametrize("dtype", _FLOATS)
@pytest.mark.parametrize("op", _UNARY)
def test_activation_agrees_at_the_edges(op, dtype):
  check_raw_op(op, [np.array(_no_inf(op), dtype)])


@pytest.mark.parametrize("op", _UNARY)
def test_activation_derivatives_agree_at_the_corners(op):
  order = 1 if op in ("Softsign",) else 2  # TensorFlow has no second derivative of softsign
  check_raw_op(op, [np.array(_SMOOTH, np.float32)], grad=True, grad_order=order)
  check_raw_op(op, [np.array(_SMOOTH, np.float64)], grad=True, grad_order=order)


@pytest.mark.parametrize("alpha", [0.0, 0.1, 1.0, 2.0])
def test_leaky_relu_uses_its_slope(alpha):
  check_raw_op("LeakyRelu", [np.array(_SMOOTH, np.float32)], {"alpha": alpha}, grad=True)
  x = np.array(_SMOOTH, np.float32)
  check_raw_op("LeakyReluGrad", [x[::-1].copy(), x], {"alpha": alpha})


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int64])
@pytest.mark.parametrize("op", ["Relu", "Relu6"])
def test_integer_rectifiers(op, dtype):
  check_raw_op(op, [np.array([-3, 0, 2, 6, 9]).astype(dtype)])


@pytest.mark.parametrize("dtype", _FLOATS)
@pytest.mark.parametrize("op", ["ReluGrad", "Relu6Grad", "LeakyReluGrad", "SoftplusGrad", "SoftsignGrad"])
def test_gradient_op_of_features(op, dtype):
  features = np.array(_SMOOTH, dtype)
  order = 1 if op == "SoftsignGrad" else 2
  gradients = np.linspace(-2, 2, features.size).astype(dtype)
  check_raw_op(op, [gradients, features], grad=op != "SoftsignGrad" and dtype in _FLOATS[:2], grad_order=order)


@pytest.mark.parametrize("dtype", _FLOATS)
@pytest.mark.parametrize("op", ["EluGrad", "SeluGrad"])
def test_gradient_op_of_outputs(op, dtype):
  outputs = np.array([-1.0, -0.5, -0.0, 0.0, 2.0, 30.0], dtype)
  gradients = np.linspace(-2, 2, outputs.size).astype(dtype)
  check_raw_op(op, [gradients, outputs], grad=dtype in _FLOATS[:2])


@pytest.mark.parametrize("op", ["Elu", "Selu"])
def test_derivatives_of_exponential_units_at_infinity(op):
  x = np.array([np.inf, 1.0, -1.0], np.float32)
  check_raw_op(op, [x], grad=True, grad_order=2, forward=False)
  check_raw_op(f"{op}Grad", [np.ones_like(x), x], grad=True, forward=False)


def test_derivative_of_softplus_grad_at_large_features():
  x = np.array([12.0, 25.0, 50.0, -25.0], np.float32)
  check_raw_op("SoftplusGrad", [np.float32([1e5, 1e10, 1e20, 1e10]), x], grad=["features"], vmap=False)


@pytest.mark.parametrize("dtype", [*_FLOATS, np.complex64])
@pytest.mark.parametrize("op", ["SigmoidGrad", "TanhGrad"])
def test_gradient_op_of_results(op, dtype):
  y = np.array([0.0, 0.1, 0.5, 0.9, 1.0]).astype(dtype)
  check_raw_op(op, [y, np.array([1, -2, 3, 0.5, -1.5]).astype(dtype)], grad=dtype in _FLOATS[:2])


@pytest.mark.parametrize("op", ["ReluGrad", "Relu6Grad"])
def test_infinite_gradient_passes_only_where_the_unit_is_active(op):
  check_raw_op(op, [np.array([np.nan, np.inf, 2.0, -3.0], np.float32), np.array([1.0, 1.0, -1.0, np.nan], np.float32)])


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax"])
class TestSoftmax:
  @pytest.mark.parametrize("dtype", _FLOATS)
  def test_values(self, op, dtype):
    x = np.random.default_rng(0).normal(0, 3, (3, 7)).astype(dtype)
    # Measured: TensorFlow's float16 sum over 7 classes is off by 4e-3.
    check_raw_op(op, [x], tolerance=(5e-3, 5e-3) if dtype == np.float16 else None)

  def test_extreme_logits(self, op):
    check_raw_op(op, [np.array([[1000.0, -1000.0, 0.0], [-np.inf, 0.0, 0.0], [3e38, 3e38, -3e38]], np.float32)])

  def test_rank_1_3_and_empty(self, op):
    check_raw_op(op, [np.arange(4, dtype=np.float32)])
    check_raw_op(op, [np.arange(24, dtype=np.float32).reshape(2, 3, 4)])
    check_raw_op(op, [np.zeros((0, 4), np.float32)])

  def test_derivatives(self, op):
    x = np.random.default_rng(1).normal(0, 1, (2, 4))
    check_raw_op(op, [x.astype(np.float32)], grad=True, grad_order=2)
    check_raw_op(op, [x], grad=True, grad_order=2)
