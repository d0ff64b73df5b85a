"""Broadcasting: BroadcastTo, BroadcastArgs, BroadcastGradientArgs."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from graftax.ops_jax._core.errors import InvalidInputError
from graftax.ops_jax._core.known import INT32, is_small
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array, Static, StaticSizes, is_known, shape_vector

__all__ = ["broadcast_args", "broadcast_gradient_args", "broadcast_to"]


@register("BroadcastTo", ignores=("T", "Tidx"), symbolic=True, data_inputs=("input",))
def broadcast_to(input: Array, shape: StaticSizes) -> Array:
  """Broadcasts `input` to a shape, by numpy's rules.

  Source op: `tf.raw_ops.BroadcastTo`.

  Args:
    input: any shape and dtype.
    shape: the result's shape; symbolic dimensions are allowed. Must be known.

  Raises:
    InvalidInputError: the shapes are incompatible.
  """
  try:
    if is_known(input) and (input.dtype == object or is_small(shape)):
      return np.broadcast_to(input, shape)
    return jnp.broadcast_to(input, shape)
  except ValueError as e:
    raise InvalidInputError(f"BroadcastTo: shape {input.shape} does not broadcast to {shape!r}.") from e


@register("BroadcastArgs")
def broadcast_args(s0: Static[tuple[int, ...]], s1: Static[tuple[int, ...]], *, T: np.dtype = INT32) -> np.ndarray:
  """Returns the known shape to which arrays of shapes `s0` and `s1` broadcast.

  Raises:
    InvalidInputError: they do not.
  """
  a, b = _same_rank(s0, s1)
  return shape_vector([_broadcast_dim("BroadcastArgs", x, y) for x, y in zip(a, b, strict=True)], T)


@register("BroadcastGradientArgs")
def broadcast_gradient_args(
  s0: Static[tuple[int, ...]], s1: Static[tuple[int, ...]], *, T: np.dtype = INT32
) -> tuple[np.ndarray, np.ndarray]:
  """Returns the axes to sum over in the gradients of two arrays that were broadcast together, known.

  Source op: `tf.raw_ops.BroadcastGradientArgs`.

  Args:
    s0: shape of the first array. Must be known.
    s1: shape of the second.
    T: dtype of the results.

  Returns:
    For each array, the axes of the broadcast shape along which it has size 1; none if the shapes are equal.

  Raises:
    InvalidInputError: the shapes do not broadcast.
  """
  a, b = _same_rank(s0, s1)
  for x, y in zip(a, b, strict=True):
    _broadcast_dim("BroadcastGradientArgs", x, y)
  if tuple(s0) == tuple(s1):
    return np.zeros(0, T), np.zeros(0, T)
  axes = [np.array([axis for axis, dim in enumerate(dims) if _is_one(dim)], T) for dims in (a, b)]
  return axes[0], axes[1]


def _same_rank(s0: tuple[Any, ...], s1: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
  rank = max(len(s0), len(s1))
  return (1,) * (rank - len(s0)) + tuple(s0), (1,) * (rank - len(s1)) + tuple(s1)


def _is_one(dim: Any) -> bool:
  return isinstance(dim, (int, np.integer)) and dim == 1


def _broadcast_dim(op: str, x: Any, y: Any) -> Any:
  if _is_one(x):
    return y
  if _is_one(y) or x == y:
    return x
  # Whether a symbolic dimension fits is checked by the op that broadcasts; this one keeps the larger dimension.
  if isinstance(x, int) and isinstance(y, int):
    raise InvalidInputError(f"{op}: dimensions {x} and {y} do not broadcast.")
  return x if isinstance(x, int) else y
