"""Block LSTM and GRU against TensorFlow."""

import numpy as np
import pytest

from graftax.testing.raw_ops import check_raw_op, raw_op

pytestmark = pytest.mark.tensorflow

_RNG = np.random.default_rng(0)
_CLOSE = {"tolerance": (1e-4, 1e-5), "grad_tolerance": (1e-3, 1e-4)}


def _normal(*shape):
  return _RNG.normal(size=shape).astype(np.float32)


_STATE = [_normal(2, 4), _normal(2, 4), _normal(7, 16), _normal(4), _normal(4), _normal(4), _normal(16)]


@pytest.mark.parametrize("attrs", [{}, {"use_peephole": True, "cell_clip": 0.5, "forget_bias": 0.3}])
def test_lstm_step(attrs):
  check_raw_op("LSTMBlockCell", [_normal(2, 3), *_STATE], attrs, vmap=["x"], **_CLOSE)


@pytest.mark.parametrize("op", ["BlockLSTM", "BlockLSTMV2"])
def test_lstm_over_a_sequence(op):
  inputs = [np.int64(5), _normal(5, 2, 3), *_STATE]
  check_raw_op(op, inputs, {"use_peephole": True}, vmap=["x"], **_CLOSE)


@pytest.mark.parametrize("attrs", [{"cell_clip": 0.0}, {"cell_clip": 0.5}, {"cell_clip": 0.5, "use_peephole": True}])
def test_gradients_are_those_of_states_that_are_not_clipped(attrs):
  inputs = [np.int64(5), _normal(5, 2, 3), *_STATE]
  check_raw_op("BlockLSTM", inputs, attrs, grad=True, vmap=False, **_CLOSE)


@pytest.mark.parametrize("op", ["BlockLSTM", "BlockLSTMV2"])
def test_steps_after_the_longest_sequence_are_zero(op):
  # TensorFlow leaves most of the outputs there uninitialized.
  case = raw_op(op, [np.int64(3), _normal(5, 2, 3), *_STATE])
  for got, want in zip(case.run(*case.dynamic_inputs), case.oracle(case.inputs), strict=True):
    np.testing.assert_allclose(got[:3], want[:3], rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(got[3:], 0)


def test_gru_step():
  inputs = [_normal(2, 3), _normal(2, 4), _normal(7, 8), _normal(7, 4), _normal(8), _normal(4)]
  check_raw_op("GRUBlockCell", inputs, vmap=["x"], **_CLOSE)
