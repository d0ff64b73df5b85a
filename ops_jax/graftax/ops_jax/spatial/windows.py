"""Sliding windows: the attributes that describe them, padding in numbers, and the view of each cell of a window."""

import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, NotRequired, TypedDict

import jax
import jax.numpy as jnp
from jax import lax

from graftax.ops_jax._core.errors import InvalidInputError, UnsupportedAttrError
from graftax.ops_jax._core.values import Array
from graftax.ops_jax.spatial.layouts import Layout, layout
from graftax.xla_call_module.lax_extras import Window

__all__ = [
  "Conv2DAttrs",
  "ConvAttrs",
  "PoolAttrs",
  "SpatialWindow",
  "WindowAttrs",
  "full_window",
  "layout_and_window",
  "spatial_window",
  "window_views",
]

# Each cell of a window is an operation of the program.
_MOST_CELLS = 1 << 16


class WindowAttrs(TypedDict):
  """Attributes of a window that slides over the spatial dimensions.

  Attributes:
    strides: one entry per dimension of the input, 1 for batch and channels.
    padding: `"SAME"` (an odd cell goes to the end), `"VALID"` or, for 2-D convolutions, `"EXPLICIT"`.
    dilations: one entry per dimension of the input, 1 for batch and channels; empty for ones.
  """

  strides: tuple[int, ...]
  padding: str
  dilations: NotRequired[tuple[int, ...]]


class ConvAttrs(WindowAttrs):
  """Attributes of a convolution.

  Attributes:
    data_format: such as `"NHWC"` or `"NCDHW"`, one letter per dimension of the input; channels are last by default.
  """

  data_format: NotRequired[str]


class Conv2DAttrs(ConvAttrs):
  """Attributes of a 2-D convolution.

  Attributes:
    explicit_paddings: cells before and after, two entries per dimension of the input, if `padding` is `"EXPLICIT"`.
  """

  explicit_paddings: NotRequired[tuple[int, ...]]


class PoolAttrs(TypedDict):
  """Attributes of a pooling. One entry per dimension says how it is treated, so the layout does not matter.

  Attributes:
    ksize: window size, one entry per dimension of the input.
    strides: one entry per dimension of the input.
    padding: `"SAME"` or `"VALID"`.
  """

  ksize: tuple[int, ...]
  strides: tuple[int, ...]
  padding: str


@dataclasses.dataclass(frozen=True, slots=True)
class SpatialWindow:
  """How a window slides over the spatial dimensions; every tuple has one entry per spatial dimension.

  Attributes:
    size: number of cells of the window.
    strides: step between windows.
    dilations: step between the cells of a window.
    padding: cells added before and after; entries may be symbolic if the input's size is.
    padding_name: `"SAME"`, `"VALID"` or `"EXPLICIT"`.
  """

  size: tuple[int, ...]
  strides: tuple[int, ...]
  dilations: tuple[int, ...]
  padding: tuple[tuple[Any, Any], ...]
  padding_name: str

  @property
  def lax_padding(self) -> str | tuple[tuple[Any, Any], ...]:
    """Returns the padding as `jax.lax` takes it: by name if it depends on a symbolic size, otherwise in numbers."""
    has_numbers = all(isinstance(n, int) for pair in self.padding for n in pair)
    return self.padding if has_numbers else self.padding_name

  def check(self) -> None:
    """Raises an error if a program cannot have an operation for each cell of the window.

    Raises:
      InvalidInputError: a size or a stride is not positive.
      UnsupportedAttrError: there are too many cells.
    """
    if min((*self.size, *self.strides), default=1) < 1:
      raise InvalidInputError(f"a window of size {self.size!r} with strides {self.strides!r}; expected at least 1.")
    if math.prod(self.size) > _MOST_CELLS:
      raise UnsupportedAttrError(f"a window of size {self.size!r}; expected at most {_MOST_CELLS} cells.")

  def over_all_axes(self, axes: Sequence[int], rank: int) -> Window:
    """Returns the window over all axes of an array of `rank`, of which `axes` are the spatial ones.

    The sizes of the padding must be numbers.
    """
    sizes, strides, dilations, padding = [1] * rank, [1] * rank, [1] * rank, [(0, 0)] * rank
    for i, axis in enumerate(axes):
      sizes[axis], strides[axis], dilations[axis] = self.size[i], self.strides[i], self.dilations[i]
      padding[axis] = self.padding[i]
    return Window(tuple(sizes), tuple(strides), (1,) * rank, tuple(dilations), tuple(padding))


