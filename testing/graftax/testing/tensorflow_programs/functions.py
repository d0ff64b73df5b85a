"""The table: TensorFlow functions from an array to an array of the same shape."""

import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np

from graftax.testing._tensorflow import TensorFlow, TfFunction, TfTensor
from graftax.testing.harness.conversion_case import Collector

__all__ = ["FUNCTIONS"]

_COLLECTORS = {kind: Collector(kind) for kind in ("operations", "loops", "custom_gradients", "variables", "saved")}


def _row(kind: str, *shape: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
  return _COLLECTORS[kind](np.random.default_rng(0).uniform(-1.0, 1.0, shape or (4,)))


_operation = _row("operations")
_loop = _row("loops")
_custom_gradient = _row("custom_gradients")
_variable = _row("variables")
_saved = _row("saved")


@_operation
def sine_of_cosine(tf: TensorFlow, x: TfTensor) -> TfTensor:
  return tf.sin(tf.cos(x) * x)


@_operation
def log_of_exponentials(tf: TensorFlow, x: TfTensor) -> TfTensor:
  return tf.math.log1p(tf.exp(x)) - tf.nn.log_softmax(x)


@_operation
def selected_by_sign(tf: TensorFlow, x: TfTensor) -> TfTensor:
  return tf.where(x > 0.0, x * x, tf.sin(x))


@_operation
def gathered_and_scattered(tf: TensorFlow, x: TfTensor) -> TfTensor:
  moved = tf.gather(x, [2, 0, 3, 1]) * x
  return tf.tensor_scatter_nd_add(moved, [[0], [3]], tf.stack([x[1] ** 2, x[2] ** 3]))


@_operation
def split_and_concatenated(tf: TensorFlow, x: TfTensor) -> TfTensor:
  a, b = tf.split(x, 2)
  return tf.concat([b * a, tf.cumsum(a + b)], 0)


@_row("operations", 3, 3)
def solved(tf: TensorFlow, x: TfTensor) -> TfTensor:
  return tf.linalg.solve(x @ tf.transpose(x) + 3.0 * tf.eye(3, dtype=x.dtype), x)


@_row("operations", 3, 3)
def cholesky_factor(tf: TensorFlow, x: TfTensor) -> TfTensor:
  return tf.linalg.cholesky(x @ tf.transpose(x) + 3.0 * tf.eye(3, dtype=x.dtype))


@_row("operations", 2, 3)
def attention(tf: TensorFlow, x: TfTensor) -> TfTensor:
  weights = tf.nn.softmax(tf.einsum("ik,jk->ij", x, x), axis=-1)
  return tf.einsum("ij,jk->ik", weights, x)


@_row("operations", 2, 3)
def normalized_rows(tf: TensorFlow, x: TfTensor) -> TfTensor:
  mean, variance = tf.nn.moments(x, [-1], keepdims=True)
  return (x - mean) * tf.math.rsqrt(variance + 0.1)


@_row("operations", 1, 5, 2)
def convolution(tf: TensorFlow) -> TfFunction:
  kernel = np.random.default_rng(1).normal(size=(3, 2, 2)) * 0.4
  return lambda x: tf.tanh(tf.nn.conv1d(x, kernel, stride=1, padding="SAME"))


@_loop
def while_loop_of_fixed_length(tf: TensorFlow, x: TfTensor) -> TfTensor:
  return tf.while_loop(lambda i, y: i < 4, lambda i, y: (i + 1, tf.sin(y) + 0.1 * y), (0, x))[1]


@_loop
def while_loop_until_small(tf: TensorFlow, x: TfTensor) -> TfTensor:
  return tf.while_loop(lambda y: tf.reduce_sum(y * y) > 0.2, lambda y: (0.7 * tf.sin(y),), (x,))[0]


@_loop
def for_loop_of_autograph(tf: TensorFlow) -> TfFunction:
  @tf.function
  def f(x: TfTensor) -> TfTensor:
    y = x
    for i in tf.range(3):
      if i % 2 == 0:
        y = tf.tanh(y + x)
      else:
        y = y * x
    return y

  return f


@_loop
def python_loop_over_a_range_of_tensors(tf: TensorFlow, x: TfTensor) -> TfTensor:
  y = x
  for _ in tf.range(3):
    y = tf.sin(y) * x + 0.5
  return y


@_loop
def scanned(tf: TensorFlow, x: TfTensor) -> TfTensor:
  return tf.scan(lambda carry, y: tf.tanh(carry * 0.5 + y), x)


@_loop
def mapped(tf: TensorFlow, x: TfTensor) -> TfTensor:
  return tf.map_fn(lambda y: y * tf.sin(y), x)


@_loop
def condition(tf: TensorFlow, x: TfTensor) -> TfTensor:
  return tf.cond(tf.reduce_sum(x) > 0.0, lambda: tf.sin(x), lambda: x * x * x)


@_loop
def switch(tf: TensorFlow, x: TfTensor) -> TfTensor:
  index = tf.cast(tf.reduce_sum(tf.cast(x > 0.0, tf.int32)) % 3, tf.int32)
  return tf.switch_case(index, [lambda: tf.sin(x), lambda: tf.exp(-x * x), lambda: x * tf.tanh(x)])


@_custom_gradient
def clipped_gradient(tf: TensorFlow) -> TfFunction:
  @tf.custom_gradient
  def clip(x: TfTensor) -> TfTensor:
    return tf.identity(x), lambda dy: dy * 0.3

  return lambda x: tf.sin(clip(x) * x)


@_custom_gradient
def straight_through(tf: TensorFlow) -> TfFunction:
  @tf.custom_gradient
  def rounded(x: TfTensor) -> TfTensor:
    return tf.round(x), lambda dy: dy

  return lambda x: rounded(x * 3.0) * x


@_custom_gradient
def stable_logarithm(tf: TensorFlow) -> TfFunction:
  @tf.custom_gradient
  def log1pexp(x: TfTensor) -> TfTensor:
    e = tf.exp(x)
    return tf.math.log(1.0 + e), lambda dy: dy * (1.0 - 1.0 / (1.0 + e))

  return lambda x: log1pexp(x) * x


@_custom_gradient
def custom_gradient_in_a_loop(tf: TensorFlow) -> TfFunction:
  @tf.custom_gradient
  def damp(x: TfTensor) -> TfTensor:
    return x * 1.1, lambda dy: dy * 0.5

  return lambda x: tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, damp(tf.sin(y))), (0, x))[1]


