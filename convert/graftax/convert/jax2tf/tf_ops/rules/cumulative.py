"""Running sums, products and extremes."""

import numpy as np

from graftax.convert.jax2tf.tf_ops.builder import Builder
from graftax.convert.jax2tf.tf_ops.registry import Unsupported, rule
from graftax.convert.jax2tf.tf_ops.rules._common import cast, highest, lowest, pad, static_slice
from graftax.convert.jax2tf.tf_ops.tensors import Tensor


def _running(primitive: str, op: str) -> None:
  @rule(primitive)
  def running(b: Builder, x: Tensor, *, axis: int, reverse: bool) -> Tensor:
    return b.op(op, x, np.int32(axis), shape=x.shape, reverse=reverse)


_running("cumsum", "Cumsum")
_running("cumprod", "Cumprod")


@rule("cumlogsumexp")
def cumlogsumexp(b: Builder, x: Tensor, *, axis: int, reverse: bool) -> Tensor:
  """Returns the logarithm of running sums of exponentials."""
  return b.op("CumulativeLogsumexp", x, np.int32(axis), shape=x.shape, reverse=reverse)


@rule("cummax")
def cummax(b: Builder, x: Tensor, *, axis: int, reverse: bool) -> Tensor:
  """Returns the largest element so far."""
  return _extreme(b, "Maximum", x, axis, reverse)


@rule("cummin")
def cummin(b: Builder, x: Tensor, *, axis: int, reverse: bool) -> Tensor:
  """Returns the smallest element so far."""
  return _extreme(b, "Minimum", x, axis, reverse)


def _extreme(b: Builder, op: str, x: Tensor, axis: int, reverse: bool) -> Tensor:
  """Returns running extremes. After step `n`, each element is the extreme of `2**n` elements up to it."""
  size = x.shape[axis]
  if not isinstance(size, int):
    raise Unsupported(f"along an axis of symbolic size {size}")
  if x.dtype == np.bool_:
    return cast(b, _extreme(b, op, cast(b, x, np.int32), axis, reverse), np.dtype(bool))
  neutral = lowest(x.dtype) if op == "Maximum" else highest(x.dtype)
  distance = 1
  while distance < size:
    starts, ends = [0] * x.rank, list(x.shape)
    starts[axis], ends[axis] = (distance, size) if reverse else (0, size - distance)
    padding = [(0, 0)] * x.rank
    padding[axis] = (0, distance) if reverse else (distance, 0)
    moved = pad(b, static_slice(b, x, starts, ends), padding, neutral)
    x = b.op(op, x, moved, shape=x.shape)
    distance *= 2
  return x