def spatial_window(
  op: str,
  place: Layout,
  input_shape: Sequence[Any],
  size: Sequence[int],
  *,
  strides: Sequence[int],
  padding: str,
  dilations: Sequence[int] = (),
  explicit_paddings: Sequence[int] = (),
) -> SpatialWindow:
  """Returns the window that TensorFlow's attributes describe.

  Args:
    op: for messages.
    place: layout of the input.
    input_shape: shape of the input; dimensions may be symbolic.
    size: window size, one entry per spatial dimension.
    strides: one entry per dimension of the input.
    padding: `"SAME"`, `"VALID"` or `"EXPLICIT"`.
    dilations: one entry per dimension of the input, or empty for ones.
    explicit_paddings: two entries per dimension of the input, if `padding` is `"EXPLICIT"`.

  Raises:
    UnsupportedAttrError: strides or dilations over batch or channels, or an unknown `padding`.
    InvalidInputError: a list has another length than the input has dimensions.
  """
  ones = (1,) * place.rank
  spatial_strides = _spatial(op, "strides", place, strides)
  spatial_dilations = _spatial(op, "dilations", place, dilations or ones)
  extents = [(n - 1) * d + 1 for n, d in zip(size, spatial_dilations, strict=True)]
  pairs = _padding_pairs(op, input_shape, place, extents, spatial_strides, padding, explicit_paddings)
  return SpatialWindow(tuple(size), spatial_strides, spatial_dilations, pairs, padding)


def layout_and_window(
  op: str,
  input_shape: Sequence[Any],
  filter_shape: Sequence[Any],
  *,
  strides: Sequence[int],
  padding: str,
  dilations: Sequence[int] = (),
  data_format: str = "CHANNELS_LAST",
  explicit_paddings: Sequence[int] = (),
) -> tuple[Layout, SpatialWindow]:
  """Returns the layout of a convolution's input, and how the filter slides over it.

  Args:
    op: for messages.
    input_shape: shape of the input; dimensions may be symbolic.
    filter_shape: `[*spatial, channels, ...]`.
    strides: as in `Conv2DAttrs`, like the following.
    padding: see there.
    dilations: see there.
    data_format: see there.
    explicit_paddings: see there.

  Raises:
    UnsupportedAttrError: an unknown layout or padding, or a window that moves over batch or channels.
    InvalidInputError: a filter or a list of another rank than the input.
  """
  place = layout(op, data_format, len(input_shape))
  if len(filter_shape) != place.rank:
    raise InvalidInputError(
      f"{op}: a filter of shape {tuple(filter_shape)} does not fit an input of shape {tuple(input_shape)}."
    )
  window = spatial_window(
    op,
    place,
    input_shape,
    filter_shape[: place.rank - 2],
    strides=strides,
    padding=padding,
    dilations=dilations,
    explicit_paddings=explicit_paddings,
  )
  return place, window


def _padding_pairs(
  op: str,
  input_shape: Sequence[Any],
  place: Layout,
  extents: Sequence[int],
  strides: Sequence[int],
  padding: str,
  explicit_paddings: Sequence[int],
) -> tuple[tuple[Any, Any], ...]:
  rank = len(input_shape)
  if padding == "EXPLICIT":
    if len(explicit_paddings) != 2 * rank:
      raise InvalidInputError(
        f"{op}: explicit_paddings={tuple(explicit_paddings)!r} has {len(explicit_paddings)} entries; expected "
        f"{2 * rank}, two per dimension."
      )
    return place.spatial(list(zip(explicit_paddings[::2], explicit_paddings[1::2], strict=True)))
  if explicit_paddings:
    raise InvalidInputError(
      f"{op}: explicit_paddings={tuple(explicit_paddings)!r} with padding={padding!r}; expected none, or 'EXPLICIT'."
    )
  if padding not in ("SAME", "VALID"):
    raise UnsupportedAttrError(f"{op}: padding={padding!r} is not supported; expected 'SAME', 'VALID' or 'EXPLICIT'.")
  # SAME puts the odd padding cell at the end, in TensorFlow as in JAX.
  return tuple((low, high) for low, high in lax.padtype_to_pads(place.spatial(input_shape), extents, strides, padding))


def _spatial(op: str, what: str, place: Layout, values: Sequence[int]) -> tuple[int, ...]:
  if len(values) != place.rank:
    raise InvalidInputError(
      f"{op}: {what}={tuple(values)!r} has {len(values)} entries; the input has {place.rank} dimensions."
    )
  others = [v for axis, v in enumerate(values) if axis not in place.spatial_axes]
  if any(v != 1 for v in others):
    raise UnsupportedAttrError(
      f"{op}: {what}={tuple(values)!r} moves over batch or channels (data_format={place.name!r}); expected 1 there."
    )
  return place.spatial(values)


