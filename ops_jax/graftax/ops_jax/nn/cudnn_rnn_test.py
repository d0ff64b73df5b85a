"""Networks of cuDNN against Keras layers with the same weights; TensorFlow has no CPU kernel of these ops."""

import jax
import numpy as np
import pytest

from graftax.graphdef_ir import GraftaxError
from graftax.ops_jax import lowering

pytestmark = pytest.mark.tensorflow

_RNG = np.random.default_rng(0)
_X = _RNG.normal(size=(3, 7, 4)).astype(np.float32)
_LENGTHS = np.array([7, 4, 5], np.int32)
_UNITS = 5


def _run(op, *inputs, **attrs):
  return jax.jit(lambda *xs: lowering(op).function(*xs, **attrs))(*inputs)


def _keras_layers(mode, num_layers, bidirectional):
  import keras

  kinds = {"lstm": keras.layers.LSTM, "gru": keras.layers.GRU, "rnn_tanh": keras.layers.SimpleRNN}
  layers, size = [], _X.shape[2]
  for _ in range(num_layers):
    layer = kinds[mode](_UNITS, return_sequences=True, **({"activation": "tanh"} if mode == "rnn_tanh" else {}))
    layer = keras.layers.Bidirectional(layer) if bidirectional else layer
    layer.build((None, None, size))
    layer.set_weights([_RNG.normal(size=w.shape).astype(np.float32) * 0.5 for w in layer.get_weights()])
    layers.append(layer)
    size = _UNITS * (2 if bidirectional else 1)
  return layers


def _packed(mode, layers):
  """Returns the weights of Keras layers in cuDNN's order."""
  matrices, biases = [], []
  for layer in layers:
    weights = layer.get_weights()
    for kernel, recurrent, bias in zip(weights[0::3], weights[1::3], weights[2::3], strict=True):
      # Keras has the update gate of a GRU first, cuDNN the reset gate; only GRUs have two biases in Keras.
      order = [1, 0, 2] if mode == "gru" else range({"lstm": 4, "rnn_tanh": 1}[mode])
      for matrix in (kernel, recurrent):
        gates = np.split(matrix, len(order), axis=1)
        matrices += [gates[i].T.ravel() for i in order]
      for vector in bias if bias.ndim == 2 else (bias, np.zeros_like(bias)):
        gates = np.split(vector, len(order))
        biases += [gates[i] for i in order]
  return np.concatenate([*matrices, *biases])


def _states(num):
  return np.zeros((num, 3, _UNITS), np.float32)


@pytest.mark.parametrize("mode", ["lstm", "gru", "rnn_tanh"])
@pytest.mark.parametrize(("num_layers", "bidirectional"), [(1, False), (2, True)])
def test_networks_equal_keras(mode, num_layers, bidirectional):
  layers = _keras_layers(mode, num_layers, bidirectional)
  expected, masked = _X, _X
  mask = np.arange(7) < _LENGTHS[:, None]
  for layer in layers:
    expected, masked = layer(expected), layer(masked, mask=mask)
  num_states = num_layers * (2 if bidirectional else 1)
  attrs = {"rnn_mode": mode, "direction": "bidirectional" if bidirectional else "unidirectional"}
  params = _packed(mode, layers)
  states = _states(num_states)
  got, *_ = _run("CudnnRNN", _X.swapaxes(0, 1), states, states, params, **attrs)
  np.testing.assert_allclose(np.swapaxes(got, 0, 1), expected, rtol=1e-4, atol=1e-5)
  batch_major = states.swapaxes(0, 1)
  got, h, *_ = _run("CudnnRNNV3", _X, batch_major, batch_major, params, _LENGTHS, time_major=False, **attrs)
  np.testing.assert_allclose(got, np.where(mask[..., None], masked, 0), rtol=1e-4, atol=1e-5)
  np.testing.assert_allclose(h[:, -2 if bidirectional else -1], _last(np.asarray(masked))[:, :_UNITS], rtol=1e-4)


def _last(outputs):
  return outputs[np.arange(3), _LENGTHS - 1]


def test_initial_and_last_states_of_an_lstm():
  import keras

  (layer,) = _keras_layers("lstm", 1, False)
  start = [_RNG.normal(size=(3, _UNITS)).astype(np.float32) for _ in range(2)]
  expected = keras.layers.LSTM(_UNITS, return_sequences=True, return_state=True)
  expected.build((None, None, 4))
  expected.set_weights(layer.get_weights())
  want = expected(_X, initial_state=start)
  inputs = [_X.swapaxes(0, 1), *(s[None] for s in start), _packed("lstm", [layer])]
  output, h, c, _, host = _run("CudnnRNNV2", *inputs)
  for got, reference in zip((np.swapaxes(output, 0, 1), h[0], c[0]), want, strict=True):
    np.testing.assert_allclose(got, reference, rtol=1e-4, atol=1e-5)
  assert host.dtype == np.int8


def test_packed_weights_are_unpacked_and_packed_again():
  sizes = 2, _UNITS, 4
  attrs = {"rnn_mode": "gru", "direction": "bidirectional"}
  (size,) = lowering("CudnnRNNParamsSize").function(*sizes, S=np.dtype(np.int32), **attrs)
  params = _RNG.normal(size=size).astype(np.float32)
  arrays = lowering("CudnnRNNParamsToCanonicalV2").function(*sizes, params, **attrs)
  weights, biases = list(arrays[:24]), list(arrays[24:])
  assert [w.shape for w in weights[:6]] == [(5, 4)] * 3 + [(5, 5)] * 3
  assert [w.shape for w in weights[12:15]] == [(5, 10)] * 3
  assert len(weights) == len(biases) == 24
  again = lowering("CudnnRNNCanonicalToParams").function(*sizes, weights, biases, **attrs)
  np.testing.assert_array_equal(again, params)
  with pytest.raises(GraftaxError, match="expected"):
    lowering("CudnnRNNCanonicalToParamsV2").function(*sizes, weights[1:], biases[1:], **attrs)


@pytest.mark.parametrize(
  ("attrs", "match"),
  [({"dropout": 0.5}, "dropout=0.5"), ({"input_mode": "skip_input"}, "skip_input"), ({"num_proj": 3}, "num_proj=3")],
)
def test_other_networks_are_refused(attrs, match):
  states = _states(1)
  with pytest.raises(GraftaxError, match=match):
    lowering("CudnnRNNV3").function(_X, states, states, np.zeros(10, np.float32), _LENGTHS, **attrs)


def test_wrong_number_of_weights_is_refused():
  with pytest.raises(GraftaxError, match="params has 10 elements; expected 220"):
    lowering("CudnnRNN").function(_X, _states(1), _states(1), np.zeros(10, np.float32))
