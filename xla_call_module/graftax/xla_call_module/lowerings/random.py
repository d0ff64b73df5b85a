"""`rng_bit_generator` and `rng`."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.custom_batching import sequential_vmap

from graftax.xla_call_module import ir
from graftax.xla_call_module.context import Context
from graftax.xla_call_module.lax_extras import Int64Pair, join_halves, philox_bits
from graftax.xla_call_module.registry import register
from graftax.xla_call_module.values import as_dims, materialize

__all__ = ["rng_bit_generator"]

State = Array | Int64Pair

_ALGORITHMS = {
  "DEFAULT": lax.RandomAlgorithm.RNG_DEFAULT,
  "PHILOX": lax.RandomAlgorithm.RNG_PHILOX,
  "THREE_FRY": lax.RandomAlgorithm.RNG_THREE_FRY,
}


@register("stablehlo.rng_bit_generator", attributes=("rng_algorithm",))
def _rng_bit_generator(context: Context, op: ir.Op, state: State) -> tuple[State, Array]:
  result = op.types[1]
  return rng_bit_generator(context, op, state, result.static_shape)


def rng_bit_generator(context: Context, op: ir.Op, state: State, shape: tuple[int, ...]) -> tuple[State, Array]:
  """Returns the new state and bits of a given shape."""
  algorithm = _ALGORITHMS[op.attrs.text("rng_algorithm")]
  dtype = op.types[1].dtype
  unsigned = np.dtype(f"u{dtype.itemsize}")
  words = _words_of(state)
  if words.dtype != np.uint32:
    raise context.unsupported(op, f"its state is {op.types[0]}; expected uint32 or uint64.")
  if words.size == 4:
    new, bits = _generated(words.reshape(4), shape, unsigned, algorithm)
  elif words.size == 6 and algorithm is not lax.RandomAlgorithm.RNG_THREE_FRY:
    halves = words.reshape(3, 2)
    bits, parts = philox_bits(halves[:, 0], halves[:, 1], shape, unsigned)
    new = jnp.stack(parts, axis=-1)
  else:
    raise context.unsupported(op, f"its state has {words.size} words of 32 bits; expected 4, or 6 for PHILOX.")
  bits = bits if dtype == unsigned else lax.bitcast_convert_type(bits, dtype)
  return _like_state(new, state), bits


def _words_of(state: State) -> Array:
  """Returns a state as uint32, which is how JAX's op represents it."""
  words = state.words if isinstance(state, Int64Pair) else state
  return lax.bitcast_convert_type(words, np.uint32) if words.dtype == np.uint64 else words


def _like_state(words: Array, state: State) -> State:
  """Returns words in the form of a state."""
  if isinstance(state, Int64Pair):
    return Int64Pair.from_words(words.reshape(*state.shape, 2), state.dtype)
  if state.dtype == np.uint64:
    halves = words.reshape(-1, 2)  # JAX's rule for bit casts of batches takes the last axis for the pairs
    words = join_halves(halves[:, 0], halves[:, 1])
  return words.reshape(state.shape)


def _generated(words: Array, shape: tuple[int, ...], dtype: np.dtype, algorithm: lax.RandomAlgorithm) -> Any:
  """Draws bits from each state of a batch; JAX's batching rule would draw all of them from the first state."""
  return sequential_vmap(lambda state: lax.rng_bit_generator(state, shape, dtype, algorithm))(words)


@register("stablehlo.rng", takes_known=True, attributes=("rng_distribution",))
def _rng(context: Context, op: ir.Op, low: Any, high: Any, shape: Any) -> Array:
  low, high, dtype = materialize(low), materialize(high), op.type.dtype
  dims = op.type.static_shape if op.type.is_static else as_dims(shape)
  if dims is None:
    raise context.unsupported(op, "its shape depends on data, so the result has no static shape.")
  if op.attrs.text("rng_distribution") == "UNIFORM":
    return lax.rng_uniform(low, high, dims)
  return lax.add(lax.mul(_normal(dims, dtype), lax.broadcast(high, dims)), lax.broadcast(low, dims))


def _normal(dims: tuple[int, ...], dtype: np.dtype) -> Array:
  """Draws standard normal numbers. They are finite, because the underlying uniform numbers are neither -1 nor 1."""
  one = np.ones((), dtype)
  low, high = np.nextafter(-one, np.zeros_like(one)), np.nextafter(one, np.zeros_like(one))
  uniform = lax.clamp(low, lax.rng_uniform(low, one, dims), high)
  return lax.mul(lax.erf_inv(uniform), lax.full(dims, np.sqrt(2), dtype))
