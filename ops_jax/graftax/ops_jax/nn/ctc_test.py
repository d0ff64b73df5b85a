"""The CTC loss against TensorFlow."""

import jax
import numpy as np
import pytest

from graftax.ops_jax.nn.ctc import ctc_loss
from graftax.testing.raw_ops import check_raw_op, raw_op

pytestmark = pytest.mark.tensorflow

_LOGITS = np.random.default_rng(0).normal(size=(7, 3, 5)).astype(np.float32)
_INDICES = np.array([[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [2, 0]], np.int64)
_VALUES = np.array([1, 1, 3, 0, 2, 2], np.int32)
_LENGTHS = np.array([7, 5, 6], np.int32)
_INPUTS = [_LOGITS, _INDICES, _VALUES, _LENGTHS]


@pytest.mark.parametrize("collapse", [False, True])
@pytest.mark.parametrize("merge", [False, True])
def test_loss_and_gradient(collapse, merge):
  attrs = {"preprocess_collapse_repeated": collapse, "ctc_merge_repeated": merge}
  check_raw_op("CTCLoss", _INPUTS, attrs, vmap=["inputs"], tolerance=(1e-4, 1e-5))


def test_derivative_of_the_loss():
  import jax.numpy as jnp
  import tensorflow as tf

  case = raw_op("CTCLoss", _INPUTS)
  weights = np.array([1.0, 2.0, -0.5], np.float32)
  got = jax.grad(lambda x: jnp.sum(case.run(x, *_INPUTS[1:])[0] * weights))(jnp.asarray(_LOGITS))
  logits = tf.constant(_LOGITS)
  with tf.GradientTape() as tape:
    tape.watch(logits)
    loss = tf.reduce_sum(case.oracle([logits, *_INPUTS[1:]])[0] * weights)
  np.testing.assert_allclose(got, tape.gradient(loss, logits), rtol=1e-4, atol=1e-5)


def test_double_precision():
  check_raw_op("CTCLoss", [_LOGITS.astype(np.float64), *_INPUTS[1:]], vmap=False, tolerance=(1e-6, 1e-6))


def test_a_row_without_labels_is_all_blanks():
  loss, _ = ctc_loss(_LOGITS, _INDICES[:5], _VALUES[:5], _LENGTHS)
  expected = -jax.nn.log_softmax(_LOGITS[:6, 2])[:, -1].sum()
  np.testing.assert_allclose(loss[2], expected, rtol=1e-5)


def test_labels_longer_than_their_sequence_can_be_ignored():
  attrs = {"ignore_longer_outputs_than_inputs": True}
  check_raw_op("CTCLoss", [*_INPUTS[:3], np.array([2, 5, 6], np.int32)], attrs, vmap=False, tolerance=(1e-4, 1e-5))
