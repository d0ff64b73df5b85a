"""Average pooling over two or three spatial dimensions: AvgPool, AvgPool3D and their gradients."""

import math
from collections.abc import Sequence
from typing import Any, Unpack

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from graftax.ops_jax._core.errors import InvalidInputError
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array, StaticSizes
from graftax.ops_jax.spatial.windows import PoolAttrs, SpatialWindow, full_window, window_views

__all__ = ["MAX_UNROLLED_CELLS", "avg_pool", "avg_pool3d", "avg_pool3d_grad", "avg_pool_grad"]

# Windows with more cells are not unrolled into one view per cell: the program would grow too large.
MAX_UNROLLED_CELLS = 64


def _window_sum(x: Array, window: SpatialWindow) -> Array:
  axes = tuple(range(x.ndim))
  if window.padding_name == "VALID" and all(n in (1, size) for n, size in zip(window.size, x.shape, strict=True)):
    strided = [n == 1 and stride != 1 for n, stride in zip(window.size, window.strides, strict=True)]
    if not any(strided):
      return jnp.sum(x, tuple(i for i in axes if window.size[i] != 1), keepdims=True)

  def reduced(x: Array) -> Array:
    return lax.reduce_window(x, np.zeros((), x.dtype), lax.add, window.size, window.strides, window.lax_padding)

  def unrolled(x: Array) -> Array:
    views = [view for _, view in window_views(x, window, axes, 0)]
    return sum(views[1:], views[0])

  if math.prod(window.size) > MAX_UNROLLED_CELLS:
    return reduced(x)
  # XLA:CPU runs the gradient of a reduce_window six times slower than that of the equivalent sum.
  return lax.platform_dependent(x, cpu=unrolled, default=reduced)


def _average(op: str, x: Any, **attrs: Unpack[PoolAttrs]) -> Array:
  x = jnp.asarray(x)
  ksize, strides, padding = attrs["ksize"], attrs["strides"], attrs["padding"]
  window = full_window(op, x.shape, **attrs)
  wide = x.astype(jnp.float32) if jnp.finfo(x.dtype).bits < 32 else x
  if padding == "VALID":
    count: Any = np.asarray(math.prod(ksize), wide.dtype)
  else:
    # The mean is taken over the cells inside the input. Batch and channels have size 1 in the count, and broadcast.
    shape = [size if n > 1 else 1 for size, n in zip(x.shape, ksize, strict=True)]
    count_strides = tuple(s if n > 1 else 1 for s, n in zip(strides, ksize, strict=True))
    count = _window_sum(jnp.ones(shape, wide.dtype), full_window(op, shape, ksize, count_strides, padding))
  return (_window_sum(wide, window) / count).astype(x.dtype)


def _average_gradient(op: str, shape: Sequence[Any], grad: Any, **attrs: Unpack[PoolAttrs]) -> Array:
  grad = jnp.asarray(grad)
  spec = jax.ShapeDtypeStruct(tuple(shape), grad.dtype)

  def forward(x: Array) -> Array:
    return _average(op, x, **attrs)

  expected = jax.eval_shape(forward, spec).shape
  if expected != grad.shape:
    raise InvalidInputError(f"{op}: grad has shape {grad.shape}; an input of shape {tuple(shape)} gives {expected}.")
  (result,) = jax.linear_transpose(forward, spec)(grad)
  return result


@register("AvgPool", ignores=("T", "data_format"))
def avg_pool(value: Array, **attrs: Unpack[PoolAttrs]) -> Array:
  """Computes the mean of each window, over the cells inside the input.

  Source op: `tf.raw_ops.AvgPool`.

  Args:
    value: `[batch, height, width, channels]` in any order, floating point.
    **attrs: see `PoolAttrs`.

  Returns:
    Same rank and dtype.
  """
  return _average("AvgPool", value, **attrs)


@register("AvgPool3D", ignores=("T", "data_format"))
def avg_pool3d(
  input: Array,
  **attrs: Unpack[PoolAttrs],
) -> Array:
  """Computes the mean of each window of a volume; see `AvgPool`."""
  return _average("AvgPool3D", input, **attrs)


@register("AvgPoolGrad", ignores=("T", "data_format"))
def avg_pool_grad(
  orig_input_shape: StaticSizes,
  grad: Array,
  **attrs: Unpack[PoolAttrs],
) -> Array:
  """Returns the gradient of `AvgPool`.

  Source op: `tf.raw_ops.AvgPoolGrad`.

  Args:
    orig_input_shape: shape of the pooling's input. Must be concrete.
    grad: gradient of the pooling's result.
    **attrs: as for `AvgPool`.

  Returns:
    Shape `orig_input_shape`, dtype of `grad`.
  """
  return _average_gradient("AvgPoolGrad", orig_input_shape, grad, **attrs)


@register("AvgPool3DGrad", ignores=("T", "data_format"))
def avg_pool3d_grad(
  orig_input_shape: StaticSizes,
  grad: Array,
  **attrs: Unpack[PoolAttrs],
) -> Array:
  """Returns the gradient of `AvgPool3D`; see `AvgPoolGrad`."""
  return _average_gradient("AvgPool3DGrad", orig_input_shape, grad, **attrs)
