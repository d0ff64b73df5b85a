"""Keras models as they are handed over, and arguments of classes that TensorFlow flattens or leaves alone."""

import dataclasses
import pickle

import jax
import keras
import numpy as np
import pytest
import tensorflow as tf

import graftax.convert as gc

X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)


@pytest.fixture(scope="module")
def model():
  keras.utils.set_random_seed(0)
  inputs = keras.Input((3,), name="features")
  hidden = keras.layers.Dense(4, activation="swish", name="hidden")(inputs)
  hidden = keras.layers.BatchNormalization(name="norm")(keras.layers.Dropout(0.5, seed=1)(hidden))
  return keras.Model(inputs, {"out": keras.layers.Dense(2, name="out")(hidden)})


def test_a_model_converts_with_an_example_or_with_the_inputs_it_was_built_for(model):
  expected = model(X)["out"]
  for args in ((X,), (tf.TensorSpec([None, 3]),), ()):
    fn, params = gc.convert(model, *args)
    np.testing.assert_allclose(jax.jit(fn)(params, X)[0]["out"], expected, rtol=1e-5, atol=1e-6)
  assert fn.__name__ == "Functional"
  assert {p.trainable for p in params.values()} == {True, False}
  again, same = pickle.loads(pickle.dumps((fn, params)))
  np.testing.assert_allclose(again(same, X)[0]["out"], expected, rtol=1e-5, atol=1e-6)


def test_training_updates_batch_statistics(model):
  statistics = keras.Sequential([keras.Input((3,)), keras.layers.BatchNormalization(name="norm")])
  fn, params = gc.convert(statistics, X, training=True)
  (name,) = [name for name in params if name.endswith("moving_mean")]
  _, new_params = jax.jit(fn, static_argnames="training")(params, X, training=True)
  statistics(X, training=True)
  (moving_mean,) = [v for v in statistics.weights if v.path.endswith("moving_mean")]
  np.testing.assert_allclose(new_params[name], moving_mean.value, rtol=1e-6)
  with pytest.raises(gc.InputError, match="'training': got False"):
    fn(params, X, training=False)
  with pytest.raises(gc.InputError, match="'training': got a traced value.*static_argnames"):
    jax.jit(fn)(params, X, training=True)


def test_a_layer_and_a_method_of_a_model_convert(model):
  fn, params = gc.convert(model.get_layer("hidden"), X)
  np.testing.assert_allclose(fn(params, X)[0], model.get_layer("hidden")(X), rtol=1e-5)
  fn, params = gc.convert(model.call, X)
  np.testing.assert_allclose(fn(params, X)[0]["out"], model(X)["out"], rtol=1e-5, atol=1e-6)


attr = pytest.importorskip("attr")


@attr.s
class Batch:
  x = attr.ib()
  weight = attr.ib(default=None)


@dataclasses.dataclass(frozen=True)
class Settings:
  power: int = 2


def test_attrs_classes_are_containers_and_dataclasses_are_fixed_values():
  @tf.function
  def tf_fn(batch, settings):
    return Batch(batch.x**settings.power, batch.weight)

  fn = gc.convert_functional(tf_fn, Batch(X), Settings(3))
  got = fn(Batch(X), Settings(3))
  assert type(got) is Batch and got.weight is None
  np.testing.assert_allclose(got.x, X**3, rtol=1e-6)
