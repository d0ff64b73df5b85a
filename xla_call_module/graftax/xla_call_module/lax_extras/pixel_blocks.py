"""Convolutions with strides as dense convolutions of blocks of pixels, which Shi et al. (2016) transpose to sub-pixels.

The pixels of a block become channels, so the transpose of such a convolution is a dense one, without zeros between its
pixels, and its channels are the pixels of blocks of the result. The measurements are in
docs/measurements-2026-11-29.md, "Transposed convolutions".
"""

import math

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from graftax.xla_call_module.lax_extras.conv_forms import ConvForm, ConvShapes, is_left_to_xla, split_into_blocks

__all__ = ["CONV_INPUT_GRADIENT_VALUES"]


def _are_blocks(shapes: ConvShapes) -> bool:
  """Returns whether the transpose by blocks is faster than other forms: for fewer pixels where XLA uses oneDNN.

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
  strides, num_axes = shapes.strides, len(shapes.strides)
  counts = [k // s for k, s in zip(shapes.size, strides, strict=True)]
  # Rows of blocks that windows reach; what is behind the last of them is cut off.
  rows = [n + count - 1 for n, count in zip(shapes.out_space, counts, strict=True)]
  steps = zip(shapes.padding, rows, strides, x.shape[1:-1], strict=True)
  padding = [(low, row * s - low - n, 0) for (low, _), row, s, n in steps]
  x = lax.pad(x, np.zeros((), x.dtype), [(0, 0, 0), *padding, (0, 0, 0)])
  x = split_into_blocks(x, rows, strides).reshape(x.shape[0], *rows, -1)
  # Input channels take the place of a batch.
  kernel = split_into_blocks(jnp.moveaxis(kernel, -2, 0), counts, strides)
  kernel = jnp.moveaxis(kernel, 0, -2).reshape(*counts, -1, kernel.shape[-1])
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
