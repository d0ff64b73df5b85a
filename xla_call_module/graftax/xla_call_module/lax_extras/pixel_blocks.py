"""Convolutions with strides as dense convolutions of blocks of pixels, which Shi et al. (2016) transpose to sub-pixels.

The pixels of a block become channels, so the transpose of such a convolution is a dense one without holes between its
pixels, whose channels are the pixels of blocks of the result. The measurements are in
docs/measurements-2026-11-29.md, "Transposed convolutions".
"""

import math

import numpy as np
from jax import Array, lax

from graftax.xla_call_module.lax_extras.conv_forms import ConvForm, ConvShapes, is_left_to_xla

__all__ = ["CONV_INPUT_GRADIENT_VALUES"]


def _are_blocks(shapes: ConvShapes) -> bool:
  """Returns whether the transpose by blocks is faster than other forms.

  Windows that are not whole blocks would need zeros in the filter, which make NaN of infinite pixels.
  """
  steps = [*zip(shapes.size, shapes.strides, strict=True)]
  is_divided = shapes.groups == 1 and {*shapes.dilations} == {1} and max(s for _, s in steps) > 1
  if not is_divided or any(k % s for k, s in steps):
    return False
  grown = math.prod(n + k // s - 1 for n, (k, s) in zip(shapes.out_space, steps, strict=True))
  has_few_more = grown <= _MOST_GROWTH * math.prod(shapes.out_space)
  return has_few_more and (is_left_to_xla() or shapes.num_pixels >= _MANY_PIXELS)


def _by_blocks(x: Array, kernel: Array, shapes: ConvShapes) -> Array:
  """Computes a convolution over blocks as large as the strides, which windows consist of."""
  num_axes, strides = len(shapes.size), shapes.strides
  blocks = [k // s for k, s in zip(shapes.size, strides, strict=True)]
  # Rows of blocks that windows reach; what is behind the last of them is cut off.
  rows = [n + count - 1 for n, count in zip(shapes.out_space, blocks, strict=True)]
  steps = zip(shapes.padding, rows, strides, x.shape[1:-1], strict=True)
  padding = [(low, row * s - low - n, 0) for (low, _), row, s, n in steps]
  x = lax.pad(x, np.zeros((), x.dtype), [(0, 0, 0), *padding, (0, 0, 0)])
  in_order = (*range(0, 2 * num_axes, 2), *range(1, 2 * num_axes, 2))
  # Axes are split one after the other, as JAX does not reshape several axes beside a sharded batch.
  for axis, pair in enumerate(zip(rows, strides, strict=True)):
    x = x.reshape(*x.shape[: 2 * axis + 1], *pair, *x.shape[2 * axis + 2 :])
  x = x.transpose(0, *(axis + 1 for axis in in_order), x.ndim - 1).reshape(x.shape[0], *rows, -1)
  pairs = [size for pair in zip(blocks, strides, strict=True) for size in pair]
  kernel = kernel.reshape(*pairs, *kernel.shape[-2:]).transpose(*in_order, 2 * num_axes, 2 * num_axes + 1)
  kernel = kernel.reshape(*blocks, -1, kernel.shape[-1])
  space = "".join(map(str, range(num_axes)))
  return lax.conv_general_dilated(
    x, kernel, (1,) * num_axes, "VALID", dimension_numbers=(f"N{space}C", f"{space}IO", f"N{space}C")
  )


# A window of two blocks along each axis reaches one block more than there are results: 25 for images of 4x4.
_MOST_GROWTH = 2
# Of the array that is transposed, with the batch. XLA's own convolution computes few pixels slower than products.
_MANY_PIXELS = 4096

CONV_INPUT_GRADIENT_VALUES: tuple[ConvForm, ...] = (ConvForm("blocks of pixels", _are_blocks, _by_blocks),)
"""Forms whose transposes are the fastest to compute, but not to differentiate: XLA's derivatives of them are slow."""
