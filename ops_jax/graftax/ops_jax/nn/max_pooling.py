"""Max pooling and its gradients: MaxPool, MaxPool3D, MaxPoolWithArgmax, MaxPoolGrad, MaxPoolGradGrad.

If a window has several equal maxima, the first one gets the gradient for images, and each one gets all of it for
volumes, as in TensorFlow; this holds for derivatives of every order.
"""

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Unpack

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from graftax.ops_jax._core.errors import InvalidInputError, UnsupportedAttrError
from graftax.ops_jax._core.known import INT64, canonical_dtype
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array, Static, StaticSizes
from graftax.ops_jax.array.gather import check_bounds
from graftax.ops_jax.nn.avg_pooling import MAX_UNROLLED_CELLS
from graftax.ops_jax.spatial.windows import PoolAttrs, SpatialWindow, full_window, window_views
from graftax.xla_call_module.lax_extras import default_promotion, lowest

__all__ = [
  "max_pool",
  "max_pool3d",
  "max_pool3d_grad",
  "max_pool3d_grad_grad",
  "max_pool_grad",
  "max_pool_grad_grad",
  "max_pool_grad_grad_v2",
  "max_pool_grad_grad_with_argmax",
  "max_pool_grad_v2",
  "max_pool_grad_with_argmax",
  "max_pool_v2",
  "max_pool_with_argmax",
]


def _reduced_maximum(x: Array, window: SpatialWindow) -> Array:
  return lax.reduce_window(x, lowest(x.dtype), lax.max, window.size, window.strides, window.lax_padding)


def _unrolled_maximum(x: Array, window: SpatialWindow) -> Array:
  views = [view for _, view in window_views(x, window, range(x.ndim), lowest(x.dtype))]
  return functools.reduce(jnp.maximum, views)


def _first_maximum(x: Array, window: SpatialWindow) -> tuple[Array, Array]:
  """Returns each window's maximum, and the row-major number of its first cell, which is never a padding cell."""
  best, index = None, None
  is_found: Array | None = None
  axes = range(x.ndim)
  views = zip(window_views(x, window, axes, lowest(x.dtype)), _inside_views(x, window), strict=True)
  for number, ((_, view), inside) in enumerate(views):
    if best is None or index is None:
      best, index, is_found = view, jnp.zeros(view.shape, jnp.int32), inside
    else:
      is_better = view > best
      # Padding cells hold the lowest value. The first cell inside is taken even if it is not greater than that.
      if inside is not None and is_found is not None:
        is_better, is_found = inside & (is_better | ~is_found), is_found | inside
      best, index = jnp.where(is_better, view, best), jnp.where(is_better, number, index)
  if best is None or index is None:
    raise InvalidInputError(f"max pooling: a window of size {window.size} has no cell.")
  return best, index


def _inside_views(x: Array, window: SpatialWindow) -> Iterator[Array | None]:
  """Yields for each cell of the window a mask of the windows in which it is inside `x`; None if always."""
  if all(pair == (0, 0) for pair in window.padding):
    return itertools.repeat(None, math.prod(window.size))
  # Dimensions that the window neither spans nor pads are reduced to one element.
  is_plain = [n == 1 and pair == (0, 0) for n, pair in zip(window.size, window.padding, strict=True)]
  shape = [1 if plain else size for plain, size in zip(is_plain, x.shape, strict=True)]
  return (view for _, view in window_views(jnp.ones(shape, bool), window, range(x.ndim), False))


def _summed_over_maxima(x: Array, values: Array, window: SpatialWindow) -> Array:
  """Sums, for each window, the entries of `values` at all maxima of `x`; linear in `values`."""
  x = lax.stop_gradient(x)
  maximum = _reduced_maximum(x, window)
  total: Array | None = None
  axes = range(x.ndim)
  for (_, view), (_, candidates) in zip(
    window_views(values, window, axes, 0), window_views(x, window, axes, lowest(x.dtype)), strict=True
  ):
    term = jnp.where(candidates == maximum, view, jnp.zeros((), values.dtype))
    total = term if total is None else total + term
  assert total is not None, "internal: a window has at least one cell."
  return total


