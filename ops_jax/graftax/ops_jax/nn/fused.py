"""Fused convolutions and matrix products with bias, normalization and activation: _FusedConv2D, _FusedMatMul."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Unpack

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from graftax.ops_jax._core.errors import UnsupportedAttrError
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array, Static, StaticSizes
from graftax.ops_jax.array.padding import mirror_pad
from graftax.ops_jax.image.resize import resize_bilinear
from graftax.ops_jax.linalg.matmul import mat_mul
from graftax.ops_jax.nn.activations import elu, leaky_relu, relu, relu6
from graftax.ops_jax.nn.bias import bias_add
from graftax.ops_jax.nn.conv import conv2d, conv3d
from graftax.ops_jax.nn.depthwise import depthwise_conv2d_native
from graftax.ops_jax.spatial.windows import Conv2DAttrs, ConvAttrs

__all__ = [
  "fused_conv2d",
  "fused_conv3d",
  "fused_depthwise_conv2d_native",
  "fused_mat_mul",
  "fused_pad_conv2d",
  "fused_resize_and_pad_conv2d",
  "mish",
  "swish",
]


@register("_MklSwish", ignores=("T",))
def swish(features: Array) -> Array:
  """Returns `features * sigmoid(features)`, same shape and dtype."""
  return features * lax.logistic(jnp.asarray(features))


@register("_MklFusedMish", ignores=("T",))
def mish(features: Array) -> Array:
  """Returns `features * tanh(softplus(features))`, same shape and dtype."""
  return features * jnp.tanh(jax.nn.softplus(jnp.asarray(features)))


_ACTIVATIONS: Mapping[str, Callable[[Array], Array]] = {
  "Elu": elu,
  "GeluApproximate": lambda x: jax.nn.gelu(x, approximate=True),
  "GeluExact": lambda x: jax.nn.gelu(x, approximate=False),
  "Relu": relu,
  "Relu6": relu6,
  "Sigmoid": lax.logistic,
  "Tanh": jnp.tanh,
  "_FusedHardSwish": lambda x: x * relu6(x + 3) / 6,
  "_FusedSwish": swish,
  "_MklFusedMish": mish,
  "_MklSwish": swish,
}


def _finished(
  op: str,
  y: Array,
  args: Sequence[Array],
  fused_ops: Sequence[str],
  epsilon: float,
  leakyrelu_alpha: float,
  data_format: str = "NHWC",
) -> Array:
  """Applies the fused ops to `y`; those that need tensors take them from `args` in order."""
  rest = list(args)
  for name in fused_ops:
    match name:
      case "BiasAdd":
        y = bias_add(y, rest.pop(0), data_format=data_format)
      case "FusedBatchNorm":
        scale, offset, mean, variance = (_channels(rest.pop(0), y, data_format) for _ in range(4))
        y = (y - mean) * (lax.rsqrt(variance + jnp.asarray(epsilon, variance.dtype)) * scale) + offset
      case "Add":
        y = y + rest.pop(0)
      case "LeakyRelu":
        y = leaky_relu(y, alpha=leakyrelu_alpha)
      case _ if name in _ACTIVATIONS:
        y = _ACTIVATIONS[name](y)
      case _:
        known = ["Add", "BiasAdd", "FusedBatchNorm", "LeakyRelu", *_ACTIVATIONS]
        raise UnsupportedAttrError(
          f"{op}: fused_ops={list(fused_ops)!r} holds {name!r}, which is not supported; expected {sorted(known)!r}. "
          "Register a lowering with override=True, or save the model without graph optimization."
        )
  return y


def _channels(vector: Any, y: Array, data_format: str) -> Array:
  axis = 1 if data_format.startswith("NC") else y.ndim - 1
  return jnp.asarray(vector).reshape((-1,) + (1,) * (y.ndim - 1 - axis))


@register("_FusedConv2D", ignores=("T", "TArgs", "num_args", "num_host_args", "use_cudnn_on_gpu"))
def fused_conv2d(
  input: Array,
  filter: Array,
  args: list[Array],
  host_args: list[Array],
  *,
  filter_format: str = "HWIO",
  fused_ops: tuple[str, ...] = (),
  epsilon: float = 1e-4,
  leakyrelu_alpha: float = 0.2,
  **attrs: Unpack[Conv2DAttrs],
) -> Array:
  """Computes `Conv2D`, then the fused ops.

  Source op: `tf.raw_ops._FusedConv2D`, which TensorFlow's optimizer puts into frozen graphs.

  Args:
    input: as for `Conv2D`.
    filter: as for `Conv2D`, or `[out_channels, in_channels, height, width]` for filter format `"OIHW"`.
    args: tensors of the fused ops, in order: the bias; or scale, offset, mean and variance; or a summand.
    host_args: must be empty.
    filter_format: `"HWIO"` or `"OIHW"`.
    fused_ops: names of the ops that follow the convolution, in order.
    epsilon: of a fused batch normalization.
    leakyrelu_alpha: of a fused leaky relu.
    **attrs: as for `Conv2D`.

  Raises:
    UnsupportedAttrError: an unknown fused op, or the 8-bit form with scales.
  """
  if host_args or filter_format not in ("HWIO", "OIHW"):
    raise UnsupportedAttrError(
      f"_FusedConv2D: filter_format={filter_format!r} with {len(host_args)} host arguments is not supported; expected "
      "'HWIO' or 'OIHW' and none."
    )
  kernel = jnp.asarray(filter)
  y = conv2d(
    input,
    kernel.transpose(2, 3, 1, 0) if filter_format == "OIHW" else kernel,
    **attrs,
  )
  return _finished("_FusedConv2D", y, args, fused_ops, epsilon, leakyrelu_alpha, attrs.get("data_format", "NHWC"))


@register("_FusedDepthwiseConv2dNative", ignores=("T", "num_args"))
def fused_depthwise_conv2d_native(
  input: Array,
  filter: Array,
  args: list[Array],
  *,
  fused_ops: tuple[str, ...] = (),
  epsilon: float = 1e-4,
  leakyrelu_alpha: float = 0.2,
  **attrs: Unpack[ConvAttrs],
) -> Array:
  """Computes `DepthwiseConv2dNative`, then the fused ops; see `_FusedConv2D`."""
  y = depthwise_conv2d_native(input, filter, **attrs)
  return _finished(
    "_FusedDepthwiseConv2dNative", y, args, fused_ops, epsilon, leakyrelu_alpha, attrs.get("data_format", "NHWC")
  )


@register("_FusedConv3D", ignores=("T", "num_args"))
def fused_conv3d(
  input: Array,
  filter: Array,
  args: list[Array],
  *,
  padding_list: tuple[int, ...] = (),
  fused_ops: tuple[str, ...] = (),
  epsilon: float = 1e-4,
  leakyrelu_alpha: float = 0.2,
  **attrs: Unpack[ConvAttrs],
) -> Array:
  """Computes `Conv3D`, then the fused ops; see `_FusedConv2D`."""
  if any(padding_list):
    raise UnsupportedAttrError(
      f"_FusedConv3D: padding_list={padding_list!r} is not supported; save the graph before it is optimized."
    )
  y = conv3d(input, filter, **attrs)
  return _finished("_FusedConv3D", y, args, fused_ops, epsilon, leakyrelu_alpha, attrs.get("data_format", "NHWC"))


@register("_FusedMatMul", ignores=("T", "num_args"))
def fused_mat_mul(
  a: Array,
  b: Array,
  args: list[Array],
  *,
  transpose_a: bool = False,
  transpose_b: bool = False,
  fused_ops: tuple[str, ...] = (),
  epsilon: float = 1e-4,
  leakyrelu_alpha: float = 0.2,
) -> Array:
  """Multiplies two matrices, optionally transposed, then applies the fused ops; see `_FusedConv2D`."""
  y = mat_mul(a, b, transpose_a=transpose_a, transpose_b=transpose_b)
  return _finished("_FusedMatMul", y, args, fused_ops, epsilon, leakyrelu_alpha)


@register("FusedPadConv2D", ignores=("T",))
def fused_pad_conv2d(
  input: Array,
  paddings: Static[np.ndarray],
  filter: Array,
  *,
  mode: str,
  strides: tuple[int, ...],
  padding: str,
) -> Array:
  """Computes `Conv2D` of `input` mirrored beyond its edges by `paddings`, `[4, 2]`; `mode` as for `MirrorPad`."""
  return conv2d(mirror_pad(input, paddings, mode=mode), filter, strides=strides, padding=padding)


@register("FusedResizeAndPadConv2D", ignores=("T",))
def fused_resize_and_pad_conv2d(
  input: Array,
  size: StaticSizes,
  paddings: Static[np.ndarray],
  filter: Array,
  *,
  mode: str,
  strides: tuple[int, ...],
  padding: str,
  resize_align_corners: bool = False,
) -> Array:
  """Computes `FusedPadConv2D` of `input` resized bilinearly to `size`, `[2]`."""
  resized = resize_bilinear(input, size, align_corners=resize_align_corners).astype(input.dtype)
  return fused_pad_conv2d(resized, paddings, filter, mode=mode, strides=strides, padding=padding)
