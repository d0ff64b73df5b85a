"""Windows: reduce_window and the gradients of pooling."""

import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from graftax.convert.jax2tf.tf_ops.builder import Builder
from graftax.convert.jax2tf.tf_ops.registry import Unsupported, rule
from graftax.convert.jax2tf.tf_ops.rules._common import (
  cast,
  compare,
  full,
  is_nan,
  pad,
  reshape,
  select,
  static_slice,
  transpose,
)
from graftax.convert.jax2tf.tf_ops.rules.reductions import combined, reduced
from graftax.convert.jax2tf.tf_ops.rules.shaping import dilate
from graftax.convert.jax2tf.tf_ops.tensors import Tensor
from graftax.graphdef_ir import DType
from graftax.xla_call_module.lax_extras import identity, monoid_of_primitive, only_primitive

# A window of more elements along one axis would be too many nodes.
_MAX_SLICES = 64
_MAX_PATCHES = 256


def _neutral(primitive: str, x: Tensor) -> Any:
  """Returns what a primitive of two operands leaves unchanged."""
  monoid = monoid_of_primitive(primitive)
  assert monoid is not None, f"internal: {primitive} is not associative"
  if x.dtype.kind == "c" and primitive in ("max", "min"):
    edge = -np.inf if primitive == "max" else np.inf
    return complex(edge, edge)
  return identity(monoid, x.dtype)


def _register(name: str, by: str | None) -> None:
  """Registers the rule of windows reduced with a primitive, or with any function if `by` is None."""

  @rule(name, folds=by is not None, ignores=("consts",))
  def reduce_window(
    b: Builder,
    x: Tensor,
    *initial: Tensor,
    jaxpr: Any = None,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Any,
    base_dilation: Sequence[int],
    window_dilation: Sequence[int],
  ) -> Tensor:
    primitive = _primitive(jaxpr, len(initial)) if by is None else by
    found = _windows(b, x, primitive, window_dimensions, window_strides, padding, base_dilation, window_dilation)
    return combined(b, primitive, found, *initial) if initial else found


def _primitive(jaxpr: Any, num_initial: int) -> str:
  """Returns the primitive that a reducing function is.

  Raises:
    Unsupported: it is another function.
  """
  primitive = only_primitive(jaxpr)
  if num_initial != 1 or primitive not in ("add", "and", "max", "min", "mul", "or"):
    raise Unsupported("windows reduced with a function other than a sum, product, extreme, conjunction or disjunction")
  return primitive


_register("reduce_window", None)
_register("reduce_window_max", "max")
_register("reduce_window_min", "min")
_register("reduce_window_sum", "add")


def _windows(
  b: Builder,
  x: Tensor,
  primitive: str,
  sizes: Sequence[int],
  strides: Sequence[int],
  padding: Any,
  base_dilation: Sequence[int],
  window_dilation: Sequence[int],
) -> Tensor:
  neutral = _neutral(primitive, x)
  x = dilate(b, x, [n - 1 for n in base_dilation], neutral)
  x = pad(b, x, list(padding), neutral)
  windowed = [axis for axis, size in enumerate(sizes) if size != 1 or strides[axis] != 1]
  is_pooling = x.is_float and all(n == 1 for n in window_dilation) and _fits(x, sizes)
  if is_pooling and 0 < len(windowed) <= 2 and x.rank >= 2 and primitive in ("add", "max", "min"):
    return _pooled(b, x, primitive, sizes, strides, windowed)
  return _axis_by_axis(b, x, primitive, sizes, strides, window_dilation)


def _fits(x: Tensor, sizes: Sequence[int]) -> bool:
  """Returns whether the windows fit in the tensor, which TensorFlow's pooling needs."""
  return all(size == 1 or (isinstance(n, int) and n >= size) for n, size in zip(x.shape, sizes, strict=True))


