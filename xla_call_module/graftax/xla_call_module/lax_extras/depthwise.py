"""Depthwise convolutions as sums of shifted inputs, and their derivatives in forms that are as fast.

XLA:CPU runs a convolution with one group per channel 10 to 30 times slower than this sum, and the derivatives that JAX
makes of the sum up to 7 times slower than those of this module. The measurements are in "Depthwise convolutions" of
docs/measurements-2026-11-27.md.
"""

import dataclasses
import itertools
import math
from collections.abc import Iterable, Iterator

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from graftax.xla_call_module.jax_versions import varies_over_mesh
from graftax.xla_call_module.lax_extras.arrays import divided_axes
from graftax.xla_call_module.lax_extras.linear_calls import bilinear_call
from graftax.xla_call_module.lax_extras.promotion import default_promotion
from graftax.xla_call_module.lax_extras.windows import Window

__all__ = ["accumulation_dtype", "depthwise_conv", "depthwise_sum"]


@default_promotion()
def depthwise_sum(
  views: Iterable[tuple[tuple[int, ...], Array | np.ndarray]], kernel: Array | np.ndarray, rank: int, channel_axis: int
) -> Array | None:
  """Computes a depthwise convolution as a sum of shifted inputs times filter cells.

  Args:
    views: for each cell of the window, its position and the part of the input that it sees in all windows.
    kernel: `[*size, channels, multiplier]`, same dtype.
    rank: number of dimensions of the views.
    channel_axis: that of them with the channels.

  Returns:
    The shape of the views, but with `channels * multiplier` channels. Those of one input channel are next to each
    other. None if the window has no cells.
  """
  *size, channels, multiplier = kernel.shape
  # [channels] or [channels, multiplier], followed by a 1 for each dimension after the channels.
  trailing = (1,) * (rank - 1 - channel_axis)
  factors = jnp.asarray(kernel).reshape(*size, channels, *((multiplier,) if multiplier > 1 else ()), *trailing)
  total: Array | None = None
  for cell, view in views:
    term = jnp.asarray(view if multiplier == 1 else jnp.expand_dims(view, channel_axis + 1)) * factors[cell]
    total = term if total is None else total + term
  if total is None or multiplier == 1:
    return total
  return total.reshape(*total.shape[:channel_axis], channels * multiplier, *total.shape[channel_axis + 2 :])


def accumulation_dtype(dtype: np.dtype) -> np.dtype:
  """Returns the dtype in which `depthwise_sum` adds up: float32 for shorter floating-point types.

  Example:
    >>> accumulation_dtype(np.dtype("float16")), accumulation_dtype(np.dtype("float64"))
    (dtype('float32'), dtype('float64'))
  """
  return np.dtype(np.float32) if jnp.issubdtype(dtype, jnp.floating) and dtype.itemsize < 4 else dtype


def depthwise_conv(x: Array, kernel: Array, window: Window, channel_axis: int, batch_axis: int = 0) -> Array:
  """Convolves each channel with its own filters. All sizes are positive numbers.

  Args:
    x: the input: a batch axis, a channel axis, and the spatial ones in the order of the filter.
    kernel: `[*size, channels, multiplier]`, same dtype.
    window: over all axes of `x`, without base dilation.
    channel_axis: the axis of `x` with the channels.
    batch_axis: that of the batch.

  Returns:
    In the layout and dtype of `x`, `channels * multiplier` channels, those of one input channel next to each other.

  Example:
    >>> x, kernel = jnp.arange(8.0).reshape(1, 4, 2), jnp.array([[1.0, 2.0], [1.0, 0.0]])[..., None]
    >>> window = Window((1, 2, 1), (1, 1, 1), (1, 1, 1), (1, 1, 1), ((0, 0),) * 3)
    >>> depthwise_conv(x, kernel, window, channel_axis=2)[0].tolist()
    [[2.0, 2.0], [6.0, 6.0], [10.0, 10.0]]
  """
  dtype = accumulation_dtype(x.dtype)
  space = tuple(axis for axis in range(x.ndim) if axis not in (batch_axis, channel_axis))
  conv = _Depthwise(x.shape, kernel.shape, window, space, channel_axis, batch_axis)
  # `linear_call` does not know types of arrays that differ between devices, or that a mesh divides.
  is_plain = not jnp.issubdtype(dtype, jnp.inexact) or any(varies_over_mesh(a) or divided_axes(a) for a in (x, kernel))
  run = conv.compute_result if is_plain else conv.result
  return run(x.astype(dtype), kernel.astype(dtype)).astype(x.dtype)


