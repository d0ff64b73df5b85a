"""Ops of polymorphic modules. Their shape operands are known while tracing and may contain symbolic dimensions."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from graftax.xla_call_module import analysis, errors, ir
from graftax.xla_call_module.context import Context
from graftax.xla_call_module.lax_extras.windows import Window
from graftax.xla_call_module.lowerings.contraction import convolution
from graftax.xla_call_module.lowerings.custom_call_targets import approx_top_k
from graftax.xla_call_module.lowerings.gather_scatter import gather
from graftax.xla_call_module.lowerings.random import rng_bit_generator
from graftax.xla_call_module.lowerings.shape import broadcast_in_dim
from graftax.xla_call_module.lowerings.window import reduce_window
from graftax.xla_call_module.registry import register, register_custom_call
from graftax.xla_call_module.values import as_dims, materialize

__all__: list[str] = []


def _dims(context: Context, op: ir.Op, value: Any, what: str) -> tuple[int, ...]:
  dims = as_dims(value)
  if dims is None:
    raise context.unsupported(op, f"its {what} depends on data, so the result has no static shape.")
  return dims


@register(
  "stablehlo.dynamic_broadcast_in_dim",
  takes_known=True,
  attributes=("broadcast_dimensions",),
  ignores=("known_expanding_dimensions", "known_nonexpanding_dimensions"),
)
def _dynamic_broadcast_in_dim(context: Context, op: ir.Op, x: Any, shape: Any) -> Array:
  return broadcast_in_dim(materialize(x), _dims(context, op, shape, "shape"), op.attrs.integers("broadcast_dimensions"))


@register("stablehlo.dynamic_reshape", takes_known=True)
def _dynamic_reshape(context: Context, op: ir.Op, x: Any, shape: Any) -> Array:
  return jnp.reshape(materialize(x), _dims(context, op, shape, "shape"))


@register("stablehlo.dynamic_iota", takes_known=True, attributes=("iota_dimension",))
def _dynamic_iota(context: Context, op: ir.Op, shape: Any) -> Array:
  return lax.broadcasted_iota(op.type.dtype, _dims(context, op, shape, "shape"), op.attrs.integer("iota_dimension"))


@register("stablehlo.dynamic_pad", takes_known=True)
def _dynamic_pad(context: Context, op: ir.Op, x: Any, value: Any, low: Any, high: Any, interior: Any) -> Array:
  config = zip(*(_dims(context, op, part, "padding") for part in (low, high, interior)), strict=True)
  return lax.pad(materialize(x), materialize(value), list(config))


@register("stablehlo.real_dynamic_slice", takes_known=True, takes_environment=True)
def _real_dynamic_slice(
  context: Context, op: ir.Op, x: Any, start: Any, limit: Any, strides: Any, *, environment: dict[int, Any]
) -> Array:
  x, steps = materialize(x), _dims(context, op, strides, "stride")
  starts = as_dims(start)
  if starts is not None:
    return lax.slice(x, starts, _dims(context, op, limit, "limit"), steps)
  sizes = _slice_sizes(context, op, environment)
  if sizes is None or any(step != 1 for step in steps):
    raise context.unsupported(op, "its start depends on data, and its size is not known.")
  return lax.dynamic_slice(x, [start[axis] for axis in range(x.ndim)], sizes)


def _slice_sizes(context: Context, op: ir.Op, environment: dict[int, Any]) -> tuple[int, ...] | None:
  """Returns the sizes of a slice if its limit is the start plus known sizes, else None.

  JAX exports `dynamic_slice` with symbolic sizes in that form.
  """
  _, start, limit, _ = op.operands
  source = analysis.definitions(context).get(limit)
  if source is None or source.name != "stablehlo.add" or start not in source.operands:
    return None
  left, right = source.operands
  return as_dims(environment.get(right if left == start else left))


@register("stablehlo.dynamic_gather", takes_known=True, attributes=("dimension_numbers", "indices_are_sorted"))
def _dynamic_gather(context: Context, op: ir.Op, x: Any, indices: Any, sizes: Any) -> Array:
  return gather(op, materialize(x), materialize(indices), _dims(context, op, sizes, "slice size"))


@register(
  "stablehlo.dynamic_conv",
  takes_known=True,
  attributes=(
    "batch_group_count",
    "dimension_numbers",
    "feature_group_count",
    "lhs_dilation",
    "precision_config",
    "rhs_dilation",
    "window_reversal",
    "window_strides",
  ),
)
def _dynamic_conv(context: Context, op: ir.Op, x: Any, kernel: Any, padding: Any) -> Array:
  flat = _dims(context, op, padding, "padding")
  pairs = list(zip(flat[::2], flat[1::2], strict=True))
  return convolution(op, materialize(x), materialize(kernel), pairs)


@register_custom_call("stablehlo.dynamic_reduce_window", takes_known=True, attributes=("called_computations",))
def _dynamic_reduce_window(context: Context, op: ir.Op, *operands: Any) -> Any:
  """Reduces windows. Operands: arrays, initial values, window sizes, strides, base and window dilations, padding."""
  sizes, strides, base, dilation, padding = (_dims(context, op, value, "window") for value in operands[-5:])
  (callee,) = op.attrs.texts("called_computations")
  region = context.ir.functions[callee].body
  pairs = tuple(zip(padding[::2], padding[1::2], strict=True))
  return reduce_window(context, op, operands[:-5], Window(sizes, strides, base, dilation, pairs), region, {})


@register_custom_call("stablehlo.dynamic_rng_bit_generator", takes_known=True, attributes=("rng_algorithm",))
def _dynamic_rng_bit_generator(context: Context, op: ir.Op, state: Any, shape: Any) -> Any:
  return rng_bit_generator(context, op, materialize(state), _dims(context, op, shape, "shape"))


@register_custom_call("stablehlo.dynamic_top_k", takes_known=True, attributes=())
def _dynamic_top_k(context: Context, op: ir.Op, x: Any, k: Any) -> Any:
  (size,) = _dims(context, op, k, "k")
  return lax.top_k(materialize(x), size)


@register_custom_call("stablehlo.dynamic_approx_top_k", takes_known=True)
def _dynamic_approx_top_k(context: Context, op: ir.Op, *operands: Any) -> Any:
  """Lowers to an approximate top k. Operands: values, indices, two initial values, k."""
  (size,) = _dims(context, op, operands[-1], "k")
  return approx_top_k(context, op, operands, size)


@register_custom_call("shape_assertion", takes_known=True)
def _shape_assertion(context: Context, op: ir.Op, holds: Any, *arguments: Any) -> tuple[()]:
  """Checks an assertion if it is known; records it if it depends on symbolic dimensions or on data."""
  if not context.options.check_shapes:
    context.record("shape assertion", op, "not evaluated: shape checks are disabled")
    return ()
  if isinstance(holds, np.ndarray):
    if not holds.all():
      raise errors.ShapeAssertionError(_assertion_message(op, arguments))
    return ()
  context.record("shape assertion", op, "not decided: it depends on symbolic dimensions or on data")
  return ()


def _assertion_message(op: ir.Op, arguments: Sequence[object]) -> str:
  template = op.attrs.get("error_message", "")
  template = template.decode(errors="replace") if isinstance(template, bytes) else str(template)
  for position, value in enumerate(arguments):
    dims = as_dims(value)
    template = template.replace(f"{{{position}}}", str(dims[0]) if dims else "?")
  where = f" at {op.location}" if op.location else ""
  return f"shape assertion{where} of the exported module does not hold: {template}"
