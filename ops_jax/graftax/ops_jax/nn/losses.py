"""Losses: SoftmaxCrossEntropyWithLogits, SparseSoftmaxCrossEntropyWithLogits, L2Loss."""

from typing import Any

import jax
import jax.numpy as jnp

from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array
from graftax.xla_call_module.lax_extras import default_promotion

__all__ = ["l2_loss", "softmax_cross_entropy_with_logits", "sparse_softmax_cross_entropy_with_logits"]


@register("L2Loss", ignores=("T",))
def l2_loss(t: Array) -> Array:
  """Returns `sum(t ** 2) / 2`, a scalar of the same dtype."""
  t = jnp.asarray(t)
  return (jnp.sum(_widened(t * t)) / 2).astype(t.dtype)


def _widened(x: Array) -> Array:
  return x.astype(jnp.float32) if jnp.finfo(x.dtype).bits < 32 else x


@jax.custom_jvp
def _cross_entropy(features: Array, labels: Array) -> tuple[Array, Array]:
  log_probabilities = jax.nn.log_softmax(features, axis=-1)
  return -jnp.sum(labels * log_probabilities, axis=-1), jnp.exp(log_probabilities) - labels


@_cross_entropy.defjvp
@default_promotion()
def _cross_entropy_jvp(primals: Any, tangents: Any) -> Any:
  features, labels = primals
  features_dot, labels_dot = tangents
  loss, backprop = _cross_entropy(features, labels)
  # TensorFlow uses the second output as the derivative of the first, which is exact if the labels sum to 1.
  loss_dot = jnp.sum(backprop * features_dot - labels_dot * jax.nn.log_softmax(features, axis=-1), axis=-1)
  _, backprop_dot = jax.jvp(lambda f: jax.nn.softmax(f, axis=-1), (features,), (features_dot,))
  return (loss, backprop), (loss_dot, backprop_dot)


@register("SoftmaxCrossEntropyWithLogits", ignores=("T",))
def softmax_cross_entropy_with_logits(features: Array, labels: Array) -> tuple[Array, Array]:
  """Computes the cross entropy between label distributions and the softmax of logits, with its derivative.

  Source op: `tf.raw_ops.SoftmaxCrossEntropyWithLogits`.

  Args:
    features: `[batch, num_classes]` logits; broadcasts against `labels`.
    labels: `[batch, num_classes]`; each row should sum to 1. Same dtype.

  Returns:
    loss: `[batch]`.
    backprop: `[batch, num_classes]`, `softmax(features) - labels`. Differentiation uses it as the derivative of
      `loss`, as TensorFlow does, even if rows of `labels` do not sum to 1.
  """
  features, labels = jnp.asarray(features), jnp.asarray(labels)
  shape = jnp.broadcast_shapes(features.shape, labels.shape)
  wide = [_widened(jnp.broadcast_to(x, shape)) for x in (features, labels)]
  loss, backprop = _cross_entropy(*wide)
  return loss.astype(features.dtype), backprop.astype(features.dtype)


@register("SparseSoftmaxCrossEntropyWithLogits", ignores=("T", "Tlabels"))
def sparse_softmax_cross_entropy_with_logits(features: Array, labels: Array) -> tuple[Array, Array]:
  """Computes the cross entropy between class numbers and the softmax of logits, with its derivative.

  Source op: `tf.raw_ops.SparseSoftmaxCrossEntropyWithLogits`.

  Args:
    features: `[batch, num_classes]` logits.
    labels: `[batch]`, the class of each row, an integer in `[0, num_classes)`.

  Returns:
    loss: `[batch]`.
    backprop: `[batch, num_classes]`, the derivative of `loss`.

  Differs from TF: a label out of range gives NaN in its row (as on GPU and XLA); TensorFlow's CPU kernel raises.
  """
  features, labels = jnp.asarray(features), jnp.asarray(labels)
  num_classes = features.shape[-1]
  logits = _widened(features)
  is_valid = (labels >= 0) & (labels < num_classes)
  one_hot = labels[..., None] == jnp.arange(num_classes, dtype=labels.dtype)
  one_hot = jnp.where(is_valid[..., None], one_hot.astype(logits.dtype), jnp.nan)
  log_probabilities = jax.nn.log_softmax(logits, axis=-1)
  loss = -jnp.sum(jnp.where(one_hot == 0, 0, one_hot * log_probabilities), axis=-1)
  backprop = jax.nn.softmax(logits, axis=-1) - one_hot
  return loss.astype(features.dtype), backprop.astype(features.dtype)