def _selected(x: Array, values: Array, window: SpatialWindow) -> Array:
  """Returns, for each window, the entry of `values` at the first maximum of `x`; linear in `values`."""
  if math.prod(window.size) > MAX_UNROLLED_CELLS:
    return jax.jvp(lambda x: _reduced_maximum(x, window), (lax.stop_gradient(x),), (values,))[1]
  index = _first_maximum(lax.stop_gradient(x), window)[1]
  total: Array | None = None
  for number, (_, view) in enumerate(window_views(values, window, range(x.ndim), 0)):
    term = jnp.where(index == number, view, jnp.zeros((), values.dtype))
    total = term if total is None else total + term
  assert total is not None, "internal: a window has at least one cell."
  return total


# Selects the tangent of each window's maximum: (x, tangents, window) -> one entry per window.
_Choice = Callable[[Array, Array, SpatialWindow], Array]


def _max_pool(x: Any, window: SpatialWindow, choice: _Choice = _selected) -> Array:
  """Computes the maximum of each window of `x`."""
  if math.prod(window.size) > MAX_UNROLLED_CELLS:
    return _reduced_maximum(jnp.asarray(x), window)

  @jax.custom_jvp
  def pool(x: Array) -> Array:
    # XLA:CPU runs a reduce_window three times slower than the equivalent maxima, and its gradient fifteen times.
    return lax.platform_dependent(
      x, cpu=lambda x: _unrolled_maximum(x, window), default=lambda x: _reduced_maximum(x, window)
    )

  @pool.defjvp
  @default_promotion()
  def _jvp(primals: Any, tangents: Any) -> Any:
    (x,), (x_dot,) = primals, tangents
    return pool(x), choice(x, x_dot, window)

  return pool(jnp.asarray(x))


def _max_pool_gradient(op: str, x: Any, grad: Any, window: SpatialWindow, choice: _Choice = _selected) -> Array:
  x, grad = jnp.asarray(x), jnp.asarray(grad)
  expected = jax.eval_shape(lambda x: _reduced_maximum(x, window), x).shape
  if expected != grad.shape:
    raise InvalidInputError(f"{op}: grad has shape {grad.shape}; an input of shape {x.shape} gives {expected}.")
  spec = jax.ShapeDtypeStruct(x.shape, grad.dtype)
  (result,) = jax.linear_transpose(lambda values: choice(x, values, window), spec)(grad)
  return result


def _check_layout(op: str, data_format: str) -> None:
  # The other layouts differ only in ksize and strides, which have one entry per dimension.
  if data_format == "NCHW_VECT_C":
    raise UnsupportedAttrError(f"{op}: data_format='NCHW_VECT_C' is not supported; expected 'NHWC' or 'NCHW'.")


@register("MaxPool", ignores=("T",))
def max_pool(
  input: Array,
  *,
  explicit_paddings: tuple[int, ...] = (),
  data_format: str = "NHWC",
  **attrs: Unpack[PoolAttrs],
) -> Array:
  """Computes the maximum of each window.

  Source op: `tf.raw_ops.MaxPool`.

  Args:
    input: `[batch, height, width, channels]`, or channels second for `"NCHW"`; any real dtype.
    explicit_paddings: if `padding` is `"EXPLICIT"`, cells before and after, two entries per dimension.
    data_format: `"NHWC"` or `"NCHW"`.
    **attrs: see `PoolAttrs`; `padding` may also be `"EXPLICIT"`. A padding cell is never the maximum.

  Returns:
    Same rank and dtype. Among equal maxima the first (row by row) gets the gradient, as in TensorFlow on CPU.

  Differs from TF: NaN in a window makes its maximum NaN; TensorFlow's CPU kernel may drop it.
  """
  _check_layout("MaxPool", data_format)
  return _max_pool(input, full_window("MaxPool", jnp.shape(input), explicit_paddings=explicit_paddings, **attrs))


@register("MaxPoolV2", ignores=("T",))
def max_pool_v2(
  input: Array,
  ksize: StaticSizes,
  strides: Static[tuple[int, ...]],
  *,
  padding: str,
  data_format: str = "NHWC",
) -> Array:
  """Computes `MaxPool` with window and strides as inputs, which must be concrete."""
  _check_layout("MaxPoolV2", data_format)
  return _max_pool(input, full_window("MaxPoolV2", jnp.shape(input), ksize, strides, padding))


