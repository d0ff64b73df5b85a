"""Spatial blocks moved into batch or channels and back: SpaceToBatchND, BatchToSpaceND, SpaceToDepth, DepthToSpace."""

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from graftax.ops_jax._core.errors import InvalidInputError, UnsupportedAttrError
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array, Static
from graftax.ops_jax.array.padding import pad

__all__ = [
  "batch_to_space",
  "batch_to_space_nd",
  "depth_to_space",
  "space_to_batch",
  "space_to_batch_nd",
  "space_to_depth",
]


@register("SpaceToBatchND", ignores=("T", "Tblock_shape", "Tpaddings"), data_inputs=("input",))
def space_to_batch_nd(input: Array, block_shape: Static[tuple[int, ...]], paddings: Static[np.ndarray]) -> Array:
  """Moves each position within a spatial block into a separate batch.

  Source op: `tf.raw_ops.SpaceToBatchND`.

  Args:
    input: `[batch, *spatial, *rest]`.
    block_shape: size of the block for each spatial dimension. Must be known.
    paddings: `[num_spatial, 2]`, zeros before and after each spatial dimension. Must be known.

  Returns:
    `[batch * prod(block_shape), *(padded spatial / block_shape), *rest]`; the position in the block varies slowest.

  Raises:
    InvalidInputError: a padded dimension is not a multiple of the block.
  """
  num_spatial = len(block_shape)
  if input.ndim < 1 + num_spatial or paddings.shape != (num_spatial, 2):
    raise InvalidInputError(
      f"SpaceToBatchND: block_shape={block_shape!r} and paddings of shape {paddings.shape} do not fit {input.shape}."
    )
  rest = input.ndim - 1 - num_spatial
  padded = pad(jnp.asarray(input), np.concatenate([[[0, 0]], paddings, np.zeros((rest, 2), paddings.dtype)]))
  batch, *spatial = padded.shape[: 1 + num_spatial]
  tail = padded.shape[1 + num_spatial :]
  if any(isinstance(dim, int) and dim % block for dim, block in zip(spatial, block_shape, strict=True)):
    raise InvalidInputError(f"SpaceToBatchND: padded shape {padded.shape} is not a multiple of {block_shape!r}.")
  split = [size for dim, block in zip(spatial, block_shape, strict=True) for size in (dim // block, block)]
  outer, inner = range(1, 2 * num_spatial, 2), range(2, 2 * num_spatial + 1, 2)
  trailing = range(1 + 2 * num_spatial, 1 + 2 * num_spatial + rest)
  blocks = padded.reshape(batch, *split, *tail).transpose(*inner, 0, *outer, *trailing)
  return blocks.reshape(batch * math.prod(block_shape), *split[::2], *tail)


@register("BatchToSpaceND", ignores=("T", "Tblock_shape", "Tcrops"), data_inputs=("input",))
def batch_to_space_nd(input: Array, block_shape: Static[tuple[int, ...]], crops: Static[np.ndarray]) -> Array:
  """Inverts `space_to_batch_nd`; `crops` are removed where it padded.

  Raises:
    InvalidInputError: the batch is not a multiple of the block, or the crops exceed the result.
  """
  num_spatial = len(block_shape)
  num_blocks = math.prod(block_shape)
  if input.ndim < 1 + num_spatial or crops.shape != (num_spatial, 2):
    raise InvalidInputError(
      f"BatchToSpaceND: block_shape={block_shape!r} and crops of shape {crops.shape} do not fit {input.shape}."
    )
  batch, *spatial = input.shape[: 1 + num_spatial]
  tail = input.shape[1 + num_spatial :]
  if isinstance(batch, int) and batch % num_blocks:
    raise InvalidInputError(f"BatchToSpaceND: batch {batch} is not a multiple of {num_blocks}.")
  blocks = jnp.asarray(input).reshape(*block_shape, batch // num_blocks, *spatial, *tail)
  pairs = [axis for i in range(num_spatial) for axis in (num_spatial + 1 + i, i)]
  trailing = range(1 + 2 * num_spatial, blocks.ndim)
  sizes = [dim * block for dim, block in zip(spatial, block_shape, strict=True)]
  whole = blocks.transpose(num_spatial, *pairs, *trailing).reshape(batch // num_blocks, *sizes, *tail)
  ends = [size - _dim(high) for size, (_, high) in zip(sizes, crops, strict=True)]
  if any(isinstance(end, int) and end < low for end, (low, _) in zip(ends, crops, strict=True)):
    raise InvalidInputError(f"BatchToSpaceND: crops {crops.tolist()!r} exceed the spatial shape {sizes!r}.")
  return whole[(slice(None), *(slice(_dim(low), end) for end, (low, _) in zip(ends, crops, strict=True)))]


def _dim(value: Any) -> Any:
  return value if jax.export.is_symbolic_dim(value) else int(value)


@register("SpaceToBatch", ignores=("T", "Tpaddings"), data_inputs=("input",))
def space_to_batch(input: Array, paddings: Static[np.ndarray], *, block_size: int) -> Array:
  """Computes `space_to_batch_nd` for `[batch, height, width, depth]` and square blocks."""
  return space_to_batch_nd(input, (block_size, block_size), paddings)


@register("BatchToSpace", ignores=("T", "Tidx"), data_inputs=("input",))
def batch_to_space(input: Array, crops: Static[np.ndarray], *, block_size: int) -> Array:
  """Computes `batch_to_space_nd` for `[batch, height, width, depth]` and square blocks."""
  return batch_to_space_nd(input, (block_size, block_size), crops)


@register("SpaceToDepth", ignores=("T",), data_inputs=("input",))
def space_to_depth(input: Array, *, block_size: int, data_format: str = "NHWC") -> Array:
  """Moves each spatial block into the channels.

  Source op: `tf.raw_ops.SpaceToDepth`.

  Args:
    input: `[batch, height, width, depth]`, or `[batch, depth, height, width]` for "NCHW".
    block_size: height and width of a block; must divide those of `input`.
    data_format: "NHWC" or "NCHW".

  Returns:
    Space divided and depth multiplied by the block; the position in the block varies slower than the old channel.

  Raises:
    InvalidInputError: the block does not divide the space.
  """
  batch, height, width, depth = _nhwc_dims("SpaceToDepth", input, data_format)
  if any(isinstance(dim, int) and dim % block_size for dim in (height, width)):
    raise InvalidInputError(f"SpaceToDepth: height and width of {input.shape} are not multiples of {block_size}.")
  x = _to_nhwc(jnp.asarray(input), data_format)
  blocks = x.reshape(batch, height // block_size, block_size, width // block_size, block_size, depth)
  moved = blocks.transpose(0, 1, 3, 2, 4, 5)
  result = moved.reshape(batch, height // block_size, width // block_size, block_size * block_size * depth)
  return _from_nhwc(result, data_format)


@register("DepthToSpace", ignores=("T",), data_inputs=("input",))
def depth_to_space(input: Array, *, block_size: int, data_format: str = "NHWC") -> Array:
  """Inverts `space_to_depth`.

  Raises:
    InvalidInputError: the depth is not a multiple of the block.
  """
  batch, height, width, depth = _nhwc_dims("DepthToSpace", input, data_format)
  if isinstance(depth, int) and depth % (block_size * block_size):
    raise InvalidInputError(f"DepthToSpace: depth {depth} is not a multiple of {block_size * block_size}.")
  x = _to_nhwc(jnp.asarray(input), data_format)
  new_depth = depth // (block_size * block_size)
  blocks = x.reshape(batch, height, width, block_size, block_size, new_depth)
  moved = blocks.transpose(0, 1, 3, 2, 4, 5)
  return _from_nhwc(moved.reshape(batch, height * block_size, width * block_size, new_depth), data_format)


def _nhwc_dims(op: str, x: Array, data_format: str) -> Sequence[int]:
  if data_format not in ("NHWC", "NCHW"):
    raise UnsupportedAttrError(f"{op}: data_format={data_format!r} is not supported; expected 'NHWC' or 'NCHW'.")
  if x.ndim != 4:
    raise InvalidInputError(f"{op}: input must have 4 dimensions; got shape {x.shape}.")
  return x.shape if data_format == "NHWC" else (x.shape[0], x.shape[2], x.shape[3], x.shape[1])


def _to_nhwc(x: Array, data_format: str) -> Array:
  return x if data_format == "NHWC" else x.transpose(0, 2, 3, 1)


def _from_nhwc(x: Array, data_format: str) -> Array:
  return x if data_format == "NHWC" else x.transpose(0, 3, 1, 2)
