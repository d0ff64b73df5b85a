"""Convolutions with dilations, which TensorFlow writes with SpaceToBatchND, against TensorFlow."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tensorflow as tf

import graftax.convert as gc

_RNG = np.random.default_rng(0)


def _draw(*shape):
  return tf.constant(_RNG.normal(size=shape), tf.float32)


def _convolution(kernel, dilations, padding):
  return lambda x: tf.nn.convolution(x, kernel, padding=padding, dilations=dilations)


_KERAS = tf.keras.layers


def _layer(layer, shape):
  layer.build((None, *shape[1:]))
  return layer


_CASES = {
  "1-D, causal": (_layer(_KERAS.Conv1D(3, 3, dilation_rate=4, padding="causal"), (2, 13, 5)), (2, 13, 5)),
  "1-D": (_convolution(_draw(4, 5, 3), [3], "SAME"), (2, 13, 5)),
  "2-D, same": (_convolution(_draw(3, 4, 5, 2), [2, 3], "SAME"), (2, 13, 9, 5)),
  "2-D, valid": (_convolution(_draw(3, 2, 5, 2), [4, 1], "VALID"), (2, 13, 9, 5)),
  "2-D, wider than the input": (_convolution(_draw(3, 3, 5, 2), 12, "SAME"), (2, 5, 9, 5)),
  "2-D, groups": (_convolution(_draw(3, 3, 2, 6), 2, "SAME"), (2, 13, 9, 4)),
  "2-D, depthwise": (_layer(_KERAS.DepthwiseConv2D(3, dilation_rate=3, padding="same"), (2, 13, 9, 4)), (2, 13, 9, 4)),
  "3-D": (_convolution(_draw(2, 3, 2, 3, 2), [2, 1, 3], "SAME"), (1, 5, 6, 7, 3)),
}


@pytest.mark.parametrize("name", _CASES)
@pytest.mark.parametrize("batch", [None, 2])
def test_values_and_derivatives_without_spatial_blocks(name, batch):
  layer, shape = _CASES[name]
  fn = tf.function(layer).get_concrete_function(tf.TensorSpec((batch, *shape[1:]), tf.float32))
  assert "BatchToSpaceND" in {op.type for op in fn.graph.get_operations()}
  x = tf.constant(_RNG.normal(size=(batch or shape[0], *shape[1:])), tf.float32)
  with tf.GradientTape() as tape:
    tape.watch(x)
    expected = layer(x)
    loss = tf.reduce_sum(tf.sin(expected))
  converted, params = gc.convert(fn)

  def call(x):
    return converted(params, x)[0]

  np.testing.assert_allclose(jax.jit(call)(x.numpy()), expected, rtol=1e-4, atol=1e-4)
  gradient = jax.jit(jax.grad(lambda x: jnp.sum(jnp.sin(call(x)))))(x.numpy())
  np.testing.assert_allclose(gradient, tape.gradient(loss, x), rtol=1e-4, atol=1e-4)
  assert "transpose[" not in str(jax.make_jaxpr(call)(x.numpy()))


def test_a_size_that_is_unknown_keeps_the_blocks():
  layer, shape = _CASES["2-D, same"]
  x = tf.constant(_RNG.normal(size=shape), tf.float32)
  fn, params = gc.convert(tf.function(layer).get_concrete_function(tf.TensorSpec((None, None, None, 5), tf.float32)))
  np.testing.assert_allclose(jax.jit(fn)(params, x.numpy())[0], layer(x), rtol=1e-4, atol=1e-4)
