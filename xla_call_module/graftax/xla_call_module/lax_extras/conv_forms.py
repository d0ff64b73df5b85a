"""Forms of convolutions that are faster than XLA's own on a CPU, as a table by shape.

XLA:CPU computes few shapes of convolutions well, and the derivatives of some of them very badly: the derivative for the
filter of a grouped convolution runs up to 200 times longer than the convolution. Each entry of `CONV_FORMS` is a form
that measurements showed to be faster for values or for derivatives, and at most 8% slower for the other. Removing an
entry changes results only by rounding. The measurements are in docs/measurements-2026-11-26.md, "Convolutions on a CPU"
and "The option again, with convolutions in other forms", and in docs/measurements-2026-11-28.md.
"""

import contextlib
import contextvars
import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from graftax.xla_call_module.lax_extras.arrays import divided_axes
from graftax.xla_call_module.lax_extras.shared_branches import traced_once

__all__ = [
  "CONV_FORMS",
  "CONV_INPUT_GRADIENT_FORMS",
  "ConvFunction",
  "ConvForm",
  "ConvShapes",
  "find_conv_form",
  "is_left_to_xla",
  "split_into_blocks",
  "uses_conv_forms",
  "xla_convolutions",
]

_uses_forms: contextvars.ContextVar[bool] = contextvars.ContextVar("uses_conv_forms", default=True)


@contextlib.contextmanager
def xla_convolutions() -> Iterator[None]:
  """Leaves convolutions that are traced inside to XLA, on CPUs too.

  They are as fast as the forms, or faster, in a program that is compiled for oneDNN, and what follows them can be
  computed with them. Convolutions that are computed as derivatives of others keep their forms, and those of
  `CONV_INPUT_GRADIENT_VALUES` are used for fewer pixels, too, as they are dense convolutions of XLA.

  Example:
    >>> with xla_convolutions():
    ...   uses_conv_forms(jnp.zeros((1, 8, 8, 3)), jnp.zeros((3, 3, 3, 16)))
    False
  """
  token = _uses_forms.set(False)
  try:
    yield
  finally:
    _uses_forms.reset(token)


def is_left_to_xla() -> bool:
  """Returns whether this is traced inside of `xla_convolutions`.

  Example:
    >>> is_left_to_xla()
    False
  """
  return not _uses_forms.get()


def uses_conv_forms(x: Array, kernel: Array, batch_axis: int = 0) -> bool:
  """Returns whether a convolution may be computed in a form of this module.

  It may not inside of `xla_convolutions`, nor if a mesh with Explicit axes divides anything but the batch: the forms
  reshape the other axes, which JAX refuses there.

  Args:
    x: the input.
    kernel: the filter.
    batch_axis: the axis of `x` with the batch.

  Example:
    >>> uses_conv_forms(jnp.zeros((1, 8, 8, 3)), jnp.zeros((3, 3, 3, 16)))
    True
  """
  return not is_left_to_xla() and not divided_axes(kernel) and set(divided_axes(x)) <= {batch_axis}


