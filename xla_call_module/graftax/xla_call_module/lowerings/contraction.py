"""`dot_general`, `convolution` and their older spellings."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from graftax.xla_call_module import ir
from graftax.xla_call_module.context import Context
from graftax.xla_call_module.registry import register

__all__ = ["convolution", "precision_of"]


def precision_of(op: ir.Op) -> Any:
  """Returns `precision_config` as JAX's precision, or None if it is absent or all default."""
  config = op.attrs.get("precision_config")
  if not config or all(item == "DEFAULT" for item in config):
    return None
  return tuple(getattr(lax.Precision, item) for item in config)


_F32, _BF16, _F16, _F64 = (np.dtype(d) for d in (np.float32, jnp.bfloat16, np.float16, np.float64))
_PRESETS = {
    (_F16, _F16, 1, 1): "F16_F16_F16", (_F16, _F32, 1, 1): "F16_F16_F32", (_BF16, _BF16, 1, 1): "BF16_BF16_BF16",
    (_BF16, _F32, 1, 1): "BF16_BF16_F32", (_BF16, _F32, 1, 3): "BF16_BF16_F32_X3",
    (_BF16, _F32, 1, 6): "BF16_BF16_F32_X6", (_BF16, _F32, 1, 9): "BF16_BF16_F32_X9",
    (_BF16, _F32, 3, 6): "BF16_BF16_F32_X6", (_BF16, _F32, 3, 9): "BF16_BF16_F32_X9",
    (_BF16, _F32, 2, 3): "BF16_BF16_F32_X3", ("tf32", _F32, 1, 1): "TF32_TF32_F32",
    ("tf32", _F32, 1, 3): "TF32_TF32_F32_X3", ("tf32", _F32, 2, 3): "TF32_TF32_F32_X3",
    (_F32, _F32, 1, 1): "F32_F32_F32",
    (_F64, _F64, 1, 1): "F64_F64_F64",
}  # fmt: skip


def _algorithm(op: ir.Op) -> Any:
  """Returns `algorithm` as the preset with the same parameters, or as a `lax.DotAlgorithm`."""
  found = op.attrs["algorithm"]
  lhs, rhs, total = (found[f"{name}_type"] for name in ("lhs_precision", "rhs_precision", "accumulation"))
  components, products = found.get("lhs_component_count", 1), found.get("num_primitive_operations", 1)
  preset = _PRESETS.get((lhs, total, components, products)) if lhs == rhs else None
  if preset and not found.get("allow_imprecise_accumulation", False):
    return getattr(lax.DotAlgorithmPreset, preset)
  return lax.DotAlgorithm(
    lhs_precision_type=lhs,
    rhs_precision_type=rhs,
    accumulation_type=total,
    lhs_component_count=components,
    rhs_component_count=found.get("rhs_component_count", 1),
    num_primitive_operations=products,
    allow_imprecise_accumulation=found.get("allow_imprecise_accumulation", False),
  )


@register("stablehlo.dot_general", attributes=("algorithm", "dot_dimension_numbers", "precision_config"))
def _dot_general(context: Context, op: ir.Op, x: Array, y: Array) -> Array:
  numbers = op.attrs["dot_dimension_numbers"]
  contracting = (numbers.get("lhs_contracting_dimensions", ()), numbers.get("rhs_contracting_dimensions", ()))
  batch = (numbers.get("lhs_batching_dimensions", ()), numbers.get("rhs_batching_dimensions", ()))
  precision = _algorithm(op) if isinstance(op.attrs.get("algorithm"), dict) else precision_of(op)
  return lax.dot_general(x, y, (contracting, batch), precision=precision, preferred_element_type=op.type.dtype)


@register("stablehlo.dot", attributes=("precision_config",))
def _dot(context: Context, op: ir.Op, x: Array, y: Array) -> Array:
  numbers = (((x.ndim - 1,), (0,)), ((), ()))
  return lax.dot_general(x, y, numbers, precision=precision_of(op), preferred_element_type=op.type.dtype)


@register("stablehlo.einsum", "stablehlo.unary_einsum", attributes=("einsum_config",))
def _einsum(context: Context, op: ir.Op, *operands: Array) -> Array:
  return jnp.einsum(op.attrs["einsum_config"], *operands)


@register(
  "stablehlo.convolution",
  attributes=(
    "batch_group_count",
    "dimension_numbers",
    "feature_group_count",
    "lhs_dilation",
    "padding",
    "precision_config",
    "rhs_dilation",
    "window_reversal",
    "window_strides",
  ),
)
def _convolution(context: Context, op: ir.Op, x: Array, kernel: Array) -> Array:
  padding = op.attrs.get("padding")
  pairs = [(0, 0)] * (x.ndim - 2) if padding is None else [(int(low), int(high)) for low, high in padding]
  return convolution(op, x, kernel, pairs)


def convolution(op: ir.Op, x: Array, kernel: Array, padding: Any) -> Array:
  """Computes the convolution that an op's attributes describe, with the given padding."""
  numbers = op.attrs["dimension_numbers"]
  ones = (1,) * (x.ndim - 2)
  reversal = op.attrs.get("window_reversal")
  if reversal is not None and any(reversal):
    kernel = lax.rev(kernel, [axis for axis, flag in zip(numbers["rhs"][2:], reversal, strict=True) if flag])
  return lax.conv_general_dilated(
    x,
    kernel,
    window_strides=op.attrs.get("window_strides", ones),
    padding=padding,
    lhs_dilation=op.attrs.get("lhs_dilation", ones),
    rhs_dilation=op.attrs.get("rhs_dilation", ones),
    dimension_numbers=lax.ConvDimensionNumbers(numbers["lhs"], numbers["rhs"], numbers["out"]),
    feature_group_count=op.attrs.get("feature_group_count", 1),
    batch_group_count=op.attrs.get("batch_group_count", 1),
    precision=precision_of(op),
    preferred_element_type=op.type.dtype,
  )
