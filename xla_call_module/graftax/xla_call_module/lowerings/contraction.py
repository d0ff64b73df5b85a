"""`dot_general`, `convolution` and their older spellings."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from graftax.xla_call_module import ir
from graftax.xla_call_module.context import Context
from graftax.xla_call_module.lax_extras.convolutions import conv_general_dilated
from graftax.xla_call_module.registry import register

__all__ = ["convolution", "precision_of"]


def precision_of(op: ir.Op) -> Any:
  """Returns `precision_config` as JAX's precision, or None if it is absent or all default."""
  config = op.attrs.texts("precision_config", ())
  if all(item == "DEFAULT" for item in config):
    return None
  return tuple(getattr(lax.Precision, item) for item in config)


_F32, _BF16, _F16, _F64 = (np.dtype(d) for d in (np.float32, jnp.bfloat16, np.float16, np.float64))
_PRESETS: dict[tuple[np.dtype | str, np.dtype | str, int, int], str] = {
    (_F16, _F16, 1, 1): "F16_F16_F16", (_F16, _F32, 1, 1): "F16_F16_F32", (_BF16, _BF16, 1, 1): "BF16_BF16_BF16",
    (_BF16, _F32, 1, 1): "BF16_BF16_F32", (_BF16, _F32, 1, 3): "BF16_BF16_F32_X3",
    (_BF16, _F32, 1, 6): "BF16_BF16_F32_X6", (_BF16, _F32, 1, 9): "BF16_BF16_F32_X9",
    (_BF16, _F32, 3, 6): "BF16_BF16_F32_X6", (_BF16, _F32, 3, 9): "BF16_BF16_F32_X9",
    (_BF16, _F32, 2, 3): "BF16_BF16_F32_X3", ("tf32", _F32, 1, 1): "TF32_TF32_F32",
    ("tf32", _F32, 1, 3): "TF32_TF32_F32_X3", ("tf32", _F32, 2, 3): "TF32_TF32_F32_X3",
    (_F32, _F32, 1, 1): "F32_F32_F32",
    (_F64, _F64, 1, 1): "F64_F64_F64",
}  # fmt: skip


def _precision_type(algorithm: ir.Attributes, name: str) -> np.dtype | str:
  found = algorithm[name]
  if not isinstance(found, np.dtype | str):
    raise TypeError(f"{name} of the algorithm is {found!r}; expected a type.")
  return found


def _algorithm(op: ir.Op) -> Any:
  """Returns `algorithm` as the preset with the same parameters, or as a `lax.DotAlgorithm`."""
  found = op.attrs.fields("algorithm")
  lhs, rhs, total = (
    _precision_type(found, f"{name}_type") for name in ("lhs_precision", "rhs_precision", "accumulation")
  )
  components, products = found.integer("lhs_component_count", 1), found.integer("num_primitive_operations", 1)
  preset = _PRESETS.get((lhs, total, components, products)) if lhs == rhs else None
  if preset and not found.boolean("allow_imprecise_accumulation", False):
    return getattr(lax.DotAlgorithmPreset, preset)
  return lax.DotAlgorithm(
    lhs_precision_type=lhs,
    rhs_precision_type=rhs,
    accumulation_type=total,
    lhs_component_count=components,
    rhs_component_count=found.integer("rhs_component_count", 1),
    num_primitive_operations=products,
    allow_imprecise_accumulation=found.boolean("allow_imprecise_accumulation", False),
  )


@register("stablehlo.dot_general", attributes=("algorithm", "dot_dimension_numbers", "precision_config"))
def _dot_general(context: Context, op: ir.Op, x: Array, y: Array) -> Array:
  numbers = op.attrs.fields("dot_dimension_numbers")
  contracting = (numbers.integers("lhs_contracting_dimensions", ()), numbers.integers("rhs_contracting_dimensions", ()))
  batch = (numbers.integers("lhs_batching_dimensions", ()), numbers.integers("rhs_batching_dimensions", ()))
  precision = _algorithm(op) if isinstance(op.attrs.get("algorithm"), dict) else precision_of(op)
  return lax.dot_general(x, y, (contracting, batch), precision=precision, preferred_element_type=op.type.dtype)


@register("stablehlo.dot", attributes=("precision_config",))
def _dot(context: Context, op: ir.Op, x: Array, y: Array) -> Array:
  numbers = (((x.ndim - 1,), (0,)), ((), ()))
  return lax.dot_general(x, y, numbers, precision=precision_of(op), preferred_element_type=op.type.dtype)


@register("stablehlo.einsum", "stablehlo.unary_einsum", attributes=("einsum_config",))
def _einsum(context: Context, op: ir.Op, *operands: Array) -> Array:
  return jnp.einsum(op.attrs.text("einsum_config"), *operands)


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
  return convolution(op, x, kernel, op.attrs.pairs("padding", x.ndim - 2))


def convolution(op: ir.Op, x: Array, kernel: Array, padding: Sequence[tuple[int, int]]) -> Array:
  """Computes the convolution that an op's attributes describe, with the given padding."""
  numbers = op.attrs.fields("dimension_numbers")
  ones = (1,) * (x.ndim - 2)
  lhs, rhs, out = map(numbers.integers, ("lhs", "rhs", "out"))
  reversal = op.attrs.integers("window_reversal", ())
  if any(reversal):
    kernel = lax.rev(kernel, [axis for axis, flag in zip(rhs[2:], reversal, strict=True) if flag])
  return conv_general_dilated(
    x,
    kernel,
    window_strides=op.attrs.integers("window_strides", ones),
    padding=padding,
    lhs_dilation=op.attrs.integers("lhs_dilation", ones),
    rhs_dilation=op.attrs.integers("rhs_dilation", ones),
    dimension_numbers=lax.ConvDimensionNumbers(lhs, rhs, out),
    feature_group_count=op.attrs.integer("feature_group_count", 1),
    batch_group_count=op.attrs.integer("batch_group_count", 1),
    precision=precision_of(op),
    preferred_element_type=op.type.dtype,
  )
