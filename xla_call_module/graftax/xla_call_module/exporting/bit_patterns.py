"""Bits of numbers read as numbers of another width, for open sizes.

XLA infers no shape for `stablehlo.bitcast_convert` between types of different widths, so it does not refine modules
that have one on a dynamic shape.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from graftax.xla_call_module import mlir

__all__ = ["bit_pattern_rules"]


def bit_pattern_rules() -> tuple[tuple[Any, Any], ...]:
  """Returns pairs of a primitive and its lowering rule."""
  return ((lax.bitcast_convert_type_p, _lower),)


def _lower(context: Any, x: Any, *, new_dtype: Any) -> Any:
  (given,), (result,) = context.avals_in, context.avals_out
  bits = given.dtype.itemsize * 8, result.dtype.itemsize * 8
  is_open = any(jax.export.is_symbolic_dim(size) for size in given.shape)
  if not is_open or given.ndim == result.ndim or _are_parts_of_bytes(given.dtype) or _are_parts_of_bytes(result.dtype):
    return mlir.lower_bitcast(context, x)

  def parts(x: jax.Array) -> jax.Array:
    words = lax.bitcast_convert_type(x, _unsigned(bits[0]))[..., None]
    places = jnp.arange(bits[0] // bits[1], dtype=words.dtype) * bits[1]
    return lax.bitcast_convert_type((words >> places).astype(_unsigned(bits[1])), new_dtype)

  def joined(x: jax.Array) -> jax.Array:
    words = lax.bitcast_convert_type(x, _unsigned(bits[0])).astype(_unsigned(bits[1]))
    places = jnp.arange(bits[1] // bits[0], dtype=words.dtype) * bits[0]
    return lax.bitcast_convert_type(jnp.sum(words << places, axis=-1, dtype=words.dtype), new_dtype)

  return mlir.lowering_of(parts if bits[0] > bits[1] else joined, multiple_results=False)(context, x)


def _are_parts_of_bytes(dtype: np.dtype) -> bool:
  """Returns whether elements have fewer than 8 bits, such as those of int4."""
  return (jnp.iinfo(dtype) if jnp.issubdtype(dtype, jnp.integer) else jnp.finfo(dtype)).bits < 8


def _unsigned(bits: int) -> np.dtype:
  return np.dtype(f"uint{bits}")