def _pooled(
  b: Builder, x: Tensor, primitive: str, sizes: Sequence[int], strides: Sequence[int], windowed: Sequence[int]
) -> Tensor:
  """Returns windows along one or two axes as AvgPool or MaxPool of images `[batch, height, width, channels]`."""
  others = [axis for axis in range(x.rank) if axis not in windowed]
  batch, channels = others[:1], others[1:]
  order = [*batch, *windowed, *channels]
  moved = transpose(b, x, order)
  heights = (1,) if len(windowed) == 1 else ()
  spatial = tuple(x.shape[axis] for axis in windowed)
  of_batch = x.shape[batch[0]] if batch else 1
  num_channels = math.prod(x.shape[axis] for axis in channels)
  images = reshape(b, moved, (of_batch, *heights, *spatial, num_channels))
  window = (1, *heights, *(sizes[axis] for axis in windowed), 1)
  steps = (1, *heights, *(strides[axis] for axis in windowed), 1)
  results = tuple(
    (n - size) // step + 1 for n, size, step in zip(images.shape[1:3], window[1:3], steps[1:3], strict=True)
  )
  shape = (images.shape[0], *results, images.shape[3])
  pool = functools.partial(b.op, shape=shape, ksize=window, strides=steps, padding=b"VALID")
  if primitive == "add":
    found = b.op("Mul", pool("AvgPool", images), full(b, x, math.prod(window)), shape=shape)
  else:
    found = _extreme_of_images(b, images, primitive, pool)
  by_axis = dict(zip(windowed, results[-len(windowed) :], strict=True))
  apart = reshape(b, found, tuple(by_axis.get(axis, x.shape[axis]) for axis in order))
  return transpose(b, apart, list(np.argsort(order)))


def _extreme_of_images(b: Builder, images: Tensor, primitive: str, pool: Any) -> Tensor:
  """Returns the largest or smallest element of each window, NaN if it has one: MaxPool ignores NaN."""
  nans = is_nan(b, images)
  signed = b.op("Neg", images, shape=images.shape) if primitive == "min" else images
  numbers = select(b, nans, full(b, images, -np.inf), signed, images.shape)
  found = pool("MaxPool", numbers)
  found = b.op("Neg", found, shape=found.shape) if primitive == "min" else found
  marked = compare(b, "Greater", pool("MaxPool", cast(b, nans, images.dtype)), 0)
  return select(b, marked, full(b, images, np.nan), found, found.shape)


def _axis_by_axis(
  b: Builder, x: Tensor, primitive: str, sizes: Sequence[int], strides: Sequence[int], dilation: Sequence[int]
) -> Tensor:
  """Returns windows along any axes: one axis after the other, the slices of equal places in windows are joined."""
  for axis, size in enumerate(sizes):
    if size == 1 and strides[axis] == 1:
      continue
    length = x.shape[axis]
    if isinstance(length, int) and length == size and dilation[axis] == 1:
      found = reduced(b, x, [axis], primitive)
      x = reshape(b, found, (*x.shape[:axis], 1, *x.shape[axis + 1 :]))
      continue
    if size > _MAX_SLICES:
      raise Unsupported(f"windows of {size} elements along an axis; expected at most {_MAX_SLICES}")
    number = (length - (size - 1) * dilation[axis] - 1) // strides[axis] + 1
    parts = [_place(b, x, axis, i * dilation[axis], strides[axis], number) for i in range(size)]
    x = functools.reduce(functools.partial(combined, b, primitive), parts)
  return x


def _place(b: Builder, x: Tensor, axis: int, start: int, stride: int, number: Any) -> Tensor:
  """Returns the elements along an axis from `start` on, with a stride."""
  starts, limits, strides = [0] * x.rank, list(x.shape), [1] * x.rank
  starts[axis], limits[axis], strides[axis] = start, start + (number - 1) * stride + 1, stride
  return static_slice(b, x, starts, limits, strides)


