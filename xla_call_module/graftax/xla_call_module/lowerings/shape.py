"""Ops that create or rearrange elements: constants, iota, broadcasting, reshaping, slicing, padding, tuples."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from graftax.xla_call_module import ir
from graftax.xla_call_module.context import Context
from graftax.xla_call_module.lax_extras.reductions import mapped
from graftax.xla_call_module.registry import register
from graftax.xla_call_module.values import TOKEN, SymbolicArray, materialize

__all__ = ["broadcast_in_dim"]


@register("stablehlo.constant", takes_known=True, attributes=("value",))
def _constant(context: Context, op: ir.Op) -> np.ndarray:
  value = op.attrs.maybe_array("value")
  if value is None:
    raise context.unsupported(op, f"its type {op.types[0]} has no counterpart in JAX.")
  return value


@register("stablehlo.iota", attributes=("iota_dimension",))
def _iota(context: Context, op: ir.Op) -> Array:
  return lax.broadcasted_iota(op.type.dtype, op.type.shape, op.attrs.integer("iota_dimension"))


@register("stablehlo.broadcast_in_dim", attributes=("broadcast_dimensions",))
def _broadcast_in_dim(context: Context, op: ir.Op, x: Array) -> Array:
  return broadcast_in_dim(x, op.type.shape, op.attrs.integers("broadcast_dimensions"))


def broadcast_in_dim(x: Array, shape: Sequence[Any], axes: Sequence[int]) -> Array:
  """Broadcasts `x` to a shape; its axes become the given ones, in any order. JAX requires increasing axes."""
  order = np.argsort(axes)
  if any(order != np.arange(len(axes))):
    x = lax.transpose(x, order)
  return lax.broadcast_in_dim(x, shape, sorted(axes))


@register("stablehlo.broadcast", attributes=("broadcast_sizes",))
def _broadcast(context: Context, op: ir.Op, x: Array) -> Array:
  return lax.broadcast(x, op.attrs.integers("broadcast_sizes"))


@register("stablehlo.reshape")
def _reshape(context: Context, op: ir.Op, x: Array) -> Array:
  return lax.reshape(x, op.type.shape)


@register("stablehlo.transpose", attributes=("permutation",))
def _transpose(context: Context, op: ir.Op, x: Array) -> Array:
  return lax.transpose(x, op.attrs.integers("permutation"))


@register("stablehlo.reverse", attributes=("dimensions",))
def _reverse(context: Context, op: ir.Op, x: Array) -> Array:
  return lax.rev(x, op.attrs.integers("dimensions"))


@register("stablehlo.concatenate", attributes=("dimension",))
def _concatenate(context: Context, op: ir.Op, *xs: Array) -> Array:
  return lax.concatenate(xs, op.attrs.integer("dimension")) if len(xs) > 1 else jnp.asarray(xs[0])


@register("stablehlo.slice", attributes=("limit_indices", "start_indices", "strides"))
def _slice(context: Context, op: ir.Op, x: Array) -> Array:
  return lax.slice(
    x, op.attrs.integers("start_indices"), op.attrs.integers("limit_indices"), op.attrs.integers("strides")
  )


@register("stablehlo.pad", attributes=("edge_padding_high", "edge_padding_low", "interior_padding"))
def _pad(context: Context, op: ir.Op, x: Array, value: Array) -> Array:
  config = zip(*map(op.attrs.integers, ("edge_padding_low", "edge_padding_high", "interior_padding")), strict=True)
  return lax.pad(x, value, list(config))


@register("stablehlo.dynamic_slice", takes_known=True, attributes=("slice_sizes",))
def _dynamic_slice(context: Context, op: ir.Op, x: Array, *starts: Any) -> Array:
  sizes = op.attrs.integers("slice_sizes")
  return lax.dynamic_slice(materialize(x), _clamped(starts, np.shape(x), sizes), sizes, allow_negative_indices=False)


@register("stablehlo.dynamic_update_slice", takes_known=True)
def _dynamic_update_slice(context: Context, op: ir.Op, x: Array, update: Array, *starts: Any) -> Array:
  clamped = _clamped(starts, np.shape(x), np.shape(update))
  return lax.dynamic_update_slice(materialize(x), materialize(update), clamped, allow_negative_indices=False)


def _clamped(starts: Sequence[Any], shape: Sequence[int], sizes: Sequence[int]) -> list[Any]:
  """Clamps known start indices, as StableHLO requires; JAX clamps only traced ones."""
  clamped = []
  for start, dim, size in zip(starts, shape, sizes, strict=True):
    if isinstance(start, np.ndarray) and isinstance(dim, int):
      start = np.asarray(min(max(int(start), 0), dim - size), start.dtype)
    clamped.append(_at_least_32_bits(materialize(start)))
  return clamped


def _at_least_32_bits(index: Any) -> Any:
  """Widens an index to 32 bits, because JAX batches updates as scatters with bounds in the index's own type."""
  return lax.convert_element_type(index, np.int32) if index.dtype.itemsize < 4 else index


@register("stablehlo.get_dimension_size", takes_known=True, attributes=("dimension",))
def _get_dimension_size(context: Context, op: ir.Op, x: Any) -> Any:
  size = np.shape(x)[op.attrs.integer("dimension")]
  if isinstance(size, int):
    return np.asarray(size, op.type.dtype)
  dims = np.empty((), object)
  dims[()] = size
  return SymbolicArray(dims, op.type.dtype)


@register("stablehlo.set_dimension_size", takes_known=True, attributes=("dimension",))
def _set_dimension_size(context: Context, op: ir.Op, x: Any, size: Any) -> Any:
  if isinstance(size, np.ndarray) and int(size) == np.shape(x)[op.attrs.integer("dimension")]:
    return x
  raise context.unsupported(op, "it creates a dimension of bounded dynamic size, which JAX does not support.")


@register("stablehlo.tuple", takes_known=True)
def _tuple(context: Context, op: ir.Op, *elements: Any) -> Any:
  return [_Tuple(elements)]


class _Tuple(tuple[Any, ...]):
  """A `stablehlo.tuple` value; a separate type, to distinguish it from the several results of a rule."""

  __slots__ = ()


@register("stablehlo.get_tuple_element", takes_known=True, attributes=("index",))
def _get_tuple_element(context: Context, op: ir.Op, elements: Any) -> Any:
  return [elements[op.attrs.integer("index")]]


@register("stablehlo.optimization_barrier")
def _optimization_barrier(context: Context, op: ir.Op, *operands: Any) -> Any:
  arrays = [x for x in operands if x is not TOKEN]
  results = iter(lax.optimization_barrier(tuple(arrays)))
  return tuple(x if x is TOKEN else next(results) for x in operands)


@register("stablehlo.create_token", "stablehlo.after_all", takes_known=True)
def _token(context: Context, op: ir.Op, *tokens: Any) -> Any:
  return TOKEN


@register("stablehlo.torch_index_select", attributes=("batch_dims", "dim"))
def _torch_index_select(context: Context, op: ir.Op, x: Array, index: Array) -> Array:
  axis, num_batch = op.attrs.integer("dim"), op.attrs.integer("batch_dims")

  def take(a: Array, i: Array) -> Array:
    return jnp.take(a, i, axis=axis - num_batch, mode="clip")

  return mapped(take, num_batch)(x, index)
