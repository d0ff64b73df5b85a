"""Reads the pixels of BMP images as TensorFlow does: without palettes, and with the fourth channel."""

import dataclasses
import struct

import numpy as np

from graftax.ops_jax import Context, InvalidInputError

__all__ = ["bitmap_pixels", "is_bitmap"]

_HEADER_BYTES = 32
# Rows are filled up to a multiple of 4 bytes. TensorFlow accepts as many bytes after the last row.
_MOST_BYTES_AFTER_PIXELS = 3


@dataclasses.dataclass(frozen=True, slots=True)
class _Header:
  first_pixel: int
  width: int
  height: int
  upwards: bool
  num_channels: int


def is_bitmap(data: bytes) -> bool:
  """Returns whether an encoded image is a BMP."""
  return data.startswith(b"BM")


def bitmap_pixels(
  ctx: Context, op: str, data: bytes, *, least_channels: int = 0, itemsize_bytes: int = 1
) -> np.ndarray:
  """Returns `[height, width, channels]` uint8 of a BMP: gray, RGB or RGBA. Of palettes, the positions are returned.

  Args:
    ctx: the node, and its budget.
    op: for error messages.
    data: the encoded image.
    least_channels: the budget is asked for at least so many channels, if the caller adds some.
    itemsize_bytes: size of an element in the budget, if the caller converts the pixels to a larger dtype.

  Raises:
    InvalidInputError: the image has other than 8, 24 or 32 bits a pixel, or it is damaged.
    LimitExceededError: its pixels take more memory than the limits of the call allow.
  """
  header = _header(op, data)
  where = f"{op} node {ctx.node_name!r} (function {ctx.function_name!r})"
  shape = (header.height, header.width, header.num_channels)
  ctx.budget.check_array((*shape[:2], max(header.num_channels, least_channels)), itemsize_bytes, where)
  row_bytes = -(-header.width * header.num_channels // 4) * 4
  after = len(data) - header.first_pixel - row_bytes * header.height
  if header.first_pixel < 0 or not 0 <= after <= _MOST_BYTES_AFTER_PIXELS:
    raise InvalidInputError(
      f"{op}: the BMP image is damaged: {len(data)} bytes; expected {row_bytes * header.height} after the first "
      f"{header.first_pixel}, for {header.width} x {header.height} pixels of {header.num_channels} bytes."
    )
  rows = np.frombuffer(data, np.uint8, row_bytes * header.height, header.first_pixel).reshape(header.height, row_bytes)
  stored = rows[:, : header.width * header.num_channels].reshape(shape)
  pixels = stored[::-1] if header.upwards else stored
  # Colors are stored as blue, green and red.
  return pixels[..., [2, 1, 0, 3][: header.num_channels]] if header.num_channels > 1 else pixels.copy()


def _header(op: str, data: bytes) -> _Header:
  if len(data) < _HEADER_BYTES:
    raise InvalidInputError(f"{op}: the BMP image is damaged: {len(data)} bytes; expected at least {_HEADER_BYTES}.")
  first_pixel, _, width, height, _, bits = struct.unpack_from("<iiiiHH", data, 10)
  if width <= 0 or height == 0:
    raise InvalidInputError(f"{op}: the BMP image has {width} x {height} pixels; expected at least one.")
  if bits not in (8, 24, 32):
    raise InvalidInputError(f"{op}: the BMP image has {bits} bits a pixel; expected 8, 24 or 32.")
  return _Header(first_pixel, width, abs(height), height > 0, bits // 8)
