"""`rng_bit_generator` and `rng`."""

import numpy as np
from jax import Array, lax

from graftax.xla_call_module import ir, narrow
from graftax.xla_call_module.context import Context
from graftax.xla_call_module.registry import register

__all__: list[str] = []

_ALGORITHMS = {
    "DEFAULT": lax.RandomAlgorithm.RNG_DEFAULT, "PHILOX": lax.RandomAlgorithm.RNG_PHILOX,
    "THREE_FRY": lax.RandomAlgorithm.RNG_THREE_FRY,
}  # fmt: skip


@register("stablehlo.rng_bit_generator")
def _rng_bit_generator(context: Context, op: ir.Op, state: Array) -> tuple[Array, Array]:
  result = op.types[1]
  return rng_bit_generator(context, op, state, result.shape)


def rng_bit_generator(context: Context, op: ir.Op, state: Array, shape: tuple[int, ...]) -> tuple[Array, Array]:
  """New state and bits of a given shape; JAX's own op takes the state as four ui32."""
  algorithm = _ALGORITHMS[op.attrs["rng_algorithm"]]
  is_pair = isinstance(state, narrow.Pair)
  words = state.words if is_pair else state
  if words.dtype == np.uint64:
    words = lax.bitcast_convert_type(words, np.uint32)
  if words.size == 2:
    words = lax.concatenate([words.reshape(2), lax.full((2,), 0, np.uint32)], 0)
  elif words.size not in (4, 6):
    raise context.unsupported(op, f"its state has {words.size} words of 32 bits; JAX takes 4.")
  new, bits = lax.rng_bit_generator(words.reshape(-1)[:4], shape, op.types[1].dtype, algorithm)
  if is_pair:
    return narrow.Pair(new.reshape(2, 2), state.dtype), bits
  if state.dtype == np.uint64:
    new = lax.bitcast_convert_type(new.reshape(2, 2), np.uint64)
  return new.reshape(state.shape), bits


@register("stablehlo.rng")
def _rng(context: Context, op: ir.Op, low: Array, high: Array, shape: Array) -> Array:
  dims, dtype = op.type.shape, op.type.dtype
  if op.attrs["rng_distribution"] == "UNIFORM":
    return lax.rng_uniform(low, high, dims)
  tiny = np.finfo(dtype).tiny
  uniform = lax.rng_uniform(lax.full((), tiny, dtype), lax.full((), 1, dtype), dims)
  normal = lax.mul(lax.erf_inv(2 * uniform - 1), lax.full(dims, np.sqrt(2), dtype))
  return lax.add(lax.mul(normal, lax.broadcast(high, dims)), lax.broadcast(low, dims))
