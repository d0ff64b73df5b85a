"""Functions that TensorFlow saved as a SavedModel and loaded again."""

import tempfile

from graftax.testing.harness.conversion_case import Collector, integers, normal

define = Collector("saved")

_LOOSE = (1e-4, 1e-5)


def _reloaded(tf, module, name="serve"):
  with tempfile.TemporaryDirectory() as folder:
    tf.saved_model.save(module, folder)
    loaded = tf.saved_model.load(folder)
  function = getattr(loaded, name)
  # The loaded object owns the variables.
  function.keep_alive = loaded
  return function


@define(normal(2, 3), checks=("value", "jit", "grad", "param_grad", "batch", "export"))
def module_with_variables(tf):
  class Net(tf.Module):
    def __init__(self):
      super().__init__()
      self.w = tf.Variable(normal(3, 4, seed=1), name="w")

    @tf.function(input_signature=[tf.TensorSpec([None, 3])])
    def serve(self, x):
      return {"y": tf.tanh(x @ self.w)}

  return _reloaded(tf, Net())


@define(normal(2, 3), checks=("value", "jit", "state"))
def module_with_state(tf):
  class Counter(tf.Module):
    def __init__(self):
      super().__init__()
      self.total = tf.Variable(tf.zeros([3]), name="total")

    @tf.function(input_signature=[tf.TensorSpec([None, 3])])
    def serve(self, x):
      self.total.assign_add(tf.reduce_sum(x, 0))
      return x + self.total

  return _reloaded(tf, Counter())


@define(normal(3, 4), checks=("value", "jit", "grad", "batch"))
def module_with_custom_gradient(tf):
  class Net(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec([None, 4])])
    def serve(self, x):
      @tf.custom_gradient
      def reverse(x):
        return tf.identity(x), lambda dy: -2.0 * dy

      return reverse(x) * x

  with tempfile.TemporaryDirectory() as folder:
    options = tf.saved_model.SaveOptions(experimental_custom_gradients=True)
    module = Net()
    tf.saved_model.save(module, folder, options=options)
    loaded = tf.saved_model.load(folder)
  return loaded.serve


@define(normal(3, 4), checks=("value", "jit", "grad", "batch"))
def module_with_control_flow(tf):
  class Net(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec([None, 4])])
    def serve(self, x):
      for i in tf.range(3):
        if i % 2 == 0:
          x = tf.sin(x)
        else:
          x = x * 2.0
      return x

  return _reloaded(tf, Net())


@define(normal(2, 6, 4), checks=("value", "jit", "grad", "param_grad", "batch"), tolerance=_LOOSE)
def exported_keras_recurrent(tf):
  model = tf.keras.Sequential([tf.keras.Input((6, 4)), tf.keras.layers.LSTM(5), tf.keras.layers.Dense(2)])
  return _reloaded_export(tf, model)


@define(normal(2, 8, 8, 3), checks=("value", "jit", "grad", "param_grad", "batch", "export"), tolerance=_LOOSE)
def exported_keras_convolutional(tf):
  layers = tf.keras.layers
  body = [layers.Conv2D(4, 3), layers.BatchNormalization(), layers.ReLU(), layers.Flatten(), layers.Dense(2)]
  model = tf.keras.Sequential([tf.keras.Input((8, 8, 3)), *body])
  return _reloaded_export(tf, model)


@define(integers(2, 5, high=9), checks=("value", "jit", "param_grad", "batch"), tolerance=_LOOSE)
def exported_keras_transformer(tf):
  layers = tf.keras.layers
  tokens = tf.keras.Input((5,), dtype="int32")
  x = layers.Embedding(9, 8)(tokens)
  x = layers.LayerNormalization()(x + layers.MultiHeadAttention(2, 4)(x, x))
  return _reloaded_export(tf, tf.keras.Model(tokens, layers.Dense(2)(x)))


def _reloaded_export(tf, model):
  with tempfile.TemporaryDirectory() as folder:
    model.export(folder, verbose=False)
    loaded = tf.saved_model.load(folder)
  function = loaded.serve
  function.keep_alive = loaded
  return function
