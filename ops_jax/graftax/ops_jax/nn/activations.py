"""Activation functions with TensorFlow's derivatives: Relu, LeakyRelu, Elu, Selu, Softplus, Softsign, Softmax."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from graftax.ops_jax._core.derivatives import with_partials
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array

__all__ = [
  "elu",
  "elu_grad",
  "leaky_relu",
  "leaky_relu_grad",
  "log_softmax",
  "relu",
  "relu6",
  "relu6_grad",
  "relu_grad",
  "selu",
  "selu_grad",
  "sigmoid_grad",
  "softmax",
  "softplus",
  "softplus_grad",
  "softsign",
  "softsign_grad",
  "tanh_grad",
]

_SELU_SCALE = 1.0507009873554804934193349852946
_SELU_SCALE_ALPHA = 1.7580993408473768599402175208123


def _number(value: float, like: Array) -> Array:
  # Rounded to the element type first, as TensorFlow's kernels do; a Python float would be rounded after the operation.
  return np.asarray(value, like.dtype)


def _where(condition: Array, x: Array) -> Array:
  # TensorFlow's CPU kernels multiply by the condition, which differs for infinite gradients; under XLA it is a select.
  return jnp.where(condition, x, _number(0, x))


@register("ReluGrad", ignores=("T",))
def relu_grad(gradients: Array, features: Array) -> Array:
  """Returns `gradients` where `features > 0`, else 0. Same shape and dtype.

  Source op: `tf.raw_ops.ReluGrad`.

  Args:
    gradients: any shape.
    features: input or output of `Relu`, same shape and dtype.

  Differs from TF: where `features <= 0`, an infinite or NaN gradient gives 0 (as under XLA) instead of NaN.
  """
  gradients, features = jnp.asarray(gradients), jnp.asarray(features)
  return _where(features > 0, gradients)


@register("Relu6Grad", ignores=("T",))
def relu6_grad(gradients: Array, features: Array) -> Array:
  """Returns `gradients` where `0 < features < 6`, else 0. Same shape and dtype."""
  gradients, features = jnp.asarray(gradients), jnp.asarray(features)
  return _where((features > 0) & (features < _number(6, features)), gradients)


@register("LeakyReluGrad", ignores=("T",))
def leaky_relu_grad(gradients: Array, features: Array, *, alpha: float = 0.2) -> Array:
  """Returns `gradients` where `features > 0`, else `alpha * gradients`. Same shape and dtype."""
  gradients, features = jnp.asarray(gradients), jnp.asarray(features)
  return jnp.where(features > 0, gradients, gradients * _number(alpha, gradients))


@register("EluGrad", ignores=("T",))
def elu_grad(gradients: Array, outputs: Array) -> Array:
  """Returns `gradients * (outputs + 1)` where `outputs < 0`, else `gradients`; `outputs` are those of `Elu`."""
  gradients, outputs = jnp.asarray(gradients), jnp.asarray(outputs)
  # The factor is selected, not the product, so that derivatives at infinite outputs are not 0 * inf.
  return gradients * jnp.where(outputs < 0, outputs + _number(1, outputs), _number(1, outputs))


@register("SeluGrad", ignores=("T",))
def selu_grad(gradients: Array, outputs: Array) -> Array:
  """Returns the gradient of `Selu`, given its `outputs`. Same shape and dtype."""
  gradients, outputs = jnp.asarray(gradients), jnp.asarray(outputs)
  slope = jnp.where(outputs < 0, outputs + _number(_SELU_SCALE_ALPHA, outputs), _number(_SELU_SCALE, outputs))
  return gradients * slope


@register("SoftplusGrad", ignores=("T",))
def softplus_grad(gradients: Array, features: Array) -> Array:
  """Returns `gradients / (exp(-features) + 1)`, same shape and dtype."""
  return gradients * _logistic(jnp.asarray(features))


@register("SoftsignGrad", ignores=("T",))
def softsign_grad(gradients: Array, features: Array) -> Array:
  """Returns `gradients / (1 + |features|) ** 2`, same shape and dtype."""
  features = jnp.asarray(features)
  return gradients / lax.square(_number(1, features) + jnp.abs(features))


@register("SigmoidGrad", ignores=("T",))
def sigmoid_grad(y: Array, dy: Array) -> Array:
  """Returns the gradient of `Sigmoid`, given its result `y`: `dy * y * (1 - y)`. Same shape and dtype."""
  y = jnp.asarray(y)
  return dy * y * (_number(1, y) - y)


@register("TanhGrad", ignores=("T",))
def tanh_grad(y: Array, dy: Array) -> Array:
  """Returns the gradient of `Tanh`, given its result `y`: `dy * (1 - y ** 2)`. Same shape and dtype."""
  y = jnp.asarray(y)
  return dy * (_number(1, y) - y * y)


# The derivative y * (1 - y) of `lax.logistic` loses all digits where y is almost 1.
_logistic: Callable[..., Array] = with_partials(lax.logistic, lambda t, y, x: t * (y * _logistic(-x)))
_relu = with_partials(lambda x: jnp.maximum(x, _number(0, x)), lambda t, y, x: relu_grad(t, y))
_relu6 = with_partials(lambda x: jnp.clip(x, 0, 6), lambda t, y, x: relu6_grad(t, y))
_elu = with_partials(lambda x: jnp.where(x < 0, jnp.expm1(x), x), lambda t, y, x: elu_grad(t, y))
_selu = with_partials(
  lambda x: jnp.where(x < 0, _number(_SELU_SCALE_ALPHA, x) * jnp.expm1(x), _number(_SELU_SCALE, x) * x),
  lambda t, y, x: selu_grad(t, y),
)


@register("Relu", ignores=("T",))
def relu(features: Array) -> Array:
  """Returns `max(features, 0)`, same shape and dtype; NaN stays NaN. Derivative 0 at 0.

  Source op: `tf.raw_ops.Relu`.

  Args:
    features: any shape; floating point or integer.

  Example:
    >>> jax.grad(relu)(0.0).item()
    0.0
  """
  return _relu(jnp.asarray(features))


@register("Relu6", ignores=("T",))
def relu6(features: Array) -> Array:
  """Returns `min(max(features, 0), 6)`, same shape and dtype. Derivative 0 at 0 and at 6."""
  return _relu6(jnp.asarray(features))


@register("LeakyRelu", ignores=("T",))
def leaky_relu(features: Array, *, alpha: float = 0.2) -> Array:
  """Returns `features` where positive, else `alpha * features`. Same shape and dtype; derivative `alpha` at 0."""
  features = jnp.asarray(features)
  return jnp.where(features > 0, features, features * _number(alpha, features))


@register("Elu", ignores=("T",))
def elu(features: Array) -> Array:
  """Returns `features` where not negative, else `exp(features) - 1`. Same shape and dtype."""
  return _elu(jnp.asarray(features))


@register("Selu", ignores=("T",))
def selu(features: Array) -> Array:
  """Returns the scaled `Elu` that keeps mean 0 and variance 1 of its inputs. Same shape and dtype."""
  return _selu(jnp.asarray(features))


def _softplus_value(x: Array) -> Array:
  # The three pieces of TensorFlow's kernel; the outer two are exact to the last digit of the type.
  threshold = np.asarray(-(np.log(jnp.finfo(x.dtype).eps.astype(np.float64)) + 2.0), x.dtype)
  exp_x = jnp.exp(x)
  return jnp.where(x > threshold, x, jnp.where(x < -threshold, exp_x, jnp.log1p(exp_x)))


_softplus = with_partials(_softplus_value, lambda t, y, x: softplus_grad(t, x))
_softsign = with_partials(lambda x: x / (_number(1, x) + jnp.abs(x)), lambda t, y, x: softsign_grad(t, x))


@register("Softplus", ignores=("T",))
def softplus(features: Array) -> Array:
  """Returns `log(exp(features) + 1)` without overflow, same shape and dtype."""
  return _softplus(jnp.asarray(features))


@register("Softsign", ignores=("T",))
def softsign(features: Array) -> Array:
  """Returns `features / (1 + |features|)`, same shape and dtype."""
  return _softsign(jnp.asarray(features))


def _in_float32(function: Any, x: Array) -> Array:
  x = jnp.asarray(x)
  wide = x.astype(jnp.float32) if jnp.finfo(x.dtype).bits < 32 else x
  return function(wide, axis=-1).astype(x.dtype)


@register("Softmax", ignores=("T",))
def softmax(logits: Array) -> Array:
  """Returns exponentials along the last axis, divided by their sum.

  Source op: `tf.raw_ops.Softmax`.

  Args:
    logits: `[..., num_classes]`, floating point.

  Returns:
    Same shape and dtype.

  Differs from TF: 16-bit types are summed in float32; TensorFlow's CPU kernel sums float16 in float16.
  """
  return _in_float32(jax.nn.softmax, logits)


@register("LogSoftmax", ignores=("T",))
def log_softmax(logits: Array) -> Array:
  """Returns the logarithm of `Softmax`, accurate where a probability is tiny. Same shape and dtype.

  Differs from TF: 16-bit types are summed in float32; TensorFlow's CPU kernel sums float16 in float16.
  """
  return _in_float32(jax.nn.log_softmax, logits)
