"""The form of a convolution for each platform, by layout and window.

On other platforms than CPUs, and for symbolic sizes, XLA's own form stays.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax

from graftax.ops_jax._core.values import Array
from graftax.ops_jax.spatial.layouts import Layout
from graftax.ops_jax.spatial.windows import SpatialWindow
from graftax.xla_call_module.lax_extras import CONV_FORMS, ConvForm, ConvShapes, find_conv_form

__all__ = ["canonical_form", "cpu_form"]


def canonical_form(x: jax.Array, kernel: jax.Array, window: SpatialWindow, place: Layout, groups: int) -> Array:
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
  x: _Spec, kernel: _Spec, window: SpatialWindow, place: Layout, groups: int, forms: tuple[ConvForm, ...] | None = None
) -> Callable[[jax.Array, jax.Array], jax.Array] | None:
  """Returns the form of the table for a convolution on a CPU, or None if the canonical one is the fastest.

  Args:
    x: in layout `place`; only its shape and dtype are read.
    kernel: `[*window.size, in_channels / groups, out_channels]`; likewise.
    window: how the kernel slides.
    place: layout of `x`; only forms for channels last are known.
    groups: number of groups.
    forms: the table, `CONV_FORMS` if None.
  """
  if place.channel_axis != place.rank - 1 or x.dtype != jnp.float32 or kernel.dtype != x.dtype:
    return None
  shapes = ConvShapes.of(x.shape, kernel.shape, window.strides, window.dilations, window.padding, groups)
  return None if shapes is None else find_conv_form(shapes, CONV_FORMS if forms is None else forms)