def full_window(
  op: str,
  input_shape: Sequence[Any],
  ksize: Sequence[int],
  strides: Sequence[int],
  padding: str,
  explicit_paddings: Sequence[int] = (),
) -> SpatialWindow:
  """Returns a window over all dimensions of the input, batch and channels included; see `spatial_window`.

  Raises:
    InvalidInputError: a list has another length than the input has dimensions.
    UnsupportedAttrError: an unknown `padding`.
  """
  rank = len(input_shape)
  if len(ksize) != rank or len(strides) != rank:
    raise InvalidInputError(
      f"{op}: ksize={tuple(ksize)!r} and strides={tuple(strides)!r} do not fit an input of shape {tuple(input_shape)}."
    )
  everywhere = Layout("all dimensions", rank, tuple(range(rank)))
  pairs = _padding_pairs(op, input_shape, everywhere, ksize, strides, padding, explicit_paddings)
  return SpatialWindow(tuple(ksize), tuple(strides), (1,) * rank, pairs, padding)


def window_views(
  x: Array, window: SpatialWindow, axes: Sequence[int], fill: Any, *, is_stored: bool = False
) -> Iterator[tuple[tuple[int, ...], Array]]:
  """Yields, for each cell of the window, its position and the part of `x` that it sees, one entry per window.

  Args:
    x: the input.
    window: how it slides.
    axes: the dimensions of `x` that it slides over.
    fill: value of the padding cells.
    is_stored: whether XLA is to store the padded input, so that it is computed once and not once for each view.

  Raises:
    InvalidInputError: a size or a stride is not positive.
    UnsupportedAttrError: the window has more cells than a program can have operations.
  """
  window.check()
  fill = jnp.asarray(fill, x.dtype)
  padded = _padded(x, window, axes, fill)
  extents = [(size - 1) * dilation + 1 for size, dilation in zip(window.size, window.dilations, strict=True)]
  counts = [
    _count(padded.shape[a], extent, step) for a, extent, step in zip(axes, extents, window.strides, strict=True)
  ]
  # JAX cannot know whether a symbolic size has room for a window. With spare cells behind the end, which no window
  # covers, every slice is inside.
  is_open = [not isinstance(padded.shape[axis], int) for axis in axes]
  spare = [(e + s - 2) * o for e, s, o in zip(extents, window.strides, is_open, strict=True)]
  padded = _with_spare_cells(padded, axes, spare, fill)
  if is_stored:
    padded = lax.optimization_barrier(padded)
  for cell in itertools.product(*map(range, window.size)):
    starts, limits, steps = [0] * x.ndim, list(padded.shape), [1] * x.ndim
    for i, axis in enumerate(axes):
      starts[axis] = cell[i] * window.dilations[i]
      if is_open[i]:
        limits[axis] = starts[axis] + counts[i] * window.strides[i]
      elif counts[i] <= 0:
        starts[axis] = limits[axis] = 0
      else:
        steps[axis] = window.strides[i]
        limits[axis] = starts[axis] + (counts[i] - 1) * steps[axis] + 1
    view = lax.slice(padded, starts, limits, steps)
    for i, axis in enumerate(axes):
      if is_open[i] and window.strides[i] != 1:
        view = _every(view, window.strides[i], counts[i], axis)
    yield cell, view


def _every(x: jax.Array, stride: int, count: Any, axis: int) -> jax.Array:
  """Returns every `stride`-th element of a symbolic dimension; JAX cannot transpose a slice with such steps."""
  split = x.reshape(*x.shape[:axis], count, stride, *x.shape[axis + 1 :])
  return lax.index_in_dim(split, 0, axis + 1, keepdims=False)


def _count(size: Any, extent: int, stride: int) -> Any:
  """Returns the number of windows along a dimension."""
  count = (size - extent) // stride + 1
  return count if isinstance(size, int) else jax.core.max_dim(count, 0)


def _with_spare_cells(x: Array, axes: Sequence[int], spare: Sequence[int], fill: Array) -> Array:
  if not any(spare):
    return x
  configuration = [(0, 0, 0)] * x.ndim
  for axis, number in zip(axes, spare, strict=True):
    configuration[axis] = (0, number, 0)
  return lax.pad(x, fill, configuration)


def _padded(x: Array, window: SpatialWindow, axes: Sequence[int], fill: Array) -> Array:
  if window.lax_padding == window.padding:
    configuration = [(0, 0, 0)] * x.ndim
    for axis, (before, after) in zip(axes, window.padding, strict=True):
      configuration[axis] = (before, after, 0)
    return x if all(c == (0, 0, 0) for c in configuration) else lax.pad(x, fill, configuration)
  # lax.pad accepts only numbers, but the size of an array may be symbolic.
  for axis, pair in zip(axes, window.padding, strict=True):
    edges = [jnp.broadcast_to(fill, (*x.shape[:axis], n, *x.shape[axis + 1 :])) for n in pair]
    x = jnp.concatenate([edges[0], x, edges[1]], axis)
  return x
