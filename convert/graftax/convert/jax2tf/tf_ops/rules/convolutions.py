"""`conv_general_dilated` as Conv2D, Conv3D or DepthwiseConv2dNative."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from graftax.convert.jax2tf.tf_ops import complex_parts
from graftax.convert.jax2tf.tf_ops.builder import Builder
from graftax.convert.jax2tf.tf_ops.cpu_kernels import has_kernel
from graftax.convert.jax2tf.tf_ops.registry import Unsupported, rule
from graftax.convert.jax2tf.tf_ops.rules._common import broadcast, cast, pad, reshape, static_slice, transpose
from graftax.convert.jax2tf.tf_ops.rules.products import rounded
from graftax.convert.jax2tf.tf_ops.rules.shaping import dilate
from graftax.convert.jax2tf.tf_ops.tensors import Tensor
from graftax.graphdef_ir import DType

_MAX_GROUPS = 256


@rule("conv_general_dilated", ignores=("precision", "preferred_element_type"))
def conv_general_dilated(
  b: Builder,
  x: Tensor,
  kernel: Tensor,
  *,
  window_strides: Sequence[int],
  padding: Any,
  lhs_dilation: Sequence[int],
  rhs_dilation: Sequence[int],
  dimension_numbers: Any,
  feature_group_count: int,
  batch_group_count: int,
  out: Any,
) -> Tensor:
  """Returns a convolution. Groups that are not channels become convolutions side by side."""
  num_spatial = x.rank - 2
  if num_spatial > 3:
    raise Unsupported(f"convolutions along {num_spatial} axes; expected at most 3")
  if any(isinstance(size, int) and size == 0 for size in (*out.shape, *x.shape, *kernel.shape)):
    # Conv2D has neither kernels that are larger than the images, nor those of no channels.
    return broadcast(b, b.constant(np.zeros((1,) * x.rank, out.dtype)), out.shape)
  lhs_spec, rhs_spec, out_spec = dimension_numbers
  dtype = _computed_in(np.dtype(out.dtype), num_spatial)
  # Images are [batch, ..., channels], and kernels are [..., channels, features].
  images = cast(b, transpose(b, x, [lhs_spec[0], *lhs_spec[2:], lhs_spec[1]]), dtype)
  filters = cast(b, transpose(b, kernel, [*rhs_spec[2:], rhs_spec[1], rhs_spec[0]]), dtype)
  images = dilate(b, images, [0, *(n - 1 for n in lhs_dilation), 0], 0)
  images = pad(b, images, [(0, 0), *padding, (0, 0)], 0)
  images, filters, strides, dilation = _at_least_two_axes(b, images, filters, window_strides, rhs_dilation)
  window = _Window(tuple(map(int, strides)), tuple(map(int, dilation)))

  def convolve(images: Tensor, filters: Tensor) -> Tensor:
    if batch_group_count > 1:
      return _grouped(b, images, filters, window, batch_group_count, axis=0)
    return _convolved(b, images, filters, window, int(feature_group_count))

  found = _of_parts(b, convolve, images, filters) if dtype.kind == "c" else convolve(images, filters)
  found = reshape(b, found, (found.shape[0], *found.shape[1:-1][len(strides) - num_spatial :], found.shape[-1]))
  axes = [out_spec[0], *out_spec[2:], out_spec[1]]
  return rounded(b, transpose(b, found, list(np.argsort(axes))), out.dtype)


@dataclasses.dataclass(frozen=True, slots=True)
class _Window:
  strides: tuple[int, ...]
  dilation: tuple[int, ...]


def _computed_in(dtype: "np.dtype[Any]", num_spatial: int) -> "np.dtype[Any]":
  """Returns a dtype that TensorFlow convolves and that has the results of another one."""
  op = "Conv3D" if num_spatial == 3 else "Conv2D"
  if jnp.issubdtype(dtype, np.floating) and dtype.itemsize < 4:
    return np.dtype(np.float32)  # TensorFlow's kernels for 16 bits also sum in 16 bits
  if dtype.kind == "c" or has_kernel(op, {"T": DType.from_numpy(dtype)}):
    return dtype
  if dtype.kind in "iu" and dtype.itemsize <= 4 and op == "Conv2D":
    return np.dtype(np.int32)  # integers wrap around
  raise Unsupported(f"TensorFlow has no CPU kernel of {op} for {dtype}")


def _of_parts(b: Builder, convolve: Callable[[Tensor, Tensor], Tensor], images: Tensor, filters: Tensor) -> Tensor:
  """Returns a convolution of complex numbers, which TensorFlow has not, as four of their real and imaginary parts."""
  filters_parts = complex_parts.parts(b, filters)
  (rr, ri), (ir, ii) = ([convolve(x, y) for y in filters_parts] for x in complex_parts.parts(b, images))
  real, imag = b.op("Sub", rr, ii, shape=rr.shape), b.op("AddV2", ri, ir, shape=ri.shape)
  return b.op("Complex", real, imag, shape=rr.shape, Tout=DType.from_numpy(images.dtype))


def _at_least_two_axes(
  b: Builder, images: Tensor, filters: Tensor, strides: Sequence[int], dilation: Sequence[int]
) -> tuple[Tensor, Tensor, list[int], list[int]]:
  """Returns a convolution along fewer than two axes as one along two."""
  new = (1,) * max(0, 2 - len(strides))
  images = reshape(b, images, (images.shape[0], *new, *images.shape[1:]))
  filters = reshape(b, filters, (*new, *filters.shape))
  return images, filters, [*new, *strides], [*new, *dilation]


def _convolved(b: Builder, images: Tensor, filters: Tensor, window: _Window, groups: int) -> Tensor:
  """Returns the convolution of images with kernels, each of a group of channels."""
  channels = images.shape[-1]
  if groups == 1:
    return _plain(b, images, filters, window)
  if groups == channels and len(window.strides) == 2 and images.is_float:
    return _depthwise(b, images, filters, window)
  return _grouped(b, images, filters, window, groups, axis=images.rank - 1)


def _plain(b: Builder, images: Tensor, filters: Tensor, window: _Window) -> Tensor:
  if len(window.strides) == 3:
    # TensorFlow's CPU kernel of Conv3D does not dilate.
    filters, window = _dilated(b, filters, window)
    op = "Conv3D"
  else:
    op = "Conv2D"
  shape = _result_shape(images, filters, window, filters.shape[-1])
  return b.op(
    op,
    images,
    filters,
    shape=shape,
    strides=(1, *window.strides, 1),
    padding=b"VALID",
    dilations=(1, *window.dilation, 1),
  )


def _depthwise(b: Builder, images: Tensor, filters: Tensor, window: _Window) -> Tensor:
  """Returns a convolution of each channel with kernels of its own."""
  filters, window = _dilated(b, filters, window)
  channels, features = images.shape[-1], filters.shape[-1]
  apart = reshape(b, filters, (*filters.shape[:-2], channels, features // channels))
  # TensorFlow's CPU kernel has one stride for both axes.
  same = len(set(window.strides)) == 1
  steps = window if same else _Window((1, 1), (1, 1))
  shape = _result_shape(images, filters, steps, features)
  found = b.op("DepthwiseConv2dNative", images, apart, shape=shape, strides=(1, *steps.strides, 1), padding=b"VALID")
  return found if same else static_slice(b, found, [0] * 4, list(shape), [1, *window.strides, 1])


def _grouped(b: Builder, images: Tensor, filters: Tensor, window: _Window, groups: int, *, axis: int) -> Tensor:
  """Returns convolutions of parts of the images along an axis, with parts of the features, side by side."""
  if groups > _MAX_GROUPS:
    raise Unsupported(f"a convolution of {groups} groups; expected at most {_MAX_GROUPS}, or one for each channel")
  parts = zip(_split(b, images, groups, axis), _split(b, filters, groups, filters.rank - 1), strict=True)
  found = [_plain(b, part, kernel, window) for part, kernel in parts]
  last = found[0].rank - 1
  shape = (*found[0].shape[:-1], found[0].shape[-1] * groups)
  return b.op("ConcatV2", found, np.int32(last), shape=shape)


def _split(b: Builder, x: Tensor, number: int, axis: int) -> list[Tensor]:
  shape = (*x.shape[:axis], x.shape[axis] // number, *x.shape[axis + 1 :])
  return b.op_list("Split", np.int32(axis), x, shapes=[shape] * number, num_split=number)


def _dilated(b: Builder, filters: Tensor, window: _Window) -> tuple[Tensor, _Window]:
  """Returns kernels with zeros between their elements, which need no dilation."""
  wide = dilate(b, filters, [*(n - 1 for n in window.dilation), 0, 0], 0)
  return wide, _Window(window.strides, (1,) * len(window.dilation))


def _result_shape(images: Tensor, filters: Tensor, window: _Window, features: int) -> tuple[Any, ...]:
  spatial = tuple(
    (size - (length - 1) * apart - 1) // stride + 1
    for size, length, stride, apart in zip(
      images.shape[1:-1], filters.shape, window.strides, window.dilation, strict=False
    )
  )
  return (images.shape[0], *spatial, features)
