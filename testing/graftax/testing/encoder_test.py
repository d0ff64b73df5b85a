"""Tests a MultiHeadAttention encoder saved by Keras and loaded without Keras: values, gradients and any batch size."""

import jax
import keras
import numpy as np
import pytest
import tensorflow as tf

from graftax import savedmodel_io

_LENGTH, _WIDTH, _VOCABULARY = 6, 8, 17


def _encoder():
  keras.utils.set_random_seed(0)
  tokens = keras.Input((_LENGTH,), dtype="int32", name="tokens")
  x = keras.layers.Embedding(_VOCABULARY, _WIDTH)(tokens)
  for _ in range(2):
    attended = keras.layers.MultiHeadAttention(2, 4)(x, x, use_causal_mask=True)
    x = keras.layers.LayerNormalization()(x + attended)
    hidden = keras.layers.Dense(16, activation="gelu")(x)
    x = keras.layers.LayerNormalization()(x + keras.layers.Dense(_WIDTH)(hidden))
  return keras.Model(tokens, keras.layers.Dense(3, name="logits")(keras.layers.GlobalAveragePooling1D()(x)))


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
  path = str(tmp_path_factory.mktemp("encoder"))
  _encoder().export(path, verbose=False)
  return path


@pytest.mark.parametrize("batch_size", [1, 2, 5])
def test_values_equal_tensorflows_at_every_batch_size(saved, batch_size):
  tokens = np.random.default_rng(batch_size).integers(0, _VOCABULARY, (batch_size, _LENGTH)).astype(np.int32)
  fn, params = savedmodel_io.load(saved).convert()
  (got,) = jax.jit(fn)(params, tokens=tokens)[0].values()
  restored = tf.saved_model.load(saved)
  np.testing.assert_allclose(got, restored.serve(tokens), rtol=1e-4, atol=1e-5)


def test_parameter_gradients_equal_tensorflows(saved):
  tokens = np.arange(2 * _LENGTH, dtype=np.int32).reshape(2, _LENGTH) % _VOCABULARY
  fn, params = savedmodel_io.load(saved).convert()

  def loss(params):
    (logits,) = fn(params, tokens=tokens)[0].values()
    return (logits**2).sum()

  gradients = jax.jit(jax.grad(loss))(params)
  restored = tf.saved_model.load(saved)
  with tf.GradientTape() as tape:
    expected = tf.reduce_sum(restored.serve(tokens) ** 2)
  variables = [variable for variable in restored.variables if variable.trainable]
  for variable, gradient in zip(variables, tape.gradient(expected, variables), strict=True):
    dense = tf.convert_to_tensor(gradient)
    np.testing.assert_allclose(gradients[variable.name.removesuffix(":0")], dense, rtol=1e-3, atol=1e-4)


def test_it_exports_again_with_a_symbolic_batch(saved):
  fn, params = savedmodel_io.load(saved).convert()
  shape = jax.export.symbolic_shape(f"batch, {_LENGTH}")
  structs = jax.tree.map(lambda p: jax.ShapeDtypeStruct(p.shape, p.dtype), params)
  exported = jax.export.export(jax.jit(lambda p, t: fn(p, tokens=t)[0]))(structs, jax.ShapeDtypeStruct(shape, np.int32))
  for batch_size in (1, 3):
    tokens = np.ones((batch_size, _LENGTH), np.int32)
    (got,) = exported.call(params, tokens).values()
    (expected,) = fn(params, tokens=tokens)[0].values()
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)
