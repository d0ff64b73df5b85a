"""tf2xla's slices, padding and broadcasts, and its dynamic dimensions as far as shapes are static."""

from typing import Any

import jax.numpy as jnp
from jax import lax

from graftax.ops_jax._core.errors import InvalidInputError, UnsupportedOpError
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array, Static, StaticSize, StaticSizes, Value

__all__ = [
  "xla_broadcast_helper",
  "xla_dynamic_slice",
  "xla_dynamic_update_slice",
  "xla_optimization_barrier",
  "xla_pad",
  "xla_reduce_precision",
  "xla_remove_dynamic_dimension_size",
  "xla_set_bound",
  "xla_set_dynamic_dimension_size",
]


@register("XlaDynamicSlice", ignores=("T", "Tindices"))
def xla_dynamic_slice(input: Array, start_indices: Array, size_indices: StaticSizes) -> Array:
  """Returns a slice of fixed size at a computed position.

  Source op: `XlaDynamicSlice` (tf2xla).

  Args:
    input: any shape and dtype.
    start_indices: `[rank]`, integers; clamped to the bounds.
    size_indices: `[rank]`, the slice's shape. Must be concrete.
  """
  input = jnp.asarray(input)
  return lax.dynamic_slice(input, _indices(start_indices), size_indices, allow_negative_indices=[False] * input.ndim)


@register("XlaDynamicUpdateSlice", ignores=("T", "Tindices"))
def xla_dynamic_update_slice(input: Array, update: Array, indices: Array) -> Array:
  """Returns an array with a slice at a computed position replaced.

  Source op: `XlaDynamicUpdateSlice` (tf2xla).

  Args:
    input: any shape and dtype.
    update: the slice, of the same rank and dtype.
    indices: `[rank]`, integers; clamped to the bounds.
  """
  input = jnp.asarray(input)
  never = [False] * input.ndim
  return lax.dynamic_update_slice(input, jnp.asarray(update), _indices(indices), allow_negative_indices=never)


def _indices(indices: Array) -> list[Any]:
  # XLA clamps negative indices to 0; JAX rejects them if they are known.
  indices = jnp.maximum(jnp.asarray(indices), 0)
  return [indices[i] for i in range(indices.shape[0])]


@register("XlaPad", ignores=("T", "Tindices"))
def xla_pad(
  input: Array,
  padding_value: Array,
  padding_low: StaticSizes,
  padding_high: StaticSizes,
  padding_interior: StaticSizes,
) -> Array:
  """Pads an array around and between its cells.

  Source op: `XlaPad` (tf2xla).

  Args:
    input: any shape and dtype.
    padding_value: scalar, the value of the new cells.
    padding_low: cells before, one entry per dimension; negative numbers crop. Must be concrete, like the others.
    padding_high: cells after.
    padding_interior: cells between neighbors, not negative.
  """
  input = jnp.asarray(input)
  configuration = list(zip(padding_low, padding_high, padding_interior, strict=True))
  return lax.pad(input, jnp.asarray(padding_value, input.dtype), configuration)


@register("XlaBroadcastHelper", ignores=("T", "Tindices"))
def xla_broadcast_helper(lhs: Array, rhs: Array, broadcast_dims: Static[tuple[int, ...]]) -> tuple[Array, Array]:
  """Returns two arrays of one rank, for an operator that broadcasts dimensions of size 1.

  Source op: `XlaBroadcastHelper` (tf2xla).

  Args:
    lhs: any shape.
    rhs: any shape.
    broadcast_dims: positions of the dimensions of the lower-rank array; empty if the ranks agree or one is a scalar.

  Raises:
    InvalidInputError: the ranks differ and `broadcast_dims` does not name increasing dimensions.
  """
  lhs, rhs = jnp.asarray(lhs), jnp.asarray(rhs)
  if not broadcast_dims:
    if lhs.ndim != rhs.ndim and lhs.ndim and rhs.ndim:
      raise InvalidInputError(
        f"XlaBroadcastHelper: shapes {lhs.shape} and {rhs.shape} have different ranks, and broadcast_dims is empty."
      )
    return lhs, rhs
  rank, low = max(lhs.ndim, rhs.ndim), lhs if lhs.ndim < rhs.ndim else rhs
  increasing = (
    list(broadcast_dims) == sorted(set(broadcast_dims)) and 0 <= broadcast_dims[0] <= broadcast_dims[-1] < rank
  )
  if lhs.ndim == rhs.ndim or len(broadcast_dims) != low.ndim or not increasing:
    raise InvalidInputError(
      f"XlaBroadcastHelper: broadcast_dims={tuple(broadcast_dims)!r} do not place one of shapes {lhs.shape} and "
      f"{rhs.shape} within the other."
    )
  shape = [1] * rank
  for dim, size in zip(broadcast_dims, low.shape, strict=True):
    shape[dim] = size
  widened = low.reshape(shape)
  return (widened, rhs) if low is lhs else (lhs, widened)