@register("MaxPool3D", ignores=("T", "data_format"))
def max_pool3d(
  input: Array,
  **attrs: Unpack[PoolAttrs],
) -> Array:
  """Computes the maximum of each window of a volume; see `MaxPool`. Every one of equal maxima gets the gradient."""
  window = full_window("MaxPool3D", jnp.shape(input), **attrs)
  return _max_pool(input, window, _summed_over_maxima)


@register("MaxPoolGrad", ignores=("T", "data_format"))
def max_pool_grad(
  orig_input: Array,
  orig_output: Array,
  grad: Array,
  *,
  explicit_paddings: tuple[int, ...] = (),
  **attrs: Unpack[PoolAttrs],
) -> Array:
  """Computes the gradient of `MaxPool`: `grad` at the first maximum of each window, summed where windows overlap.

  Source op: `tf.raw_ops.MaxPoolGrad`.

  Args:
    orig_input: input of the pooling, floating point.
    orig_output: its result; unused, as it follows from `orig_input`.
    grad: gradient of the result.
    explicit_paddings: as for `MaxPool`.
    **attrs: as for `MaxPool`.

  Returns:
    Shape and dtype of `orig_input`.
  """
  del orig_output
  window = full_window("MaxPoolGrad", jnp.shape(orig_input), explicit_paddings=explicit_paddings, **attrs)
  return _max_pool_gradient("MaxPoolGrad", orig_input, grad, window)


@register("MaxPoolGradV2", ignores=("T", "data_format"))
def max_pool_grad_v2(
  orig_input: Array,
  orig_output: Array,
  grad: Array,
  ksize: StaticSizes,
  strides: Static[tuple[int, ...]],
  *,
  padding: str,
) -> Array:
  """Computes `MaxPoolGrad` with window and strides as inputs, which must be concrete."""
  del orig_output
  window = full_window("MaxPoolGradV2", jnp.shape(orig_input), ksize, strides, padding)
  return _max_pool_gradient("MaxPoolGradV2", orig_input, grad, window)


@register("MaxPool3DGrad", ignores=("T", "TInput", "data_format"))
def max_pool3d_grad(
  orig_input: Array,
  orig_output: Array,
  grad: Array,
  **attrs: Unpack[PoolAttrs],
) -> Array:
  """Returns the gradient of `MaxPool3D`; see `MaxPoolGrad`."""
  del orig_output
  window = full_window("MaxPool3DGrad", jnp.shape(orig_input), **attrs)
  return _max_pool_gradient("MaxPool3DGrad", orig_input, grad, window, _summed_over_maxima)


def _selected_gradient(op: str, x: Any, grad: Any, **attrs: Unpack[PoolAttrs]) -> Array:
  x, grad = jnp.asarray(x), jnp.asarray(grad)
  if x.shape != grad.shape:
    raise InvalidInputError(f"{op}: grad has shape {grad.shape}; expected that of orig_input, {x.shape}.")
  return _selected(x, grad, full_window(op, x.shape, **attrs))


@register("MaxPoolGradGrad", ignores=("T", "data_format"))
def max_pool_grad_grad(
  orig_input: Array,
  orig_output: Array,
  grad: Array,
  **attrs: Unpack[PoolAttrs],
) -> Array:
  """Returns, for each window, the entry of `grad` at the first maximum of `orig_input`.

  Source op: `tf.raw_ops.MaxPoolGradGrad`. Arguments as for `MaxPoolGrad`, but `grad` has the shape of `orig_input`;
  the result has that of `orig_output`.
  """
  del orig_output
  return _selected_gradient("MaxPoolGradGrad", orig_input, grad, **attrs)


@register("MaxPoolGradGradV2", ignores=("T", "data_format"))
def max_pool_grad_grad_v2(
  orig_input: Array,
  orig_output: Array,
  grad: Array,
  ksize: StaticSizes,
  strides: Static[tuple[int, ...]],
  *,
  padding: str,
) -> Array:
  """Computes `MaxPoolGradGrad` with window and strides as inputs, which must be concrete."""
  del orig_output
  return _selected_gradient("MaxPoolGradGradV2", orig_input, grad, ksize=ksize, strides=strides, padding=padding)


@register("MaxPool3DGradGrad", ignores=("T", "data_format"))
def max_pool3d_grad_grad(
  orig_input: Array,
  orig_output: Array,
  grad: Array,
  **attrs: Unpack[PoolAttrs],
) -> Array:
  """Computes `MaxPoolGradGrad` for volumes."""
  del orig_output
  return _selected_gradient("MaxPool3DGradGrad", orig_input, grad, **attrs)