@dataclasses.dataclass(frozen=True, slots=True)
class _Depthwise:
  """A depthwise convolution of known sizes: three functions that are linear in each of their two arguments.

  Each function is the derivative of the other two, so that derivatives of any order are computed in these forms.

  Attributes:
    x_shape: shape of the input.
    kernel_shape: `[*size, channels, multiplier]`.
    window: over all axes of the input.
    space: its spatial axes.
    channel_axis: its axis with the channels.
    batch_axis: that of the batch.
  """

  x_shape: tuple[int, ...]
  kernel_shape: tuple[int, ...]
  window: Window
  space: tuple[int, ...]
  channel_axis: int
  batch_axis: int

  def result(self, x: Array, kernel: Array) -> Array:
    """Returns the convolution."""
    return bilinear_call(
      self.compute_result, self.input_gradient, self.kernel_gradient, x, kernel, self._result_shape()
    )

  def input_gradient(self, kernel: Array, ct: Array) -> Array:
    """Returns the cotangent of the input for that of the result."""
    return bilinear_call(
      self.compute_input_gradient,
      lambda ct, x: self.kernel_gradient(x, ct),
      lambda kernel, x: self.result(x, kernel),
      kernel,
      ct,
      self.x_shape,
    )

  def kernel_gradient(self, x: Array, ct: Array) -> Array:
    """Returns the cotangent of the filter for that of the result."""
    return bilinear_call(
      self.compute_kernel_gradient,
      lambda ct, kernel: self.input_gradient(kernel, ct),
      self.result,
      x,
      ct,
      self.kernel_shape,
    )

  def compute_result(self, x: Array, kernel: Array) -> Array:
    return _sum_of_views(x, kernel, self.window, self.channel_axis)

  def _plain_result(self, x: Array, kernel: Array) -> Array:
    return _sum_of_views(x, kernel, self.window, self.channel_axis, is_stored=False)

  def compute_input_gradient(self, kernel: Array, ct: Array) -> Array:
    """Computes it as a depthwise convolution of the result's cotangent with the reversed filter.

    With strides, most of that convolution's products are with 0. For small windows JAX's transpose is faster then.
    """
    if max(self.window.strides) > 1 and math.prod(self.kernel_shape[:-2]) <= _FEW_STRIDED_CELLS:
      (gradient,) = jax.linear_transpose(
        lambda x: self._plain_result(x, kernel), jax.ShapeDtypeStruct(self.x_shape, ct.dtype)
      )(ct)
      return gradient
    cells = range(kernel.ndim - 2)
    window, reversed_kernel = self._reversed_window(), jnp.flip(kernel, cells)
    parts = [
      _sum_of_views(part, reversed_kernel[..., i : i + 1], window, self.channel_axis)
      for i, part in enumerate(self._by_multiplier(ct))
    ]
    return sum(parts[1:], parts[0])

  def compute_kernel_gradient(self, x: Array, ct: Array) -> Array:
    """Computes it row by row of the result, with all cells of the window while the row is in the cache."""
    padded = _stored(self.window.padded(x, np.zeros((), x.dtype)))
    order = (self.batch_axis, *self.space, self.channel_axis)
    rows = _Rows.of(self.window, self.space)
    parts = [rows.summed(padded.transpose(order), part.transpose(order)) for part in self._by_multiplier(ct)]
    return jnp.stack(parts, -1).reshape(self.kernel_shape)

  def _result_shape(self) -> tuple[int, ...]:
    shape = [*self.x_shape]
    for axis in self.space:
      span = (self.window.sizes[axis] - 1) * self.window.window_dilation[axis]
      shape[axis] = (shape[axis] + sum(self.window.padding[axis]) - span - 1) // self.window.strides[axis] + 1
    shape[self.channel_axis] *= self.kernel_shape[-1]
    return tuple(shape)

  def _reversed_window(self) -> Window:
    """Returns the window of the transposed convolution: over the result, one position for each cell of the input."""
    window, padding = self.window, [(0, 0)] * len(self.x_shape)
    for axis in self.space:
      (low, high), stride = window.padding[axis], window.strides[axis]
      span = (window.sizes[axis] - 1) * window.window_dilation[axis]
      padded = self.x_shape[axis] + low + high
      spread = (padded - span - 1) // stride * stride + 1
      padding[axis] = (span - low, self.x_shape[axis] + low - spread)
    ones = (1,) * len(self.x_shape)
    return Window(window.sizes, ones, window.strides, window.window_dilation, tuple(padding))

  def _by_multiplier(self, ct: Array) -> Iterator[Array]:
    """Yields, for each filter of a channel, the channels of the result that it computes."""
    multiplier = self.kernel_shape[-1]
    for i in range(multiplier):
      yield ct if multiplier == 1 else lax.slice_in_dim(ct, i, None, multiplier, self.channel_axis)


