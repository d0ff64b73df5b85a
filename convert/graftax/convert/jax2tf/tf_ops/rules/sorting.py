"""`sort` and `top_k`, by TopKV2, which keeps equal keys in their order."""

from collections.abc import Sequence

import numpy as np

from graftax.convert.jax2tf.tf_ops import complex_parts
from graftax.convert.jax2tf.tf_ops.builder import Builder
from graftax.convert.jax2tf.tf_ops.registry import Unsupported, rule
from graftax.convert.jax2tf.tf_ops.rules._common import cast, compare, full, is_nan, select, transpose
from graftax.convert.jax2tf.tf_ops.rules.comparisons import total_order
from graftax.convert.jax2tf.tf_ops.tensors import Tensor
from graftax.xla_call_module.lax_extras import highest


@rule("sort", ignores=("is_stable",))
def sort(b: Builder, *operands: Tensor, dimension: int, num_keys: int) -> list[Tensor]:
  """Returns operands in ascending order of the first of them, NaN last; equal ones stay in their order."""
  axis = int(dimension) % operands[0].rank
  moved = [_axis_last(b, operand, axis) for operand in operands]
  order: Tensor | None = None
  for key in reversed(moved[:num_keys]):
    for part in _ascending_parts(b, key):
      order = _order(b, part, order)
  assert order is not None, "internal: a sort without keys."
  found = [_permuted(b, operand, order) for operand in moved]
  return [_axis_back(b, x, axis) for x in found]


def _ascending_parts(b: Builder, key: Tensor) -> list[Tensor]:
  """Returns numbers to sort by in descending order, one after the other, which sorts the key in ascending order."""
  if key.dtype.kind == "c":
    real, imag = complex_parts.parts(b, key)
    return [*_ascending_parts(b, imag), *_ascending_parts(b, real)]
  if key.dtype == np.bool_:
    key = cast(b, key, np.int32)
  if not key.is_float:
    # The negative of the least integer would wrap around.
    top = np.asarray(-1 if key.is_signed else highest(key.dtype), key.dtype)
    return [b.op("Sub", top, key, shape=key.shape)]
  nans = is_nan(b, key)
  # Minus zero is equal to zero for JAX and TensorFlow's own TopKV2, and smaller for XLA's.
  is_zero = b.op("LogicalOr", nans, compare(b, "Equal", key, 0), shape=key.shape)
  numbers = select(b, is_zero, full(b, key, 0), b.op("Neg", key, shape=key.shape), key.shape)
  return [numbers, b.op("Sub", np.int32(1), cast(b, nans, np.int32), shape=key.shape)]


def _order(b: Builder, key: Tensor, order: Tensor | None) -> Tensor:
  """Returns the positions of a key's elements in descending order; where equal, in the order that is given."""
  key = key if order is None else _permuted(b, key, order)
  _, found = b.op_list("TopKV2", key, b.size(key.shape[-1]), shapes=[key.shape, key.shape])
  return found if order is None else _permuted(b, order, found)


def _permuted(b: Builder, x: Tensor, order: Tensor) -> Tensor:
  """Returns the elements along the last axis at positions."""
  return b.op("GatherV2", x, order, np.int32(x.rank - 1), shape=order.shape, batch_dims=x.rank - 1)


@rule("top_k", ignores=("is_stable", "operand"))
def top_k(b: Builder, x: Tensor, *, k: int, axis: int) -> list[Tensor]:
  """Returns the largest elements and their positions, in the total order of floats; of equal ones the first."""
  return _largest(b, x, int(k), int(axis) % x.rank)


@rule("approx_top_k", ignores=("recall_target", "reduction_input_size_override"))
def approx_top_k(
  b: Builder, x: Tensor, *, k: int, reduction_dimension: int, is_max_k: bool, aggregate_to_topk: bool
) -> list[Tensor]:
  """Returns the largest or smallest elements and their positions, exactly."""
  if not aggregate_to_topk:
    raise Unsupported("parts of an approximate result")
  axis = reduction_dimension % x.rank
  if is_max_k:
    return _largest(b, x, k, axis)
  values, where = _largest(b, b.op("Neg", x, shape=x.shape), k, axis)
  return [b.op("Neg", values, shape=values.shape), where]


def _largest(b: Builder, x: Tensor, k: int, axis: int) -> list[Tensor]:
  moved = _axis_last(b, x, axis)
  key = cast(b, moved, np.int32) if moved.dtype == np.bool_ else moved
  shape = (*key.shape[:-1], k)
  if key.is_float and b.lacks("Bitcast", "BitwiseXor"):
    where = _largest_floats(b, key, k)
    return [_axis_back(b, result, axis) for result in (_permuted(b, moved, where), where)]
  key = total_order(b, key) if key.is_float else key
  where = b.op_list("TopKV2", key, np.int32(k), shapes=[shape, shape])[1]
  found = [_permuted(b, moved, where), where]
  return [_axis_back(b, result, axis) for result in found]


def _largest_floats(b: Builder, key: Tensor, k: int) -> Tensor:
  """Returns the positions of the largest elements without reading bits, so that all NaN are the largest.

  TopKV2 keeps the order of equal elements. The first sort decides that order for the zeros, and for NaN, which TopKV2
  gets as infinity.
  """
  nans = is_nan(b, key)
  is_zero = compare(b, "Equal", key, 0)
  divisor = select(b, is_zero, key, full(b, key, 1), key.shape)
  below = b.op("Less", b.op("RealDiv", full(b, key, 1), divisor, shape=key.shape), full(b, key, 0), shape=key.shape)
  # NaN before infinity, and zero before minus zero.
  order = _order(b, b.op("Sub", cast(b, nans, np.int32), cast(b, below, np.int32), shape=key.shape), None)
  numbers = select(b, nans, full(b, key, np.inf), key, key.shape)
  shape = (*key.shape[:-1], k)
  found = b.op_list("TopKV2", _permuted(b, numbers, order), np.int32(k), shapes=[shape, shape])[1]
  return _permuted(b, order, found)


def _axis_last(b: Builder, x: Tensor, axis: int) -> Tensor:
  return transpose(b, x, [*(i for i in range(x.rank) if i != axis), axis])


def _axis_back(b: Builder, x: Tensor, axis: int) -> Tensor:
  order: Sequence[int] = list(range(x.rank - 1))
  return transpose(b, x, [*order[:axis], x.rank - 1, *order[axis:]])
