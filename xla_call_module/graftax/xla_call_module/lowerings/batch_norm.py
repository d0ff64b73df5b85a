"""Batch normalization: inference, training, and its gradient."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from graftax.xla_call_module import ir
from graftax.xla_call_module.context import Context
from graftax.xla_call_module.registry import register

__all__: list[str] = []


def _along(feature: int, x: Array, vector: Array) -> Array:
  return lax.broadcast_in_dim(vector, x.shape, (feature,))


def _in_32_bits(rule: Callable[..., Any]) -> Callable[..., Any]:
  """Returns a rule that computes 16-bit floats in float32, as XLA does, because sums over a batch lose precision."""

  def run(context: Context, op: ir.Op, *operands: Array) -> Any:
    if op.type.dtype.itemsize >= 4:
      return rule(context, op, *operands)
    results = rule(context, op, *(lax.convert_element_type(x, np.float32) for x in operands))
    results = results if isinstance(results, tuple) else (results,)
    return tuple(lax.convert_element_type(x, kind.dtype) for x, kind in zip(results, op.types, strict=True))

  return run


@register("stablehlo.batch_norm_inference", attributes=("epsilon", "feature_index"))
@_in_32_bits
def _batch_norm_inference(context: Context, op: ir.Op, x: Array, *vectors: Array) -> Array:
  return _normalized(op, x, *vectors)


def _normalized(op: ir.Op, x: Array, *vectors: Array) -> Array:
  scale, offset, mean, variance = (_along(op.attrs.integer("feature_index"), x, vector) for vector in vectors)
  epsilon = np.asarray(op.attrs.real("epsilon"), x.dtype)
  return (x - mean) / lax.sqrt(variance + epsilon) * scale + offset


def _moments(x: Array, feature: int) -> tuple[Array, Array]:
  axes = tuple(axis for axis in range(x.ndim) if axis != feature)
  mean = jnp.mean(x, axes)
  return mean, jnp.mean(lax.square(x - _along(feature, x, mean)), axes)


@register("stablehlo.batch_norm_training", attributes=("epsilon", "feature_index"))
@_in_32_bits
def _batch_norm_training(context: Context, op: ir.Op, x: Array, scale: Array, offset: Array) -> tuple[Array, ...]:
  mean, variance = _moments(x, op.attrs.integer("feature_index"))
  return _normalized(op, x, scale, offset, mean, variance), mean, variance


@register("stablehlo.batch_norm_grad", attributes=("epsilon", "feature_index"))
@_in_32_bits
def _batch_norm_grad(
  context: Context, op: ir.Op, x: Array, scale: Array, mean: Array, variance: Array, ct: Array
) -> tuple[Array, ...]:
  feature = op.attrs.integer("feature_index")
  axes = tuple(axis for axis in range(x.ndim) if axis != feature)
  count = np.asarray(x.size / x.shape[feature], x.dtype)
  centered = x - _along(feature, x, mean)
  deviation = lax.sqrt(variance + np.asarray(op.attrs.real("epsilon"), x.dtype))
  ct_offset = jnp.sum(ct, axes)
  ct_scale = jnp.sum(ct * centered / _along(feature, x, deviation), axes)
  per_feature = count * ct - _along(feature, x, ct_offset)
  per_feature -= centered * _along(feature, x, jnp.sum(ct * centered, axes) / lax.square(deviation))
  return _along(feature, x, scale / deviation / count) * per_feature, ct_scale, ct_offset