@rule("select_and_scatter_add")
def select_and_scatter_add(
  b: Builder,
  source: Tensor,
  x: Tensor,
  *,
  select_prim: Any,
  window_dimensions: Sequence[int],
  window_strides: Sequence[int],
  padding: Any,
) -> Tensor:
  """Returns zeros with each element of `source` added where its window has its first extreme element."""
  neutral = _neutral("max" if select_prim.name == "ge" else "min", x)
  padded = pad(b, x, list(padding), neutral)
  places = list(_places(padded, window_dimensions, window_strides, (1,) * x.rank))
  chosen = _first_extreme(b, padded, places, select_prim.name, window_strides)
  total: Tensor | None = None
  for number, (starts, limits) in enumerate(places):
    mine = select(b, compare(b, "Equal", chosen, number), source, full(b, source, 0), source.shape)
    spread = dilate(b, mine, [stride - 1 for stride in window_strides], 0)
    around = [(start, n - limit) for start, limit, n in zip(starts, limits, padded.shape, strict=True)]
    placed = pad(b, spread, around, 0)
    total = placed if total is None else b.op("AddV2", total, placed, shape=padded.shape)
  assert total is not None, "internal: a window without elements."
  return pad(b, total, [(-low, -high) for low, high in padding], 0)


@rule("select_and_gather_add")
def select_and_gather_add(
  b: Builder,
  tangents: Tensor,
  x: Tensor,
  *,
  select_prim: Any,
  window_dimensions: Sequence[int],
  window_strides: Sequence[int],
  padding: Any,
  base_dilation: Sequence[int],
  window_dilation: Sequence[int],
) -> Tensor:
  """Returns, for each window, the element of `tangents` where `x` has its first extreme element."""
  neutral = _neutral("max" if select_prim.name == "ge" else "min", x)
  config = list(padding)
  interior = [n - 1 for n in base_dilation]
  padded = pad(b, dilate(b, x, interior, neutral), config, neutral)
  others = pad(b, dilate(b, tangents, interior, 0), config, 0)
  places = list(_places(padded, window_dimensions, window_strides, window_dilation))
  chosen = _first_extreme(b, padded, places, select_prim.name, window_strides)
  found: Tensor | None = None
  for number, (starts, limits) in enumerate(places):
    mine = static_slice(b, others, starts, limits, window_strides)
    found = mine if found is None else select(b, compare(b, "Equal", chosen, number), mine, found, mine.shape)
  assert found is not None, "internal: a window without elements."
  return found


def _places(
  x: Tensor, sizes: Sequence[int], strides: Sequence[int], dilation: Sequence[int]
) -> Iterator[tuple[list[int], list[Any]]]:
  """Yields the bounds of the slices of elements that have the same place in all windows."""
  if math.prod(sizes) > _MAX_PATCHES:
    raise Unsupported(f"windows of {math.prod(sizes)} elements; expected at most {_MAX_PATCHES}")
  numbers = [
    (n - (size - 1) * apart - 1) // stride + 1
    for n, size, stride, apart in zip(x.shape, sizes, strides, dilation, strict=True)
  ]
  for place in itertools.product(*(range(size) for size in sizes)):
    starts = [i * apart for i, apart in zip(place, dilation, strict=True)]
    yield (
      starts,
      [start + (n - 1) * stride + 1 for start, n, stride in zip(starts, numbers, strides, strict=True)],
    )


def _first_extreme(b: Builder, x: Tensor, places: Sequence[Any], select_prim: str, strides: Sequence[int]) -> Tensor:
  """Returns the number of the place at which each window has its first extreme element."""
  parts = [static_slice(b, x, starts, limits, strides) for starts, limits in places]
  shape = parts[0].shape
  stack = b.op("Pack", parts, shape=(len(parts), *shape), axis=0)
  op = "ArgMax" if select_prim == "ge" else "ArgMin"
  return b.op(op, stack, np.int32(0), shape=shape, output_type=DType.INT32)