def _positions(shape: Sequence[int], index: Array, window: SpatialWindow, with_batch: bool) -> Array:
  """Returns the flat position in an array of `shape` of cell number `index` of each window."""
  cells = jnp.unravel_index(index, window.size)
  flat: Any = 0
  for axis in range(len(shape)):
    window_start = jnp.arange(index.shape[axis]) * window.strides[axis] - window.padding[axis][0]
    coordinate = lax.expand_dims(window_start, [i for i in range(len(shape)) if i != axis]) + cells[axis]
    if axis or with_batch:
      flat = flat * shape[axis] + coordinate
  return flat


@register("MaxPoolWithArgmax", ignores=("T",))
def max_pool_with_argmax(
  input: Array,
  *,
  Targmax: np.dtype = INT64,
  include_batch_in_index: bool = False,
  **attrs: Unpack[PoolAttrs],
) -> tuple[Array, Array]:
  """Computes the maximum of each window, and its position.

  Source op: `tf.raw_ops.MaxPoolWithArgmax`.

  Args:
    input: `[batch, height, width, channels]`, any real dtype.
    Targmax: int32 or int64.
    include_batch_in_index: whether positions count from the start of the batch or of each example.
    **attrs: see `PoolAttrs`.

  Returns:
    output: `[batch, out_height, out_width, channels]`, same dtype.
    argmax: same shape, flat position of the maximum (the first of several) in `input`.
  """
  x = jnp.asarray(input)
  window = full_window("MaxPoolWithArgmax", x.shape, **attrs)
  index = _first_maximum(lax.stop_gradient(x), window)[1]
  positions = _positions(x.shape, index, window, include_batch_in_index)
  return _max_pool(x, window), positions.astype(canonical_dtype(Targmax))


def _in_whole_batch(op: str, argmax: Array, shape: Sequence[int], include_batch_in_index: bool) -> Array:
  """Returns flat positions in an array of `shape`; positions out of range are moved beyond its end."""
  size = math.prod(shape) if include_batch_in_index else math.prod(shape[1:])
  check_bounds(op, argmax, size)
  argmax = jnp.asarray(argmax)
  is_valid = (argmax >= 0) & (argmax < size)
  if not include_batch_in_index:
    argmax = argmax + (jnp.arange(shape[0], dtype=argmax.dtype) * size).reshape(-1, *(1,) * (len(shape) - 1))
  return jnp.where(is_valid, argmax, math.prod(shape))


@register("MaxPoolGradWithArgmax", ignores=("T", "Targmax", "ksize", "strides", "padding"))
def max_pool_grad_with_argmax(
  input: Array,
  grad: Array,
  argmax: Array,
  *,
  include_batch_in_index: bool = False,
) -> Array:
  """Sums `grad` into zeros of the shape of `input`, at the positions `argmax` from `MaxPoolWithArgmax`.

  Source op: `tf.raw_ops.MaxPoolGradWithArgmax`.

  Raises:
    InvalidInputError: a known position is out of range.

  Differs from TF: entries at traced positions out of range are dropped; TensorFlow aborts the process.
  """
  shape = jnp.shape(input)
  grad = jnp.asarray(grad)
  positions = _in_whole_batch("MaxPoolGradWithArgmax", argmax, shape, include_batch_in_index)
  return jnp.zeros(math.prod(shape), grad.dtype).at[positions].add(grad, mode="drop").reshape(shape)


@register("MaxPoolGradGradWithArgmax", ignores=("T", "Targmax", "ksize", "strides", "padding"))
def max_pool_grad_grad_with_argmax(
  input: Array,
  grad: Array,
  argmax: Array,
  *,
  include_batch_in_index: bool = False,
) -> Array:
  """Returns entries of `grad` (shaped like `input`) at the positions `argmax` from `MaxPoolWithArgmax`.

  Source op: `tf.raw_ops.MaxPoolGradGradWithArgmax`.

  Raises:
    InvalidInputError: a known position is out of range. A traced one gives NaN.
  """
  positions = _in_whole_batch("MaxPoolGradGradWithArgmax", argmax, jnp.shape(input), include_batch_in_index)
  return jnp.asarray(grad).reshape(-1).at[positions].get(mode="fill")
