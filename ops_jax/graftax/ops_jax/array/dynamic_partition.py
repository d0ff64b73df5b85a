"""Rows split by label, and collected again: DynamicPartition, DynamicStitch."""

import math

import jax
import jax.numpy as jnp
import numpy as np

from graftax.graphdef_ir import Budget
from graftax.ops_jax._core.errors import InvalidInputError, StaticInputError
from graftax.ops_jax._core.known import as_known
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.result_sizes import NO_BUDGET, check_known
from graftax.ops_jax._core.values import Array, Static, is_known

__all__ = ["dynamic_partition", "dynamic_stitch"]


@register("DynamicPartition", ignores=("T",), symbolic=True, data_inputs=("data",))
def dynamic_partition(data: Array, partitions: Static[np.ndarray], *, num_partitions: int) -> list[Array]:
  """Splits the rows of `data` by label.

  Source op: `tf.raw_ops.DynamicPartition`.

  Args:
    data: `[*partitions.shape, *rest]`.
    partitions: label of each row, in `[0, num_partitions)`. Must be known, because it decides the results' shapes. To
      bound them while tracing, multiply by a mask (`tf.where(labels == i, data, 0)`) instead of cutting rows out.
    num_partitions: how many labels there are.

  Returns:
    For each label, `[count, *rest]` in the order of `data`.

  Raises:
    StaticInputError: `partitions` depends on traced data.
    InvalidInputError: a label is out of range, or the shapes do not fit.
  """
  if data.shape[: partitions.ndim] != partitions.shape:
    raise InvalidInputError(f"DynamicPartition: data {data.shape} does not start with {partitions.shape}.")
  if np.any((partitions < 0) | (partitions >= num_partitions)):
    raise InvalidInputError(f"DynamicPartition: partitions must be in [0, {num_partitions}); got {partitions!r}.")
  rows = data.reshape(math.prod(partitions.shape), *data.shape[partitions.ndim :])
  labels = partitions.reshape(-1)
  return [rows[np.flatnonzero(labels == i)] for i in range(num_partitions)]


@register("DynamicStitch", "ParallelDynamicStitch", ignores=("T", "N"), symbolic=True, data_inputs=("data",))
def dynamic_stitch(indices: list[Array], data: list[Array], *, budget: Budget = NO_BUDGET) -> Array:
  """Collects rows into one array at given positions.

  Source ops: `tf.raw_ops.DynamicStitch`, `tf.raw_ops.ParallelDynamicStitch`.

  Args:
    indices: integer arrays, the position of each row. Must be known, because the largest one decides the result's
      shape. To bound it while tracing, use `tf.scatter_nd` or `tf.tensor_scatter_nd_update` with a constant shape.
    data: for each, `[*indices.shape, *rest]`.
    budget: is asked for memory.

  Returns:
    `[max(indices) + 1, *rest]`; of several rows with one position the last one stays; positions without a row are 0.
    Known if `data` is.

  Raises:
    StaticInputError: `indices` depends on traced data.
    InvalidInputError: a shape does not fit, or a position is negative.
    LimitExceededError: the result needs too much memory.

  Differs from TF: of several rows with one position only the last one, which stays, gets a gradient; TensorFlow gives
  the gradient of the position to each of them.
  """
  if any(isinstance(i, jax.core.Tracer) for i in indices):
    raise StaticInputError(
      "DynamicStitch: indices must be known while tracing, but depend on traced data; their maximum is the result's "
      "size. Use tf.scatter_nd with a constant shape instead."
    )
  places = [np.asarray(i) for i in indices]
  rest = data[0].shape[places[0].ndim :]
  if any(tuple(d.shape) != (*p.shape, *rest) for d, p in zip(data, places, strict=True)):
    raise InvalidInputError(
      f"DynamicStitch: data shapes {[d.shape for d in data]} do not fit indices {[p.shape for p in places]}."
    )
  targets = np.concatenate([p.reshape(-1) for p in places])
  if np.any(targets < 0):
    raise InvalidInputError(f"DynamicStitch: indices must not be negative; got {targets.min()}.")
  size = int(targets.max()) + 1 if targets.size else 0
  check_known((size, *rest), budget, "DynamicStitch", max(data[0].dtype.itemsize, 8))
  sources = np.full(size, -1)
  sources[targets] = np.arange(targets.size)
  known = all(map(is_known, data))
  xp = np if known else jnp
  rows = xp.concatenate([d.reshape(p.size, *rest) for d, p in zip(data, places, strict=True)])
  picked = rows[np.maximum(sources, 0)] if targets.size else rows[:0]
  if np.any(sources < 0):
    picked = xp.where((sources < 0).reshape(-1, *[1] * len(rest)), np.zeros((), np.int8), picked).astype(rows.dtype)
  return as_known(picked) if known else picked
