"""Running sums, products and log-sum-exps along one axis: Cumsum, Cumprod, CumulativeLogsumexp."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from graftax.ops_jax._core.axes import canonical_axis
from graftax.ops_jax._core.integer_facts import NO_FACTS, IntegerFacts
from graftax.ops_jax._core.known import keep_known
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array, Static

__all__ = ["cumprod", "cumsum", "cumulative_logsumexp"]


@register("Cumsum", ignores=("T", "Tidx"), symbolic=True)
def cumsum(
  x: Array, axis: Static[int], *, exclusive: bool = False, reverse: bool = False, facts: IntegerFacts = NO_FACTS
) -> Array:
  """Computes the running sum along one axis.

  Source op: `tf.raw_ops.Cumsum`.

  Args:
    x: `[..., n, ...]`, any numeric dtype.
    axis: position of `n`; negative counts from the end. Must be known.
    exclusive: leave out the current element, so the first result is 0.
    reverse: run from the last element to the first.
    facts: what is known of traced integers.

  Returns:
    Same shape and dtype as `x`. Integer overflow wraps.

  Raises:
    StaticInputError: `axis` depends on traced data.
    InvalidInputError: no such axis.

  Example:
    >>> cumsum(np.array([3, 1, 4], np.int32), 0, exclusive=True)
    array([0, 3, 4], dtype=int32)
  """
  axis = canonical_axis("Cumsum", axis, x.ndim)
  result = keep_known(
    lambda a: _np_cumulate(np.cumsum, a, axis, 0, exclusive, reverse),
    lambda a: lax.cumsum(_shifted(a, axis, 0, exclusive, reverse), axis, reverse=reverse),
    x,
  )
  return facts.running_sum(result, x)


@register("Cumprod", ignores=("T", "Tidx"), symbolic=True)
def cumprod(x: Array, axis: Static[int], *, exclusive: bool = False, reverse: bool = False) -> Array:
  """Computes the running product along one axis; see `cumsum`. With `exclusive` the first result is 1.

  Differs from TF: where `x` is 0 the gradient is the true derivative; TensorFlow's is 0 there. The gradient for
  complex numbers is conjugated as for every other op; TensorFlow's is not.
  """
  axis = canonical_axis("Cumprod", axis, x.ndim)
  return keep_known(
    lambda a: _np_cumulate(np.cumprod, a, axis, 1, exclusive, reverse),
    lambda a: lax.cumprod(_shifted(a, axis, 1, exclusive, reverse), axis, reverse=reverse),
    x,
  )


@register("CumulativeLogsumexp", ignores=("T", "Tidx"))
def cumulative_logsumexp(x: Array, axis: Static[int], *, exclusive: bool = False, reverse: bool = False) -> Array:
  """Computes the running `log(sum(exp(x)))` along one axis; see `cumsum`. With `exclusive` the first result is -inf.

  Differs from TF: every result after a NaN is NaN; TensorFlow's kernel loses the NaN.
  """
  axis = canonical_axis("CumulativeLogsumexp", axis, x.ndim)
  return lax.cumlogsumexp(_shifted(jnp.asarray(x), axis, -np.inf, exclusive, reverse), axis, reverse=reverse)


def _shifted(x: jax.Array, axis: int, fill: Any, exclusive: bool, reverse: bool) -> jax.Array:
  if not exclusive:
    return x
  config = [(0, 0, 0)] * x.ndim
  config[axis] = (-1, 1, 0) if reverse else (1, -1, 0)
  return lax.pad(x, jnp.asarray(fill, x.dtype), config)


def _np_cumulate(
  function: Callable[..., np.ndarray], x: np.ndarray, axis: int, fill: Any, exclusive: bool, reverse: bool
) -> np.ndarray:
  x = np.flip(x, axis) if reverse else x
  if exclusive:
    first = np.full_like(np.take(x, [0], axis), fill) if x.shape[axis] else np.take(x, [], axis)
    x = np.concatenate([first, np.delete(x, -1, axis)], axis) if x.shape[axis] else x
  result = function(x, axis=axis, dtype=x.dtype)
  return np.flip(result, axis) if reverse else result