@register("XlaOptimizationBarrier", ignores=("T",))
def xla_optimization_barrier(input: list[Array]) -> tuple[Array, ...]:
  """Returns the inputs behind a barrier that compiler optimizations do not cross.

  Source op: `XlaOptimizationBarrier` (tf2xla).
  """
  return tuple(lax.optimization_barrier(tuple(jnp.asarray(x) for x in input)))


@register("XlaReducePrecision", ignores=("T",))
def xla_reduce_precision(operand: Array, *, exponent_bits: int, mantissa_bits: int) -> Array:
  """Rounds numbers to a format with fewer bits.

  Source op: `XlaReducePrecision` (tf2xla).

  Args:
    operand: bfloat16, float16, float32 or float64.
    exponent_bits: exponent bits of the format, at least 1.
    mantissa_bits: mantissa bits of the format.
  """
  return lax.reduce_precision(jnp.asarray(operand), exponent_bits, mantissa_bits)


@register("XlaRemoveDynamicDimensionSize", ignores=("T",))
def xla_remove_dynamic_dimension_size(input: Array, dim_index: Static[int]) -> Array:
  """Returns all entries along a dimension that has a dynamic size, under `jit`.

  Source op: `XlaRemoveDynamicDimensionSize` (tf2xla).

  Args:
    input: any shape and dtype; a `BoundedArray` with a length along the dimension.
    dim_index: the dimension.

  Returns:
    `input` with the size of its bound. As in XLA, the values beyond the dynamic size are what earlier ops left there.

  Raises:
    UnsupportedOpError: the size of the dimension is known.
  """
  raise UnsupportedOpError(
    f"XlaRemoveDynamicDimensionSize: the size of dimension {dim_index} of shape {input.shape} is known, so the array "
    f"was cut to it, and has no bound to return to. Pass the size as a traced value under jit, or pad to a fixed shape "
    f"and mask instead."
  )


@register("XlaSetBound")
def xla_set_bound(input: Value, bound: Value) -> Value:
  """Returns `input`; the bound is a hint to compilers of dynamic shapes and is ignored.

  Source op: `XlaSetBound` (tf2xla).
  """
  del bound
  return input


@register("XlaSetDynamicDimensionSize", ignores=("T",))
def xla_set_dynamic_dimension_size(input: Array, dim_index: Static[int], size: StaticSize) -> Array:
  """Returns the first `size` entries along a dimension.

  Source op: `XlaSetDynamicDimensionSize` (tf2xla).

  Args:
    input: any shape and dtype.
    dim_index: the dimension.
    size: number of entries. If it is traced, the result is a `BoundedArray`.

  Raises:
    InvalidInputError: it is larger than the dimension.
  """
  input = jnp.asarray(input)
  if not 0 <= dim_index < input.ndim or not 0 <= size <= input.shape[dim_index]:
    raise InvalidInputError(
      f"XlaSetDynamicDimensionSize: dimension {dim_index} of shape {input.shape} cannot have size {size}."
    )
  return lax.slice_in_dim(input, 0, size, axis=dim_index)