@_custom_gradient
def two_results(tf: TensorFlow) -> TfFunction:
  @tf.custom_gradient
  def both(a: TfTensor, b: TfTensor) -> TfTensor:
    return (a * b, a + b), lambda da, db: (da * b * 2.0 + db, db * a + da)

  def f(x: TfTensor) -> TfTensor:
    product, total = both(x, tf.sin(x))
    return product * total

  return f


@_variable
def affine(tf: TensorFlow) -> TfFunction:
  w = tf.Variable(np.random.default_rng(2).normal(size=(4, 4)) * 0.4, name="w")
  b = tf.Variable(np.linspace(-0.2, 0.2, 4), name="b")
  return lambda x: tf.tanh(tf.linalg.matvec(w, x) + b)


@_variable
def variable_in_a_loop(tf: TensorFlow) -> TfFunction:
  w = tf.Variable(np.linspace(0.5, 1.2, 4), name="w")
  return lambda x: tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, tf.sin(y * w)), (0, x))[1]


@_variable
def method_of_a_module(tf: TensorFlow) -> TfFunction:
  class Network(tf.Module):
    def __init__(self) -> None:
      super().__init__()
      rng = np.random.default_rng(3)
      self.layers = [tf.Variable(rng.normal(size=(4, 4)) * 0.5) for _ in range(3)]

    @tf.function
    def apply(self, x: TfTensor) -> TfTensor:
      for w in self.layers:
        x = tf.tanh(tf.linalg.matvec(w, x)) + x
      return x * 0.3

  network = Network()
  return lambda x: network.apply(x)  # a method of a tf.function does not keep its object


@_variable
def custom_gradient_of_a_variable(tf: TensorFlow) -> TfFunction:
  w = tf.Variable(np.linspace(-1.0, 1.0, 4), name="w")

  @tf.custom_gradient
  def scaled(x: TfTensor) -> TfTensor:
    def gradient(dy: TfTensor, variables: TfTensor = None) -> TfTensor:
      return dy * w * 2.0, [dy * x * 3.0 for _ in variables or ()]

    return x * w, gradient

  return lambda x: tf.sin(scaled(x)) + x


@_row("variables", 2, 3)
def keras_layers(tf: TensorFlow) -> TfFunction:
  tf.keras.utils.set_random_seed(0)
  inner = tf.keras.layers.Dense(5, activation="tanh", dtype="float64")
  outer = tf.keras.layers.Dense(3, activation="softplus", dtype="float64")
  model = tf.keras.Sequential([tf.keras.Input((3,), dtype="float64"), inner, outer])
  return lambda x: model(x) * 0.3


def _saved_and_loaded(tf: TensorFlow, function: TfFunction, **attributes: Any) -> TfFunction:
  module = tf.Module()
  module.attributes = attributes
  module.call = tf.function(function, input_signature=[tf.TensorSpec([None], tf.float64)])
  with tempfile.TemporaryDirectory() as folder:
    tf.saved_model.save(module, folder, options=tf.saved_model.SaveOptions(experimental_custom_gradients=True))
    loaded = tf.saved_model.load(folder)
  return lambda x: loaded.call(x)  # the function alone does not keep the variables


@_saved
def saved_network(tf: TensorFlow) -> TfFunction:
  w = tf.Variable(np.random.default_rng(4).normal(size=(4, 4)) * 0.4)
  return _saved_and_loaded(tf, lambda x: tf.tanh(tf.linalg.matvec(w, x)), w=w)


@_saved
def saved_loop(tf: TensorFlow) -> TfFunction:
  w = tf.Variable(np.float64(0.8))

  def f(x: TfTensor) -> TfTensor:
    scale = tf.identity(w)  # TensorFlow does not differentiate a loaded loop that reads a variable
    y = x
    for _ in tf.range(3):
      y = tf.sin(y * scale) + x
    return y

  return _saved_and_loaded(tf, f, w=w)


@_saved
def saved_custom_gradient(tf: TensorFlow) -> TfFunction:
  @tf.custom_gradient
  def half(x: TfTensor) -> TfTensor:
    return tf.identity(x), lambda dy: dy * 0.5

  return _saved_and_loaded(tf, lambda x: tf.sin(half(x) * x))


FUNCTIONS = {case.name: case for define in _COLLECTORS.values() for case in define.cases}
"""All functions by name, each of one float64 array."""
