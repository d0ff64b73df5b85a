"""`jax.lax.reduce` with any function, with derivatives."""

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from graftax.xla_call_module.lax_extras.arrays import ArrayFunction

__all__ = ["mapped", "reduce_arrays"]

F = TypeVar("F", bound=Callable[..., Any])


def mapped(function: F, num_axes: int) -> F:
  """Returns the function mapped over the leading `num_axes` axes of its arguments.

  Args:
    function: a function of arrays without those axes.
    num_axes: how often to apply `jax.vmap`; 0 returns the function itself. All arguments must have these axes.

  Example:
    >>> mapped(lambda x: x.sum(), 1)(jax.numpy.ones((2, 3)))
    Array([3., 3.], dtype=float32)
  """
  for _ in range(num_axes):
    function = jax.vmap(function)
  return function


def reduce_arrays(
  combine: ArrayFunction, arrays: Sequence[Any], inits: Sequence[Any], axes: Sequence[int]
) -> tuple[Any, ...]:
  """Returns arrays reduced together along axes by `lax.reduce`; derivatives are those of an equal reduction by a tree.

  If an initial value is not a numpy array, the tree also computes the value, because JAX does not batch initial values.

  Args:
    combine: associative; `combine(*left, *right)` returns a tuple with one scalar per array, or a single scalar.
    arrays: of one shape, any dtypes.
    inits: a scalar for each array.
    axes: not negative.

  Example:
    >>> x, zero = jax.numpy.arange(6.0).reshape(2, 3), jax.numpy.float32(0)
    >>> reduce_arrays(lambda left, right: left + right, [x], [zero], [1])
    (Array([ 3., 12.], dtype=float32),)
  """

  def pairwise(left: Any, right: Any) -> Any:
    result = combine(*left, *right)
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)

  @jax.custom_jvp
  def run(arrays: Any, inits: Any) -> Any:
    return tuple(lax.reduce(tuple(arrays), tuple(inits), pairwise, tuple(axes)))

  @run.defjvp
  def _(primals: Any, tangents: Any) -> Any:
    return jax.jvp(lambda xs, starts: _tree(pairwise, xs, starts, axes), primals, tangents)

  if not all(isinstance(x, np.ndarray) for x in inits):
    return _tree(pairwise, arrays, inits, axes)
  return tuple(run(tuple(arrays), tuple(inits)))


def _tree(combine: ArrayFunction, arrays: Sequence[Any], inits: Sequence[Any], axes: Sequence[int]) -> tuple[Any, ...]:
  """Reduces in log2(n) differentiable elementwise steps. Neighbors are combined, which preserves the order."""
  rank = jnp.ndim(arrays[0])
  rest = [axis for axis in range(rank) if axis not in axes]
  kept = tuple(arrays[0].shape[axis] for axis in rest)
  count = math.prod(arrays[0].shape[axis] for axis in axes)
  xs = tuple(lax.transpose(x, (*axes, *rest)).reshape(count, *kept) for x in arrays)
  step = mapped(combine, 1 + len(kept))
  starts = tuple(jnp.broadcast_to(start, (1, *kept)) for start in inits)
  while xs[0].shape[0] > 1:
    even = xs[0].shape[0] // 2 * 2
    odd = tuple(x[even:] for x in xs)
    xs = step(tuple(x[0:even:2] for x in xs), tuple(x[1:even:2] for x in xs))
    xs = tuple(jnp.concatenate(pair) for pair in zip(xs, odd, strict=True))
  if xs[0].shape[0]:
    starts = step(starts, xs)
  return tuple(x.reshape(kept) for x in starts)
