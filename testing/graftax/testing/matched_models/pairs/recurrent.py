"""Recurrent models of Keras against cells of equinox and flax.nnx, in models that were written for this suite."""

import equinox as eqx
import jax
import jax.numpy as jnp
from flax import nnx

from graftax.testing.matched_models.pair import Pair
from graftax.testing.matched_models.pairs.keras_models import VOCABULARY, model_of_images, tokens

_WIDTH, _UNITS, _CLASSES = 24, 32, 10


def _keras(layers):
  import keras

  ids = keras.Input((None,), dtype="int32")
  x = keras.layers.Embedding(VOCABULARY, _WIDTH)(ids)
  for layer in layers(keras.layers):
    x = layer(x)
  return keras.Model(ids, keras.layers.Dense(_CLASSES)(x))


def _run(cell, xs, *, reverse=False):
  """Returns the states after each step of a cell of equinox."""
  zeros = jnp.zeros(_UNITS)
  start = (zeros, zeros) if isinstance(cell, eqx.nn.LSTMCell) else zeros

  def step(carry, x):
    carry = cell(x, carry)
    return carry, carry[0] if isinstance(carry, tuple) else carry

  return jax.lax.scan(step, start, xs, reverse=reverse)[1]


class _Stack(eqx.Module):
  table: eqx.nn.Embedding
  cells: list[eqx.Module]
  readout: eqx.nn.Linear

  def __init__(self, cell, key):
    keys = jax.random.split(key, 5)
    self.table = eqx.nn.Embedding(VOCABULARY, _WIDTH, key=keys[0])
    self.cells = [cell(width, _UNITS, key=k) for width, k in zip((_WIDTH, _UNITS, _UNITS), keys[1:4], strict=True)]
    self.readout = eqx.nn.Linear(_UNITS, _CLASSES, key=keys[4])

  def __call__(self, ids):
    x = jax.vmap(self.table)(ids)
    for cell in self.cells:
      x = _run(cell, x)
    return self.readout(x[-1])


class _BothWays(eqx.Module):
  table: eqx.nn.Embedding
  there: eqx.Module
  back: eqx.Module
  readout: eqx.nn.Linear

  def __init__(self, cell, key):
    keys = jax.random.split(key, 4)
    self.table = eqx.nn.Embedding(VOCABULARY, _WIDTH, key=keys[0])
    self.there, self.back = (cell(_WIDTH, _UNITS, key=k) for k in keys[1:3])
    self.readout = eqx.nn.Linear(2 * _UNITS, _CLASSES, key=keys[3])

  def __call__(self, ids):
    x = jax.vmap(self.table)(ids)
    return self.readout(jnp.concatenate([_run(self.there, x)[-1], _run(self.back, x, reverse=True)[0]]))


class _Tagger(nnx.Module):
  def __init__(self, cell, *, rngs):
    self.embed = nnx.Embed(VOCABULARY, _WIDTH, rngs=rngs)
    self.both = nnx.Bidirectional(
      nnx.RNN(cell(_WIDTH, _UNITS, rngs=rngs)), nnx.RNN(cell(_WIDTH, _UNITS, rngs=rngs), reverse=True, keep_order=True)
    )
    self.out = nnx.Linear(2 * _UNITS, _CLASSES, rngs=rngs)

  def __call__(self, ids):
    return self.out(self.both(self.embed(ids)))


def _pair(model, target, target_fn):
  x = tokens()
  fn, params = model_of_images(model, x)
  return Pair(fn, params, target, target_fn, (x,))


def lstm_equinox():
  model = _keras(
    lambda k: [k.LSTM(_UNITS, return_sequences=True), k.LSTM(_UNITS, return_sequences=True), k.LSTM(_UNITS)]
  )
  return _pair(model, _Stack(eqx.nn.LSTMCell, jax.random.key(0)), lambda target, x: jax.vmap(target)(x))


def gru_equinox():
  model = _keras(lambda k: [k.Bidirectional(k.GRU(_UNITS))])
  return _pair(model, _BothWays(eqx.nn.GRUCell, jax.random.key(0)), lambda target, x: jax.vmap(target)(x))


def lstm_nnx():
  model = _keras(lambda k: [k.Bidirectional(k.LSTM(_UNITS, return_sequences=True))])
  return _pair(model, _Tagger(nnx.LSTMCell, rngs=nnx.Rngs(0)), lambda target, x: target(x))
