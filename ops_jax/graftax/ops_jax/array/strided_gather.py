"""Gathers at known positions with a constant stride, as slices.

The frames of `tf.signal.stft` are such gathers, and so are the first token of a text and the first positions of an
embedding. XLA computes a slice as a part of the operations around it.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

__all__ = ["strided_gather"]

# Each slice is one operation more for XLA to compile.
_MAX_SLICES = 8


def strided_gather(x: jax.Array, positions: np.ndarray, axis: int) -> jax.Array | None:
  """Returns `jnp.take(x, positions, axis)` if that is at most eight slices.

  Args:
    x: `[*before, n, *after]`, any dtype.
    positions: integers in `[0, n)`, any shape. They are slices if they have one stride, which is not 0, along the
      longer of their first and their last axis, and few elements along all others.
    axis: position of `n`.

  Returns:
    `[*before, *positions.shape, *after]`, or None.
  """
  if not positions.size:
    return None
  if not positions.ndim:
    return lax.index_in_dim(x, int(positions), axis, keepdims=False)
  is_first = positions.shape[0] >= positions.shape[-1]
  rows = np.moveaxis(positions, 0 if is_first else -1, 0)
  starts = rows[0].ravel()
  stride = _common_stride(rows) if starts.size <= _MAX_SLICES else None
  if stride is None:
    return None
  slices = [_slice(x, int(start), len(rows), stride, axis) for start in starts]
  if positions.ndim == 1:
    return slices[0]
  before, after = x.shape[:axis], x.shape[axis + 1 :]
  if is_first:
    # XLA:CPU joins long rows three times as fast as it stacks them along an axis of their own.
    slices = [part.reshape(*before, len(rows), math.prod(after)) for part in slices]
  return jnp.concatenate(slices, axis + is_first).reshape(*before, *positions.shape, *after)


def _common_stride(rows: np.ndarray) -> int | None:
  """Returns by how much each row is larger than the one before it, if that is one number other than 0."""
  steps = np.diff(rows.astype(np.int64), axis=0)
  stride = int(steps.flat[0]) if steps.size else 1
  return stride if stride and np.all(steps == stride) else None


def _slice(x: jax.Array, start: int, size: int, stride: int, axis: int) -> jax.Array:
  """Returns the elements at `start`, `start + stride` and so on along an axis; the stride may be negative."""
  last = start + (size - 1) * stride
  low, high = min(start, last), max(start, last)
  found = lax.slice_in_dim(x, low, high + 1, abs(stride), axis)
  return found if stride > 0 else lax.rev(found, (axis,))
