"""CHLO ops that broadcast their operands and then apply the StableHLO or CHLO op of the same name."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax import Array, lax

from graftax.xla_call_module import ir, registry
from graftax.xla_call_module.context import Context
from graftax.xla_call_module.lowerings.shape import broadcast_in_dim
from graftax.xla_call_module.registry import register

__all__: list[str] = []

_STABLEHLO = (
    "add", "and", "atan2", "compare", "complex", "divide", "maximum", "minimum", "multiply", "or", "power", "remainder",
    "shift_left", "shift_right_arithmetic", "shift_right_logical", "subtract", "xor",
)  # fmt: skip
_NAMES = {f"chlo.broadcast_{name}": f"stablehlo.{name}" for name in _STABLEHLO} | {
  f"chlo.broadcast_{name}": f"chlo.{name}" for name in ("next_after", "polygamma", "zeta")
}


@register(*_NAMES, attributes=("broadcast_dimensions", "compare_type", "comparison_direction"))
def _binary(context: Context, op: ir.Op, x: Array, y: Array) -> Any:
  dims = op.attrs.integers("broadcast_dimensions") if "broadcast_dimensions" in op.attrs else None
  operands = _broadcast(dims, x, y)
  plain = dataclasses.replace(op, name=_NAMES[op.name])
  return registry.ops[plain.name].function(context, plain, *operands)


@register("chlo.broadcast_select")
def _select(context: Context, op: ir.Op, condition: Array, x: Array, y: Array) -> Array:
  return lax.select_n(*_broadcast(None, condition, y, x))


def _broadcast(dims: Sequence[int] | None, *operands: Array) -> list[Array]:
  """Broadcasts operands to one shape. `dims` are the positions of the axes of lower-rank operands, else the last."""
  rank = max(x.ndim for x in operands)
  aligned = []
  for x in operands:
    places = tuple(range(rank - x.ndim, rank)) if dims is None or x.ndim == rank else tuple(dims)
    sizes = dict(zip(places, x.shape, strict=True))
    aligned.append(broadcast_in_dim(x, tuple(sizes.get(axis, 1) for axis in range(rank)), places))
  return list(jnp.broadcast_arrays(*aligned))
