"""Transformations of a function in JAX, and what TensorFlow computes in their place."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from graftax.testing._tensorflow import TensorFlow, TfFunction, TfTensor
from graftax.testing.pytrees import Leaf

__all__ = ["TRANSFORMATIONS", "Transformation"]

_NUM_EXAMPLES = 3
_NUM_STEPS = 3


@dataclass(frozen=True, slots=True)
class Transformation:
  """A transformation of a function from an array to an array of the same shape.

  Attributes:
    in_jax: takes a JAX function and an array; returns a list of arrays.
    in_tensorflow: the same numbers, from TensorFlow, a TensorFlow function and an array.
  """

  in_jax: Callable[[Any, Array], list[Leaf]]
  in_tensorflow: Callable[[TensorFlow, TfFunction, np.ndarray], list[TfTensor]]


def _directions(x: Array | np.ndarray) -> np.ndarray:
  """Returns numbers of the shape of `x` that weight results, or that are a tangent."""
  return np.linspace(-1.0, 1.5, int(np.prod(x.shape))).reshape(x.shape)


def _examples(x: Array | np.ndarray) -> Array | np.ndarray:
  return np.stack([1.0, -0.7, 0.4]).reshape(_NUM_EXAMPLES, *[1] * x.ndim) * x


def _tf_jvp(tf: TensorFlow, f: TfFunction, x: np.ndarray) -> list[TfTensor]:
  value, jacobian = _tf_jacobian(tf, f, x)
  return [value, tf.tensordot(jacobian, _directions(x), x.ndim)]


def _tf_jacobian(tf: TensorFlow, f: TfFunction, x: np.ndarray) -> tuple[TfTensor, TfTensor]:
  point = tf.constant(x)
  with tf.GradientTape(persistent=True) as tape:
    tape.watch(point)
    value = f(point)
  return value, tape.jacobian(value, point, unconnected_gradients="zero", experimental_use_pfor=False)


def _tf_hessian(tf: TensorFlow, f: TfFunction, x: np.ndarray) -> list[TfTensor]:
  point = tf.constant(x)
  with tf.GradientTape(persistent=True) as outer:
    outer.watch(point)
    with tf.GradientTape() as inner:
      inner.watch(point)
      total = tf.reduce_sum(_directions(x) * f(point))
    gradient = inner.gradient(total, point, unconnected_gradients="zero")
  return [outer.jacobian(gradient, point, unconnected_gradients="zero", experimental_use_pfor=False)]


def _scan(f: Any, x: Array) -> list[Array]:
  def run(x: Array) -> tuple[Array, Array]:
    def step(carry: Array, scale: Array) -> tuple[Array, Array]:
      new = f(carry * scale)
      return new, new.sum()

    last, sums = jax.lax.scan(step, x, 1.0 / (1.0 + jnp.arange(_NUM_STEPS)))
    return jnp.vdot(_directions(x), last), sums

  (total, sums), gradient = jax.value_and_grad(run, has_aux=True)(x)
  return [total, sums, gradient]


def _tf_scan(tf: TensorFlow, f: TfFunction, x: np.ndarray) -> list[TfTensor]:
  point = tf.constant(x)
  sums = []
  with tf.GradientTape() as tape:
    tape.watch(point)
    carry = point
    for step in range(_NUM_STEPS):
      carry = f(carry * (1.0 / (1.0 + step)))
      sums.append(tf.reduce_sum(carry))
    total = tf.reduce_sum(_directions(x) * carry)
  return [total, tf.stack(sums), tape.gradient(total, point, unconnected_gradients="zero")]


def _tf_remat(tf: TensorFlow, f: TfFunction, x: np.ndarray) -> list[TfTensor]:
  point = tf.constant(x)
  with tf.GradientTape() as tape:
    tape.watch(point)
    total = tf.reduce_sum(_directions(x) * f(point))
  return [tape.gradient(total, point, unconnected_gradients="zero")]


TRANSFORMATIONS: Mapping[str, Transformation] = {
  "vmap": Transformation(
    lambda f, x: [jax.vmap(f)(_examples(x))],
    lambda tf, f, x: [tf.stack([f(tf.constant(example)) for example in _examples(x)])],
  ),
  "jvp": Transformation(lambda f, x: list(jax.jvp(f, (x,), (_directions(x),))), _tf_jvp),
  "jacrev": Transformation(lambda f, x: [jax.jacrev(f)(x)], lambda tf, f, x: [_tf_jacobian(tf, f, x)[1]]),
  "hessian": Transformation(lambda f, x: [jax.hessian(lambda x: jnp.vdot(_directions(x), f(x)))(x)], _tf_hessian),
  "scan": Transformation(_scan, _tf_scan),
  "remat": Transformation(
    lambda f, x: [jax.grad(lambda x: jnp.vdot(_directions(x), jax.checkpoint(f)(x)))(x)], _tf_remat
  ),
}
"""Each is compared for every function of the table; `scan` with its gradient, `remat` as the gradient."""
