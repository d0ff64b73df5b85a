"""Reductions and cumulative sums, with a neutral element in place of the padding."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from graftax.ops_jax._core.axes import canonical_axes, canonical_axis
from graftax.ops_jax._core.values import Value
from graftax.ops_jax.bounded.masks import (
  any_overflow,
  filled,
  masked_derivative,
  poisoned,
  valid_mask,
  with_lengths_along,
)
from graftax.ops_jax.bounded.rules import BoundedCall, carries
from graftax.ops_jax.bounded.values import BoundedArray, is_bounded
from graftax.ops_jax.math.integer_mean import integer_mean
from graftax.xla_call_module.lax_extras import highest, identity, lowest

__all__ = ["reduction"]

_MONOIDS = {
  "Sum": "add",
  "EuclideanNorm": "add",
  "Prod": "multiply",
  "Max": "maximum",
  "Min": "minimum",
  "All": "and",
  "Any": "or",
}


@carries(*_MONOIDS, "Mean")
def reduction(call: BoundedCall, inputs: Sequence[Value]) -> Sequence[Value]:
  """Reduces along known axes."""
  x, indices = inputs
  if not is_bounded(x):
    call.refuse("the list of axes has a size that depends on data")
  axes = canonical_axes(call.node.op, call.static(indices, tuple[int, ...], "reduction_indices"), x.padded.ndim)
  reduced = [axis for axis in axes if x.lengths[axis] is not None]
  keep_dims = bool(call.attrs.get("keep_dims", False))
  if call.node.op == "Mean" and reduced:
    result = _mean(x, axes, keep_dims)
  elif call.node.op == "Mean":
    result = call.run_one(x.padded, indices)
  else:
    result = call.run_one(filled(x, identity(_MONOIDS[call.node.op], x.dtype), reduced), indices)
  lengths = [None if axis in axes else length for axis, length in enumerate(x.lengths) if keep_dims or axis not in axes]
  return [_without(call, x, result, lengths, reduced)]


def _without(
  call: BoundedCall, x: BoundedArray, result: jax.Array, lengths: Sequence[Any], reduced: Sequence[int]
) -> Value:
  """Returns a result that has combined the elements along some axes; invalid if the data exceeded the bound there."""
  overflow = any_overflow(with_lengths_along(x, reduced)) if reduced else None
  return call.made(poisoned(result, overflow), lengths, x.may_overflow)


def _mean(x: BoundedArray, axes: Sequence[int], keep_dims: bool) -> jax.Array:
  """Returns the mean of the valid elements along axes."""
  count: Any = 1
  for axis in axes:
    length = x.lengths[axis]
    count = count * (x.padded.shape[axis] if length is None else length)
  if not jnp.issubdtype(x.dtype, jnp.inexact):
    return integer_mean(filled(x, 0, axes), tuple(axes), keep_dims, count)
  precision = jnp.promote_types(x.dtype, jnp.float32)
  total = jnp.sum(filled(x, 0, axes).astype(precision), tuple(axes), keepdims=keep_dims)
  with jax.debug_nans(False):
    return (total / count.astype(jnp.finfo(precision).dtype)).astype(x.dtype)


@carries("ArgMax", "ArgMin")
def arg_reduction(call: BoundedCall, inputs: Sequence[Value]) -> Sequence[Value]:
  """Finds the position of an extremum. If there are no elements the result is invalid, where TensorFlow raises."""
  x, dimension = inputs
  if not is_bounded(x):
    call.refuse("the axis has a size that depends on data")
  axis = canonical_axis(call.node.op, call.static(dimension, int, "dimension"), x.padded.ndim)
  lengths = [length for i, length in enumerate(x.lengths) if i != axis]
  if x.lengths[axis] is None:
    return [call.made(call.run_one(x.padded, dimension), lengths, x.may_overflow)]
  if not x.padded.shape[axis]:
    call.refuse("it looks for an extremum among no elements")
  if x.dtype == bool:
    x = BoundedArray(x.padded.astype(jnp.int32), x.lengths, x.may_overflow)
  neutral = lowest if call.node.op == "ArgMax" else highest
  result = call.run_one(filled(x, neutral(x.dtype), [axis]), dimension)
  result = poisoned(result, x.lengths[axis] == 0)
  return [_without(call, x, result, lengths, [axis])]


@carries("Cumsum", "Cumprod")
def cumulative(call: BoundedCall, inputs: Sequence[Value]) -> Sequence[Value]:
  """Runs along an axis. In reverse, padding comes first and is neutral."""
  x, axis_value = inputs
  if not is_bounded(x):
    call.refuse("the axis has a size that depends on data")
  axis = canonical_axis(call.node.op, call.static(axis_value, int, "axis"), x.padded.ndim)
  neutral = 0 if call.node.op == "Cumsum" else 1
  result = call.run_one(filled(x, neutral, [axis]), axis_value)
  return [call.made(masked_derivative(result, valid_mask(result.shape, x.lengths)), x.lengths, x.may_overflow)]


@carries("Softmax", "LogSoftmax")
def softmax(call: BoundedCall, inputs: Sequence[Value]) -> Sequence[Value]:
  """Normalizes along the last axis."""
  (x,) = inputs
  last = x.padded.ndim - 1
  padded = x.padded
  if x.lengths[last] is not None:
    # A row without valid elements must not be NaN, or its derivative would be.
    mask = valid_mask(padded.shape, x.lengths, [last]) | (x.lengths[last] == 0)
    padded = jnp.where(mask, padded, jnp.asarray(-np.inf, padded.dtype))
  result = call.run_one(padded)
  return [call.made(masked_derivative(result, valid_mask(result.shape, x.lengths)), x.lengths, x.may_overflow)]
