"""Joining and splitting along an axis: ConcatV2, Pack, Unpack, Split, SplitV, Tile, ConcatOffset."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from graftax.ops_jax._core.axes import canonical_axis
from graftax.ops_jax._core.errors import InvalidInputError
from graftax.ops_jax._core.integer_facts import NO_FACTS, IntegerFacts
from graftax.ops_jax._core.known import INT32, as_known, is_small, to_dtype
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array, Static, StaticSizes, is_known, namespace

__all__ = ["concat", "concat_offset", "concat_v2", "pack", "parallel_concat", "split", "split_v", "tile", "unpack"]


@register("Pack", ignores=("N",), symbolic=True, data_inputs=("values",))
def pack(values: list[Array], *, T: np.dtype = INT32, axis: int = 0, facts: IntegerFacts = NO_FACTS) -> Array:
  """Stacks arrays of one shape along a new axis.

  Source op: `tf.raw_ops.Pack`.

  Args:
    values: arrays of one shape and dtype.
    T: their dtype.
    axis: position of the new dimension; negative counts from the end of the result.
    facts: what is known of traced integers.

  Raises:
    InvalidInputError: the shapes differ, or there is no such axis.
  """
  position = canonical_axis("Pack", axis, values[0].ndim + 1)
  if any(v.shape != values[0].shape for v in values):
    raise InvalidInputError(f"Pack: shapes must be equal; got {[v.shape for v in values]}.")
  if namespace(*values) is np:
    return as_known(np.stack(values, position), T)
  result = jnp.stack(values, position)
  # Known sizes have lost their declared dtype; floats keep the caller's precision.
  if result.dtype.kind in "iu":
    result = to_dtype(result, T)
  if position and values[0].ndim == 1:
    return facts.note_interleaved(result, values)
  return facts.note_concatenated(result, values, max_rank=2)


@register("Unpack", ignores=("T",), symbolic=True, data_inputs=("value",))
def unpack(value: Array, *, num: int, axis: int = 0) -> list[Array]:
  """Splits an array into its slices along an axis, and removes the axis.

  Raises:
    InvalidInputError: the axis has another size than `num`.
  """
  axis = canonical_axis("Unpack", axis, value.ndim)
  if isinstance(value.shape[axis], int) and value.shape[axis] != num:
    raise InvalidInputError(f"Unpack: dimension {axis} of shape {value.shape} must be num={num}.")
  shape = value.shape[:axis] + value.shape[axis + 1 :]
  parts = _split(value, [1] * num, axis)
  return [_normalized(part.reshape(shape)) for part in parts]


@register("ConcatV2", ignores=("N", "T", "Tidx"), symbolic=True, data_inputs=("values",))
def concat_v2(values: list[Array], axis: Static[int], *, facts: IntegerFacts = NO_FACTS) -> Array:
  """Concatenates arrays along an axis, which must be known; the other dimensions agree.

  Raises:
    InvalidInputError: no such axis, or the other dimensions differ.
  """
  position = canonical_axis("ConcatV2", axis, values[0].ndim)
  try:
    if namespace(*values) is np:
      return _normalized(np.concatenate(values, position))
    return facts.note_concatenated(jnp.concatenate(values, position), values)
  except (TypeError, ValueError) as e:
    raise InvalidInputError(f"ConcatV2: shapes {[v.shape for v in values]} do not join along axis {axis}.") from e


@register("Concat", ignores=("N", "T"), symbolic=True, data_inputs=("values",))
def concat(concat_dim: Static[int], values: list[Array], *, facts: IntegerFacts = NO_FACTS) -> Array:
  """Computes `concat_v2` with its arguments in another order."""
  return concat_v2(values, concat_dim, facts=facts)


@register("ParallelConcat", ignores=("N", "T", "shape"), data_inputs=("values",))
def parallel_concat(values: list[Array]) -> Array:
  """Concatenates arrays of shape `[1, ...]` along the first axis."""
  return concat_v2(values, 0)


@register("ConcatOffset", ignores=("N", "shape_type"), symbolic=True)
def concat_offset(concat_dim: Static[int], shape: list[Array]) -> list[Array]:
  """Returns where each array begins in the concatenation of arrays of the given shapes; known if the shapes are.

  Raises:
    InvalidInputError: no such dimension, or the others differ, if they are known.
  """
  if any(isinstance(dims, jax.core.Tracer) for dims in shape):
    shapes = jnp.stack([jnp.asarray(dims) for dims in shape])
    axis = canonical_axis("ConcatOffset", concat_dim, shapes.shape[1])
    before = jnp.cumsum(shapes[:, axis]) - shapes[:, axis]
    return list(jnp.zeros_like(shapes).at[:, axis].set(before))
  first = np.asarray(shape[0])
  axis = canonical_axis("ConcatOffset", concat_dim, first.shape[0])
  offsets: list[Array] = []
  total: Any = 0
  for dims in map(np.asarray, shape):
    if len(dims) != len(first) or any(a != b for i, (a, b) in enumerate(zip(dims, first, strict=True)) if i != axis):
      raise InvalidInputError(f"ConcatOffset: shapes {shape!r} do not join along dimension {axis}.")
    offset = np.zeros(len(first), object)
    offset[axis] = total
    offsets.append(as_known(offset, first.dtype if first.dtype != object else np.int32))
    total = total + (dims[axis] if dims.dtype == object else int(dims[axis]))
  return offsets


@register("Split", ignores=("T",), symbolic=True, data_inputs=("value",))
def split(split_dim: Static[int], value: Array, *, num_split: int) -> list[Array]:
  """Splits an array into `num_split` equal parts along an axis, which must be known.

  Raises:
    InvalidInputError: no such axis, or its size is not a multiple of `num_split`.
  """
  axis = canonical_axis("Split", split_dim, value.ndim)
  dim = value.shape[axis]
  if isinstance(dim, int) and dim % num_split:
    raise InvalidInputError(f"Split: dimension {axis} of shape {value.shape} is not a multiple of {num_split}.")
  return [_normalized(part) for part in _split(value, [dim // num_split] * num_split, axis)]


@register("SplitV", ignores=("T", "Tlen", "num_split"), symbolic=True, data_inputs=("value",))
def split_v(value: Array, size_splits: Static[tuple[int, ...]], split_dim: Static[int]) -> list[Array]:
  """Splits an array into parts of given sizes along an axis; all must be known.

  Source op: `tf.raw_ops.SplitV`.

  Args:
    value: any shape and dtype.
    size_splits: sizes of the parts; one may be -1, which is inferred.
    split_dim: the axis; negative counts from the end.

  Raises:
    InvalidInputError: the sizes do not add up to the dimension.
  """
  axis = canonical_axis("SplitV", split_dim, value.ndim)
  dim = value.shape[axis]
  rest = dim - sum(s for s in size_splits if not (isinstance(s, int) and s == -1))
  sizes = [rest if isinstance(s, int) and s == -1 else s for s in size_splits]
  if any(isinstance(s, int) and s < 0 for s in sizes) or (isinstance(dim, int) and sum(sizes) != dim):
    raise InvalidInputError(f"SplitV: sizes {size_splits!r} do not add up to dimension {axis} of shape {value.shape}.")
  return [_normalized(part) for part in _split(value, sizes, axis)]


@register("Tile", ignores=("T", "Tmultiples"), symbolic=True, data_inputs=("input",))
def tile(input: Array, multiples: StaticSizes) -> Array:
  """Repeats `input` `multiples[i]` times along dimension `i`.

  Raises:
    InvalidInputError: there is not one multiple for each dimension, or one is negative.
  """
  if len(multiples) != input.ndim or any(isinstance(m, int) and m < 0 for m in multiples):
    raise InvalidInputError(f"Tile: multiples {multiples!r} do not fit shape {input.shape}.")
  if all(isinstance(m, int) and m == 1 for m in multiples):
    return input
  if is_known(input) and (
    input.dtype == object or is_small(m * d for m, d in zip(multiples, input.shape, strict=True))
  ):
    return np.tile(input, multiples)
  return jnp.tile(input, multiples)


def _split(x: Array, sizes: list[Any], axis: int) -> list[Array]:
  if not sizes:
    return []
  if is_known(x):
    return np.split(x, np.cumsum(sizes)[:-1], axis)
  if all(isinstance(s, int) for s in (*sizes, x.shape[axis])):
    return list(lax.split(x, sizes, axis))
  parts: list[Array] = []
  start: Any = 0
  for size in sizes:
    parts.append(lax.slice_in_dim(x, start, start + size, axis=axis))
    start = start + size
  return parts


def _normalized(x: Array) -> Array:
  return as_known(x) if is_known(x) and x.dtype == object else x
