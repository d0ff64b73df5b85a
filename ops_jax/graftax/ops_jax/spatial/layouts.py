"""Positions of batch, channel and spatial dimensions for TensorFlow's `data_format`."""

import dataclasses
from collections.abc import Sequence
from typing import TypeVar

from graftax.ops_jax._core.errors import InvalidInputError, UnsupportedAttrError

__all__ = ["Layout", "layout"]

_T = TypeVar("_T")
_CHANNELS_LAST = ("NHWC", "NDHWC", "NWC", "CHANNELS_LAST")
_CHANNELS_FIRST = ("NCHW", "NCDHW", "NCW", "CHANNELS_FIRST")


@dataclasses.dataclass(frozen=True, slots=True)
class Layout:
  """Positions of the dimensions of an image-like tensor with batch first.

  Attributes:
    name: TensorFlow's name, such as `"NHWC"`.
    channel_axis: position of the channels.
    spatial_axes: positions of the spatial dimensions, outermost first.
  """

  name: str
  channel_axis: int
  spatial_axes: tuple[int, ...]

  @property
  def rank(self) -> int:
    """Returns the number of dimensions."""
    return len(self.spatial_axes) + 2

  @property
  def spec(self) -> str:
    """Returns the layout for `jax.lax.conv_dimension_numbers`, with numbered spatial dimensions: `"N01C"`."""
    space = "".join(str(i) for i in range(len(self.spatial_axes)))
    return f"NC{space}" if self.channel_axis == 1 else f"N{space}C"

  def spatial(self, values: Sequence[_T]) -> tuple[_T, ...]:
    """Returns the entries of `values` (one per dimension) that belong to spatial dimensions."""
    return tuple(values[axis] for axis in self.spatial_axes)


def layout(op: str, data_format: str, rank: int) -> Layout:
  """Returns the layout that `data_format` means for a tensor of `rank`.

  Args:
    op: for messages.
    data_format: TensorFlow's name.
    rank: number of dimensions, batch and channels included.

  Raises:
    UnsupportedAttrError: an unknown `data_format`.
    InvalidInputError: `rank` does not fit it.

  Example:
    >>> layout("Conv2D", "NCHW", 4).spatial((1, 1, 2, 3))
    (2, 3)
  """
  if data_format not in _CHANNELS_LAST + _CHANNELS_FIRST:
    raise UnsupportedAttrError(
      f"{op}: data_format={data_format!r} is not supported; expected one of {_CHANNELS_LAST + _CHANNELS_FIRST}. "
      f"Transpose the input, or register a lowering with @register({op!r}, override=True)."
    )
  if rank < 3 or (data_format[0] == "N" and len(data_format) != rank):
    raise InvalidInputError(f"{op}: an input of rank {rank} does not fit data_format={data_format!r}.")
  if data_format in _CHANNELS_LAST:
    return Layout(data_format, rank - 1, tuple(range(1, rank - 1)))
  return Layout(data_format, 1, tuple(range(2, rank)))