@dataclasses.dataclass(frozen=True, slots=True)
class ConvShapes:
  """Sizes of one convolution with its channels last; all are numbers, and none of x, kernel and result is 0.

  Attributes:
    x: shape of the input.
    kernel: shape of the filter, `[*size, in_channels / groups, out_channels]`.
    strides: step between windows, one entry per spatial dimension.
    dilations: step between the cells of a window, likewise.
    padding: cells added before and after, likewise.
    groups: number of groups.
  """

  x: tuple[int, ...]
  kernel: tuple[int, ...]
  strides: tuple[int, ...]
  dilations: tuple[int, ...]
  padding: tuple[tuple[int, int], ...]
  groups: int

  @classmethod
  def of(
    cls,
    x: Sequence[Any],
    kernel: Sequence[Any],
    strides: Sequence[int],
    dilations: Sequence[int],
    padding: Sequence[tuple[Any, Any]],
    groups: int,
  ) -> "ConvShapes | None":
    """Returns the sizes of a convolution, or None if no entry of the tables applies to them.

    None applies if a size is symbolic, the sizes do not fit each other, something is empty, or padding is negative or
    far larger than the input and the result.

    Args:
      x: shape of the input, `[batch, *space, in_channels]`.
      kernel: shape of the filter, `[*size, in_channels / groups, out_channels]`.
      strides: step between windows, one entry per spatial dimension.
      dilations: step between the cells of a window, likewise.
      padding: (low, high) cells added per spatial dimension.
      groups: number of groups of channels, at least 1.
    """
    numbers = (*x, *kernel, *(n for pair in padding for n in pair))
    if not all(isinstance(n, int) for n in numbers) or min(numbers) < 0:
      return None
    shapes = cls(
      tuple(x), tuple(kernel), tuple(strides), tuple(dilations), tuple((low, high) for low, high in padding), groups
    )
    if not shapes._fit or min((*shapes.x, *shapes.kernel, *shapes.out_space)) == 0:
      return None
    return shapes if shapes._has_little_padding else None

  @property
  def size(self) -> tuple[int, ...]:
    """Returns the number of cells of a window, per spatial dimension."""
    return self.kernel[:-2]

  @property
  def out_space(self) -> tuple[int, ...]:
    """Returns the spatial sizes of the result."""
    columns = zip(self.x[1:-1], self.size, self.strides, self.dilations, self.padding, strict=True)
    return tuple(max(0, (n + sum(pad) - (k - 1) * d - 1) // s + 1) for n, k, s, d, pad in columns)

  @property
  def num_pixels(self) -> int:
    """Returns the number of pixels of the result, of the whole batch."""
    return self.x[0] * math.prod(self.out_space)

  @property
  def is_depthwise(self) -> bool:
    """Returns whether each channel of the result is computed from one channel of the input."""
    return self.kernel[-2] == 1 and self.groups == self.x[-1] > 1

  @property
  def _fit(self) -> bool:
    counts = map(len, (self.kernel[:-2], self.strides, self.dilations, self.padding))
    return (
      {*counts} == {len(self.x) - 2}
      and min((self.groups, *self.strides, *self.dilations)) > 0
      and self.x[-1] == self.groups * self.kernel[-2]
      and self.kernel[-1] % self.groups == 0
    )

  @property
  def _has_little_padding(self) -> bool:
    """Returns whether the padded input is not much larger than the input and the result.

    XLA does not store padding. With strides or dilations that are as large, neither the input nor the result tells how
    much there is.
    """
    space = self.x[1:-1]
    padded = math.prod(n + sum(pad) for n, pad in zip(space, self.padding, strict=True))
    return padded <= max(_FEW_PADDED, _MOST_PADDED * (math.prod(space) + math.prod(self.out_space)))


ConvFunction = Callable[[Array, Array], Array]
_Compute = Callable[[Array, Array, ConvShapes], Array]


@dataclasses.dataclass(frozen=True, slots=True)
class ConvForm:
  """An entry of the table.

  Attributes:
    name: for tests and tables.
    fits: whether it is the faster one for a convolution of these sizes.
    compute: computes the convolution.
  """

  name: str
  fits: Callable[[ConvShapes], bool]
  compute: _Compute


def find_conv_form(shapes: ConvShapes, forms: Iterable[ConvForm]) -> ConvFunction | None:
  """Returns the first form of a table that fits a convolution in float32; None if XLA's own is the fastest.

  Args:
    shapes: the sizes of the convolution, its channels last.
    forms: the table: `CONV_FORMS` for convolutions, `CONV_INPUT_GRADIENT_FORMS` and `CONV_INPUT_GRADIENT_VALUES` for
      derivatives with respect to the input. The first entry that fits counts.

  Returns:
    A function of the input and the filter, both in the layouts of `ConvShapes`: the same one for equal arguments, as by
    `traced_once`. None if no form fits.
  """
  found = next((form for form in forms if form.fits(shapes)), None)
  return None if found is None else traced_once(found.compute, shapes=shapes)


def _are_patches(shapes: ConvShapes) -> bool:
  """Returns whether every pixel of the input belongs to one window at most, and no window to the padding."""
  steps = zip(shapes.size, shapes.strides, shapes.dilations, strict=True)
  return (
    shapes.groups == 1 and all(k == 1 or (k == s and d == 1) for k, s, d in steps) and not any(map(sum, shapes.padding))
  )


def _patches(x: Array, kernel: Array, shapes: ConvShapes) -> Array:
  """Computes a convolution whose windows do not overlap as one dot."""
  out = shapes.out_space
  batch, channels = shapes.x[0], shapes.x[-1]
  limits = [(n - 1) * s + k for n, s, k in zip(out, shapes.strides, shapes.size, strict=True)]
  steps = [s if k == 1 else 1 for s, k in zip(shapes.strides, shapes.size, strict=True)]
  if [*x.shape[1:-1]] != limits or max(steps, default=1) > 1:
    x = lax.slice(x, (0,) * x.ndim, (batch, *limits, channels), (1, *steps, 1))
  return _dot(split_into_blocks(x, out, shapes.size) if max(shapes.size, default=1) > 1 else x, kernel, shapes)


def split_into_blocks(x: Array, counts: Sequence[int], size: Sequence[int]) -> Array:
  """Returns the blocks of pixels that an image consists of.

  Args:
    x: `[batch, *space, channels]`.
    counts: the number of blocks per spatial dimension.
    size: the number of pixels of a block, likewise; `counts[i] * size[i]` is `space[i]`.

  Returns:
    `[batch, *counts, *size, channels]`.
  """
  num_axes = len(size)
  # One axis after the other, as JAX does not reshape several axes beside a sharded batch.
  for i, pair in enumerate(zip(counts, size, strict=True)):
    x = x.reshape(*x.shape[: 2 * i + 1], *pair, *x.shape[2 * i + 2 :])
  return x.transpose(0, *range(1, 2 * num_axes, 2), *range(2, 2 * num_axes + 1, 2), 2 * num_axes + 1)


def _dot(cells: Array, kernel: Array, shapes: ConvShapes) -> Array:
  """Multiplies the cells of all windows, `[batch, *out_space, *size, in_channels]`, with the filter."""
  pixels = (shapes.x[0], *shapes.out_space)
  # In two steps, since JAX reshapes a sharded batch only together with the axes next to it.
  rows = cells.reshape(*pixels, -1).reshape(shapes.num_pixels, -1)
  y = lax.dot(rows, kernel.reshape(-1, kernel.shape[-1]))
  return y.reshape(*pixels, kernel.shape[-1])


def _has_few_pixels(shapes: ConvShapes) -> bool:
  *_, in_channels, out_channels = shapes.kernel
  return (
    shapes.groups == 1
    and 1 < math.prod(shapes.size) <= _MOST_CELLS
    and min(in_channels, out_channels) >= _MANY_CHANNELS
    and shapes.num_pixels <= _FEW_PIXELS
  )


def _rows_of_cells(x: Array, kernel: Array, shapes: ConvShapes) -> Array:
  """Computes a convolution as one dot, with an array that repeats each pixel for each window that sees it."""
  return _dot(_cells(_padded(x, shapes), shapes), kernel, shapes)


def _rows_of_slices(x: Array, kernel: Array, shapes: ConvShapes) -> Array:
  """Computes a convolution as `_rows_of_cells` does; its transpose is faster."""
  return _dot(_slices(_padded(x, shapes), shapes), kernel, shapes)


def _padded(x: Array, shapes: ConvShapes) -> Array:
  return lax.pad(x, np.zeros((), x.dtype), [(low, high, 0) for low, high in ((0, 0), *shapes.padding, (0, 0))])


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def _cells(x: Array, shapes: ConvShapes) -> Array:
  """Returns the cells of all windows, `[batch, *out_space, *size, in_channels]`, of a padded input.

  XLA compiles one loop for them, in half of the time that slices take.
  """
  num_axes = len(shapes.size)
  # The barrier stores the padded input. Without it, XLA computes a pixel again for each of its cells, which costs less
  # if there are fewer cells than pixels.
  if math.prod((*shapes.size, *shapes.out_space)) >= math.prod(x.shape[1:-1]):
    x = lax.optimization_barrier(x)
  for axis in reversed(range(num_axes)):
    x = _cells_along(x, axis, shapes)
  windows, cells = range(2, 2 * num_axes + 1, 2), range(1, 2 * num_axes, 2)
  return x.transpose(0, *windows, *cells, 2 * num_axes + 1)


def _cells_along(x: Array, spatial_axis: int, shapes: ConvShapes) -> Array:
  """Replaces a spatial axis by two, one for the cells of a window and one for windows.

  Copies of the axis, one after the other, are cut into rows that are longer than it by the dilation. So each row starts
  one cell of the window later than the row before.
  """
  axis = spatial_axis + 1
  before, length, after = x.shape[:axis], x.shape[axis], x.shape[axis + 1 :]
  size = shapes.size[spatial_axis]
  # The dilation of a single cell may be any number: no size follows from it.
  row = length + (shapes.dilations[spatial_axis] if size > 1 else 1)
  num_copies = -(-size * row // length)
  x = lax.broadcast_in_dim(x, (*before, num_copies, length, *after), [n for n in range(x.ndim + 1) if n != axis])
  x = x.reshape(*before, num_copies * length, *after)
  x = lax.slice_in_dim(x, 0, size * row, axis=axis).reshape(*before, size, row, *after)
  stride = shapes.strides[spatial_axis]
  return lax.slice_in_dim(x, 0, (shapes.out_space[spatial_axis] - 1) * stride + 1, stride, axis=axis + 1)


@_cells.defjvp
def _cells_jvp(shapes: ConvShapes, primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
  # A value and both derivatives take up to 1.7 times as long with the transpose of the one loop.
  return _cells(*primals, shapes), _slices(*tangents, shapes)


def _slices(x: Array, shapes: ConvShapes) -> Array:
  """Returns the cells as `_cells` does, from a slice for each cell along each axis."""
  num_axes = len(shapes.size)
  # XLA compiles slices of one axis after the other three times as fast as slices of all axes at once. Axes that become
  # shorter come first, so that no array on the way is larger than both the input and the last one.
  order = sorted(range(num_axes), key=lambda axis: shapes.out_space[axis] * shapes.size[axis] >= x.shape[axis + 1])
  for num_done, axis in enumerate(order):
    size, stride, dilation = shapes.size[axis], shapes.strides[axis], shapes.dilations[axis]
    length = (shapes.out_space[axis] - 1) * stride + 1
    starts = range(0, size * dilation, dilation)
    cells = [lax.slice_in_dim(x, start, start + length, stride, axis + 1) for start in starts]
    x = jnp.stack(cells, num_axes + 1 + sum(other < axis for other in order[:num_done]))
  return x


def _is_grouped(shapes: ConvShapes) -> bool:
  # Groups of few channels would have to be merged, with zeros in the filter between them, to be faster than XLA's form.
  # Then an infinite value in one group would make the results of the others NaN.
  return 1 < shapes.groups <= _MOST_GROUPS and shapes.kernel[-2] >= _ENOUGH_CHANNELS


def _by_group(x: Array, kernel: Array, shapes: ConvShapes) -> Array:
  """Computes a grouped convolution as a dense one for each group."""
  groups = shapes.groups
  space = "".join(str(i) for i in range(len(shapes.size)))
  numbers = (f"N{space}C", f"{space}IO", f"N{space}C")
  parts = zip(jnp.split(x, groups, -1), jnp.split(kernel, groups, -1), strict=True)
  results = [
    lax.conv_general_dilated(
      part, filters, shapes.strides, shapes.padding, rhs_dilation=shapes.dilations, dimension_numbers=numbers
    )
    for part, filters in parts
  ]
  return lax.concatenate(results, x.ndim - 1)


def _is_strided(shapes: ConvShapes) -> bool:
  return (
    shapes.groups == 1
    and any(s > 1 for s in shapes.strides)
    and math.prod(shapes.size) <= min(_MOST_CELLS, _MOST_CELLS_PER_PIXEL * math.prod(shapes.strides))
  )


# Pixels of a padded input: so many always may be stored, or so many for each pixel of the input and of the result.
_FEW_PADDED = 1 << 12
_MOST_PADDED = 8
_FEW_PIXELS = 256
_MANY_CHANNELS = 128
_MOST_GROUPS = 64
_ENOUGH_CHANNELS = 16
# The cells along one axis are as many operations of the program in `_slices`.
_MOST_CELLS = 64
# The array of `_rows_of_slices` has so many elements for each of the convolution's input: a bound for memory.
_MOST_CELLS_PER_PIXEL = 4

CONV_FORMS: tuple[ConvForm, ...] = (
  ConvForm("patches", _are_patches, _patches),
  ConvForm("rows of cells, few pixels", _has_few_pixels, _rows_of_cells),
  ConvForm("one for each group", _is_grouped, _by_group),
)
"""Forms of convolutions; the first one that fits is used."""

CONV_INPUT_GRADIENT_FORMS: tuple[ConvForm, ...] = (
  ConvForm("patches", _are_patches, _patches),
  ConvForm("rows of cells, with strides", _is_strided, _rows_of_slices),
  ConvForm("one for each group", _is_grouped, _by_group),
)
"""Forms of convolutions whose transposes, which `Conv2DBackpropInput` computes, are fast."""
