"""Running sums, products and extremes."""

import functools
from typing import Any

import numpy as np
from jax import lax

from graftax.convert.jax2tf.tf_ops.builder import Builder
from graftax.convert.jax2tf.tf_ops.registry import Unsupported, rule
from graftax.convert.jax2tf.tf_ops.rules._common import (
  at_least_float32,
  cast,
  compare,
  full,
  is_nan,
  pad,
  select,
  static_slice,
)
from graftax.convert.jax2tf.tf_ops.rules._traced import traced
from graftax.convert.jax2tf.tf_ops.rules.control_flow import loop
from graftax.convert.jax2tf.tf_ops.rules.shaping import positions
from graftax.convert.jax2tf.tf_ops.tensors import Tensor
from graftax.xla_call_module.lax_extras import highest, lowest


def _running(primitive: str, op: str, combines: str, neutral: int) -> None:
  @rule(primitive)
  def running(b: Builder, x: Tensor, *, axis: int, reverse: bool) -> Tensor:
    if b.lacks(op):
      return _doubling(b, combines, x, axis, reverse, neutral)
    wide = at_least_float32(b, x)  # TensorFlow's kernels for 16 bits also accumulate in 16 bits
    return cast(b, b.op(op, wide, np.int32(axis), shape=x.shape, reverse=reverse), x.dtype)


_running("cumsum", "Cumsum", "AddV2", 0)
_running("cumprod", "Cumprod", "Mul", 1)


@rule("cumlogsumexp")
def cumlogsumexp(b: Builder, x: Tensor, *, axis: int, reverse: bool) -> Tensor:
  """Returns the logarithm of running sums of exponentials.

  TensorFlow's kernel skips NaN, and makes NaN of two infinities.
  """
  wide = at_least_float32(b, x)
  found = b.op("CumulativeLogsumexp", wide, np.int32(axis), shape=x.shape, reverse=reverse)
  for mark, value in ((compare(b, "Equal", x, np.inf), np.inf), (is_nan(b, x), np.nan)):
    number = b.op("Cumsum", cast(b, mark, np.int32), np.int32(axis), shape=x.shape, reverse=reverse)
    found = select(b, compare(b, "Greater", number, 0), full(b, found, value), found, x.shape)
  return cast(b, found, x.dtype)


@rule("cummax")
def cummax(b: Builder, x: Tensor, *, axis: int, reverse: bool) -> Tensor:
  """Returns the largest element so far."""
  return _extreme(b, "Maximum", x, axis, reverse)


@rule("cummin")
def cummin(b: Builder, x: Tensor, *, axis: int, reverse: bool) -> Tensor:
  """Returns the smallest element so far."""
  return _extreme(b, "Minimum", x, axis, reverse)


def _extreme(b: Builder, op: str, x: Tensor, axis: int, reverse: bool) -> Tensor:
  """Returns running extremes."""
  size = x.shape[axis]
  if x.dtype.kind == "c":
    return _complex_extreme(b, op, x, axis, reverse)
  if not isinstance(size, int):
    return _extreme_in_a_loop(b, op, x, axis, reverse)
  return _doubling(b, op, x, axis, reverse, lowest(x.dtype) if op == "Maximum" else highest(x.dtype))


def _complex_extreme(b: Builder, op: str, x: Tensor, axis: int, reverse: bool) -> Tensor:
  if not isinstance(x.shape[axis], int):
    raise Unsupported("running extremes of complex numbers along an axis of unknown size")
  of_two = lax.max if op == "Maximum" else lax.min
  return traced(b, functools.partial(lax.associative_scan, of_two, axis=axis, reverse=reverse), [x])


def _doubling(b: Builder, op: str, x: Tensor, axis: int, reverse: bool, neutral: Any) -> Tensor:
  """Returns running results of an op. After step `n`, each element is that of `2**n` elements up to it."""
  size = x.shape[axis]
  if not isinstance(size, int):
    raise Unsupported(f"running results of {op} along an axis of unknown size for {b.library.consumer}")
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


def _extreme_in_a_loop(b: Builder, op: str, x: Tensor, axis: int, reverse: bool) -> Tensor:
  """Returns running extremes along an axis of symbolic size, with as many steps as that size needs."""

  def test(inner: Builder, given: list[Tensor]) -> list[Tensor]:
    return [inner.op("Less", given[0], inner.size(x.shape[axis]), shape=())]

  def step(inner: Builder, given: list[Tensor]) -> list[Tensor]:
    distance, before = given
    of_all = positions(inner, x.shape[axis : axis + 1], 0, np.dtype(np.int32))
    # An extreme may have an element twice, so that positions before the first one can be the first one.
    if reverse:
      last = inner.size(x.shape[axis] - 1)
      moved = inner.op("Minimum", inner.op("AddV2", of_all, distance, shape=of_all.shape), last, shape=of_all.shape)
    else:
      moved = inner.op("Sub", of_all, distance, shape=of_all.shape)
      moved = inner.op("Maximum", moved, np.int32(0), shape=of_all.shape)
    others = inner.op("GatherV2", before, moved, np.int32(axis), shape=x.shape)
    return [inner.op("Mul", distance, np.int32(2), shape=()), inner.op(op, before, others, shape=x.shape)]

  return loop(b, [b.constant(1, np.int32), x], test, step)[1]
