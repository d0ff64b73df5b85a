"""`lax.conv_general_dilated` in the form that is the fastest on each platform."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, TypeVar

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from graftax.xla_call_module.lax_extras.conv_forms import (
  CONV_FORMS,
  ConvFunction,
  ConvShapes,
  find_conv_form,
  uses_conv_forms,
)
from graftax.xla_call_module.lax_extras.depthwise import depthwise_conv
from graftax.xla_call_module.lax_extras.shared_branches import traced_once
from graftax.xla_call_module.lax_extras.windows import Window

__all__ = ["conv_general_dilated"]

_T = TypeVar("_T")

# Each cell of a depthwise filter is an operation of the program.
_MOST_CELLS = 128


def conv_general_dilated(
  lhs: Array,
  rhs: Array,
  window_strides: Sequence[int],
  padding: Sequence[tuple[int, int]],
  lhs_dilation: Sequence[int],
  rhs_dilation: Sequence[int],
  dimension_numbers: lax.ConvDimensionNumbers,
  feature_group_count: int = 1,
  batch_group_count: int = 1,
  precision: Any = None,
  preferred_element_type: np.dtype | None = None,
) -> Array:
  """Computes `lax.conv_general_dilated`, on CPUs in a faster form if one is known.

  Args:
    lhs: the input.
    rhs: the filter.
    window_strides: one entry per spatial dimension.
    padding: likewise.
    lhs_dilation: likewise.
    rhs_dilation: likewise.
    dimension_numbers: positions of batch, channels and spatial dimensions.
    feature_group_count: number of groups of channels.
    batch_group_count: number of groups of the batch.
    precision: as for `lax.conv_general_dilated`. Dense convolutions with another than the default are left to XLA.
    preferred_element_type: dtype of the result; that of `lhs` by default.
  """

  canonical = traced_once(
    lax.conv_general_dilated,
    window_strides=tuple(window_strides),
    padding=tuple(map(tuple, padding)),
    lhs_dilation=tuple(lhs_dilation),
    rhs_dilation=tuple(rhs_dilation),
    dimension_numbers=dimension_numbers,
    feature_group_count=feature_group_count,
    batch_group_count=batch_group_count,
    precision=precision,
    preferred_element_type=preferred_element_type,
  )
  result = lhs.dtype if preferred_element_type is None else preferred_element_type
  form = None
  is_plain = all(d == 1 for d in lhs_dilation) and batch_group_count == 1
  if is_plain and lhs.dtype == rhs.dtype == result:
    layout = _Layout.of(dimension_numbers)
    if layout is not None and uses_conv_forms(lhs, rhs, layout.x[0]):
      shapes = layout.shapes(lhs, rhs, window_strides, rhs_dilation, padding, feature_group_count)
      form = None if shapes is None else _cpu_form(shapes, layout, lhs.dtype, precision)
  return canonical(lhs, rhs) if form is None else lax.platform_dependent(lhs, rhs, cpu=form, default=canonical)


@dataclasses.dataclass(frozen=True, slots=True)
class _Layout:
  """Positions of the dimensions of the input, which are those of the result, and of the filter.

  Attributes:
    x: of batch, spatial dimensions and channels.
    kernel: of spatial dimensions, input channels and output channels.
  """

  x: tuple[int, ...]
  kernel: tuple[int, ...]

  @classmethod
  def of(cls, numbers: lax.ConvDimensionNumbers) -> "_Layout | None":
    """Returns the layout; None if that of the result is another one, or if the order of spatial dimensions changes."""
    if min(len(numbers.lhs_spec), len(numbers.rhs_spec)) < 2:
      return None
    (batch, channels, *space), (out_channels, in_channels, *kernel) = numbers.lhs_spec, numbers.rhs_spec
    if tuple(numbers.out_spec) != tuple(numbers.lhs_spec) or space != sorted(space):
      return None
    return cls((batch, *space, channels), (*kernel, in_channels, out_channels))

  def shapes(
    self,
    lhs: Array,
    rhs: Array,
    strides: Sequence[int],
    dilations: Sequence[int],
    padding: Sequence[tuple[int, int]],
    groups: int,
  ) -> ConvShapes | None:
    """Returns the sizes of a convolution with its channels last; None if no form can compute it."""
    x, kernel = [lhs.shape[axis] for axis in self.x], [rhs.shape[axis] for axis in self.kernel]
    return ConvShapes.of(x, kernel, strides, dilations, padding, groups)

  def window(self, shapes: ConvShapes) -> Window:
    """Returns the window over all dimensions of the input."""

    def placed(values: Sequence[_T], default: _T) -> tuple[_T, ...]:
      found = dict(zip(self.x[1:-1], values, strict=True))
      return tuple(found.get(axis, default) for axis in range(len(self.x)))

    ones = (1,) * len(self.x)
    padding = placed(shapes.padding, (0, 0))
    return Window(placed(shapes.size, 1), placed(shapes.strides, 1), ones, placed(shapes.dilations, 1), padding)


def _cpu_form(shapes: ConvShapes, layout: _Layout, dtype: np.dtype, precision: Any) -> ConvFunction | None:
  """Returns the form for CPUs of a convolution of one dtype; None if XLA's own is the fastest."""
  if not jnp.issubdtype(dtype, jnp.floating):
    return None
  if shapes.is_depthwise:
    return traced_once(_depthwise, shapes=shapes, layout=layout) if math.prod(shapes.size) <= _MOST_CELLS else None
  has_channels_last = layout.x == tuple(range(len(layout.x)))
  form = (
    find_conv_form(shapes, CONV_FORMS) if has_channels_last and dtype == jnp.float32 and precision is None else None
  )
  return None if form is None else traced_once(_dense, form=form, layout=layout)


def _dense(lhs: Array, rhs: Array, form: ConvFunction, layout: _Layout) -> Array:
  return form(lhs, rhs.transpose(layout.kernel))


def _depthwise(lhs: Array, rhs: Array, shapes: ConvShapes, layout: _Layout) -> Array:
  by_channel = rhs.transpose(layout.kernel).reshape(*shapes.size, shapes.groups, -1)
  batch_axis, *_, channel_axis = layout.x
  return depthwise_conv(lhs, by_channel, layout.window(shapes), channel_axis, batch_axis)
