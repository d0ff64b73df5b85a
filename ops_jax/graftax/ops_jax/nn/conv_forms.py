"""Forms of convolutions that are faster than XLA's own on a CPU, as a table by shape.

XLA:CPU computes few shapes of convolutions well, and the derivatives of some of them very badly: the derivative for the
filter of a grouped convolution runs up to 200 times longer than the convolution. Each entry of `FORMS` is a form that
the same measurement showed to be faster, for values or for derivatives, and slower for neither. Removing an entry
changes no result. The measurements are in docs/measurements-2026-11-26.md, "Convolutions on a CPU".

On other platforms, and for symbolic sizes, `lax.conv_general_dilated` stays.
"""

import dataclasses
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax

from graftax.ops_jax._core.values import Array
from graftax.ops_jax.spatial.layouts import Layout
from graftax.ops_jax.spatial.windows import Window, window_views

__all__ = ["FORMS", "INPUT_GRADIENT_FORMS", "Form", "Shapes", "canonical_form", "cpu_form"]


@dataclasses.dataclass(frozen=True, slots=True)
class Shapes:
  """Sizes of one convolution with its channels last; all are numbers.

  Attributes:
    x: shape of the input.
    kernel: shape of the filter, `[*window.size, in_channels / groups, out_channels]`.
    window: how it slides.
    groups: number of groups.
  """

  x: tuple[int, ...]
  kernel: tuple[int, ...]
  window: Window
  groups: int

  @property
  def out_space(self) -> tuple[int, ...]:
    """Returns the spatial sizes of the result."""
    window = self.window
    columns = zip(self.x[1:-1], window.size, window.strides, window.dilations, window.padding, strict=True)
    return tuple(max(0, (n + sum(pad) - (k - 1) * d - 1) // s + 1) for n, k, s, d, pad in columns)

  @property
  def num_pixels(self) -> int:
    """Returns the number of pixels of the result, of the whole batch."""
    return self.x[0] * math.prod(self.out_space)


ConvForm = Callable[[jax.Array, jax.Array, Shapes], Array]


@dataclasses.dataclass(frozen=True, slots=True)
class Form:
  """An entry of the table.

  Attributes:
    name: for tests and tables.
    fits: whether it is the faster one for a convolution of these sizes.
    compute: computes the convolution.
  """

  name: str
  fits: Callable[[Shapes], bool]
  compute: ConvForm


def canonical_form(x: jax.Array, kernel: jax.Array, window: Window, place: Layout, groups: int) -> Array:
  """Computes a convolution with XLA's own operation."""
  space = "".join(str(i) for i in range(len(place.spatial_axes)))
  return lax.conv_general_dilated(
    x,
    kernel,
    window.strides,
    window.lax_padding,
    rhs_dilation=window.dilations,
    dimension_numbers=(place.spec, space + "IO", place.spec),
    feature_group_count=groups,
  )


_Spec = jax.Array | jax.ShapeDtypeStruct


def cpu_form(
  x: _Spec, kernel: _Spec, window: Window, place: Layout, groups: int, forms: tuple[Form, ...] | None = None
) -> Callable[[jax.Array, jax.Array], Array] | None:
  """Returns the form of the table for a convolution on a CPU, or None if the canonical one is the fastest.

  Args:
    x: in layout `place`; only its shape and dtype are read.
    kernel: `[*window.size, in_channels / groups, out_channels]`; likewise.
    window: how the kernel slides.
    place: layout of `x`; only forms for channels last are known.
    groups: number of groups.
    forms: the table, `FORMS` if None.
  """
  dims = (*x.shape, *kernel.shape, *(n for pair in window.padding for n in pair))
  if not all(isinstance(n, int) for n in dims) or place.channel_axis != place.rank - 1:
    return None
  if x.dtype != jnp.float32 or kernel.dtype != x.dtype:
    return None
  shapes = Shapes(x.shape, kernel.shape, window, groups)
  if not x.size or not kernel.size or not all(shapes.out_space) or min(dims) < 0:
    return None
  found = next((form for form in (FORMS if forms is None else forms) if form.fits(shapes)), None)
  return None if found is None else lambda x, kernel: found.compute(x, kernel, shapes)


def _are_patches(shapes: Shapes) -> bool:
  """Returns whether every pixel of the input belongs to one window at most, and no window to the padding."""
  window = shapes.window
  steps = zip(window.size, window.strides, window.dilations, strict=True)
  return (
    shapes.groups == 1 and all(k == 1 or (k == s and d == 1) for k, s, d in steps) and not any(map(sum, window.padding))
  )


def _patches(x: jax.Array, kernel: jax.Array, shapes: Shapes) -> Array:
  """Computes a convolution whose windows do not overlap as one dot."""
  window, out = shapes.window, shapes.out_space
  batch, channels = shapes.x[0], shapes.x[-1]
  limits = [(n - 1) * s + k for n, s, k in zip(out, window.strides, window.size, strict=True)]
  steps = [s if k == 1 else 1 for s, k in zip(window.strides, window.size, strict=True)]
  if [*x.shape[1:-1]] != limits or max(steps) > 1:
    x = lax.slice(x, (0,) * x.ndim, (batch, *limits, channels), (1, *steps, 1))
  if max(window.size) > 1:
    pairs = [size for pair in zip(out, window.size, strict=True) for size in pair]
    space = len(out)
    x = x.reshape(batch, *pairs, channels)
    x = x.transpose(0, *range(1, 2 * space, 2), *range(2, 2 * space + 1, 2), 2 * space + 1)
  return _dot(x.reshape(shapes.num_pixels, -1), kernel, shapes)


def _dot(rows: jax.Array, kernel: jax.Array, shapes: Shapes) -> Array:
  """Multiplies one row per pixel of the result, of the cells of its window, with the filter."""
  y = lax.dot(rows, kernel.reshape(-1, kernel.shape[-1]))
  return y.reshape(shapes.x[0], *shapes.out_space, kernel.shape[-1])


def _has_few_pixels(shapes: Shapes) -> bool:
  *_, in_channels, out_channels = shapes.kernel
  return (
    shapes.groups == 1
    and 1 < math.prod(shapes.window.size) <= _MOST_CELLS
    and min(in_channels, out_channels) >= _MANY_CHANNELS
    and shapes.num_pixels <= _FEW_PIXELS
  )


def _rows_of_cells(x: jax.Array, kernel: jax.Array, shapes: Shapes) -> Array:
  """Computes a convolution as one dot, with an array that repeats each pixel for each window that sees it."""
  views = [view for _, view in window_views(x, shapes.window, range(1, x.ndim - 1), 0)]
  return _dot(jnp.concatenate(views, -1).reshape(shapes.num_pixels, -1), kernel, shapes)


def _is_grouped(shapes: Shapes) -> bool:
  # Groups of few channels would have to be merged, with zeros in the filter between them, to be faster than XLA's form.
  # Then an infinite value in one group would make the results of the others NaN.
  return 1 < shapes.groups <= _MOST_GROUPS and shapes.kernel[-2] >= _ENOUGH_CHANNELS


def _by_group(x: jax.Array, kernel: jax.Array, shapes: Shapes) -> Array:
  """Computes a grouped convolution as a dense one for each group."""
  window, groups = shapes.window, shapes.groups
  space = "".join(str(i) for i in range(len(window.size)))
  numbers = (f"N{space}C", f"{space}IO", f"N{space}C")
  parts = zip(jnp.split(x, groups, -1), jnp.split(kernel, groups, -1), strict=True)
  results = [
    lax.conv_general_dilated(
      part, filters, window.strides, window.padding, rhs_dilation=window.dilations, dimension_numbers=numbers
    )
    for part, filters in parts
  ]
  return lax.concatenate(results, x.ndim - 1)


def _is_strided(shapes: Shapes) -> bool:
  window = shapes.window
  return (
    shapes.groups == 1
    and any(s > 1 for s in window.strides)
    and math.prod(window.size) <= min(_MOST_CELLS, _MOST_CELLS_PER_PIXEL * math.prod(window.strides))
  )


_FEW_PIXELS = 256
_MANY_CHANNELS = 128
_MOST_GROUPS = 64
_ENOUGH_CHANNELS = 16
# Each cell of a window is an operation of the program in `_rows_of_cells`.
_MOST_CELLS = 64
# The array of `_rows_of_cells` has so many elements for each of the convolution's input: a bound for memory.
_MOST_CELLS_PER_PIXEL = 4

FORMS: tuple[Form, ...] = (
  Form("patches", _are_patches, _patches),
  Form("rows of cells, few pixels", _has_few_pixels, _rows_of_cells),
  Form("one for each group", _is_grouped, _by_group),
)
"""Forms of convolutions; the first one that fits is used."""

INPUT_GRADIENT_FORMS: tuple[Form, ...] = (
  Form("patches", _are_patches, _patches),
  Form("rows of cells, with strides", _is_strided, _rows_of_cells),
  Form("one for each group", _is_grouped, _by_group),
)
"""Forms of convolutions whose transposes, which `Conv2DBackpropInput` computes, are fast."""