def _stored(padded: Array) -> Array:
  """Returns an array that XLA computes once.

  Otherwise it reads the cell in the middle of a window without padding directly from the operation that computes the
  input, and computes that again in each of a chain of convolutions.
  """
  stored: Array = lax.optimization_barrier(padded)
  return stored


def _sum_of_views(x: Array, kernel: Array, window: Window, channel_axis: int, *, is_stored: bool = True) -> Array:
  def views() -> Iterator[tuple[tuple[int, ...], Array]]:
    padded = window.padded(x, np.zeros((), x.dtype))
    parts = window.views(_stored(padded) if is_stored else padded)
    yield from zip(np.ndindex(kernel.shape[:-2]), (view for (view,) in parts), strict=True)

  total = depthwise_sum(views(), kernel, x.ndim, channel_axis)
  assert total is not None, "internal: a window without cells"
  return total


@dataclasses.dataclass(frozen=True, slots=True)
class _Rows:
  """How a window moves over the spatial axes of an array `[batch, *space, channels]`, one entry for each."""

  sizes: tuple[int, ...]
  strides: tuple[int, ...]
  dilations: tuple[int, ...]

  @classmethod
  def of(cls, window: Window, space: tuple[int, ...]) -> "_Rows":
    parts = (window.sizes, window.strides, window.window_dilation)
    return cls(*(tuple(part[axis] for axis in space) for part in parts))

  def summed(self, padded: Array, ct: Array) -> Array:
    """Returns, for each cell of the window and each channel, the sum of `ct` times what the cell sees.

    Args:
      padded: the padded input.
      ct: one entry per position of the window and channel.

    Returns:
      `[*sizes, channels]`.
    """
    columns = ct.shape[-2]
    width = columns if columns < 2 * _MOST_COLUMNS else _MOST_COLUMNS
    whole = columns // width * width
    total = self._summed(padded, ct, 0, whole, width)
    if whole < columns:
      total += self._summed(padded, ct, whole, columns, columns - whole)
    return total.reshape(*self.sizes, -1)

  def _summed(self, padded: Array, ct: Array, first: int, last: int, width: int) -> Array:
    """Sums over the columns of the result from `first` to `last`, which are a multiple of `width`."""
    lead, channels = ct.shape[:-2], ct.shape[-1]
    counts = (*lead, (last - first) // width)
    spans = [(size - 1) * dilation + 1 for size, dilation in zip(self.sizes, self.dilations, strict=True)]
    seen = (width - 1) * self.strides[-1] + spans[-1]
    num_terms = min(width, _TERMS if math.prod(self.sizes) <= _FEW_CELLS else _TERMS_OF_MANY_CELLS)
    step = -(-width // num_terms)

    def add_row(number: Array, totals: tuple[Array, ...]) -> tuple[Array, ...]:
      batch, *places = jnp.unravel_index(number, counts)
      column = first + places[-1] * width
      starts = [place * stride for place, stride in zip((*places[:-1], column), self.strides, strict=True)]
      row = lax.dynamic_slice(padded, (batch, *starts, 0), (1, *spans[:-1], seen, channels))[0]
      given = lax.dynamic_slice(ct, (batch, *places[:-1], column, 0), (*[1] * len(lead), width, channels))
      row, given = lax.optimization_barrier((row, given.reshape(width, channels)))
      return tuple(
        total + self._terms(row, given, cell, step)
        for total, cell in zip(totals, itertools.product(*map(range, self.sizes)), strict=True)
      )

    zeros = tuple(jnp.zeros((step, channels), ct.dtype) for _ in range(math.prod(self.sizes)))
    totals = lax.fori_loop(0, math.prod(counts), add_row, zeros)
    return jnp.stack([total.sum(0) for total in totals])

  def _terms(self, row: Array, given: Array, cell: tuple[int, ...], step: int) -> Array:
    """Multiplies what one cell sees in a row with the row of the result's cotangent, and sums every `step` columns."""
    *lead, column = (number * dilation for number, dilation in zip(cell, self.dilations, strict=True))
    seen, stride = row[tuple(lead)], self.strides[-1]
    total: Array | None = None
    for start in range(0, given.shape[0], step):
      end = min(start + step, given.shape[0])
      view = lax.slice_in_dim(seen, column + start * stride, column + (end - 1) * stride + 1, stride)
      term = jnp.pad(view * given[start:end], ((0, step - (end - start)), (0, 0)))
      total = term if total is None else total + term
    assert total is not None, "internal: a row without columns"
    return total


# Columns of the result that one step of the loop reads at most, apart from less than as many that are left over.
_MOST_COLUMNS = 64
# Products of a row that are added before they are added to the totals. More are faster and take longer to compile.
_TERMS = 4
_TERMS_OF_MANY_CELLS = 2
_FEW_CELLS = 25
_FEW_STRIDED_CELLS = 9
