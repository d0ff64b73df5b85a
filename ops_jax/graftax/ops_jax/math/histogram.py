"""Counts of values: Bincount, DenseBincount, SparseBincount, RaggedBincount, HistogramFixedWidth."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from graftax.ops_jax._core.errors import InvalidInputError
from graftax.ops_jax._core.integer_facts import NO_FACTS, IntegerFacts
from graftax.ops_jax._core.known import INT32, canonical_dtype
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array, Static, StaticSize, is_known

__all__ = ["bincount", "dense_bincount", "histogram_fixed_width", "ragged_bincount", "sparse_bincount"]


@register("Bincount", ignores=("T",))
def bincount(arr: Array, size: StaticSize, weights: Array) -> Array:
  """Counts how often, or with which total weight, each of `0 ... size-1` occurs.

  Source op: `tf.raw_ops.Bincount`.

  Args:
    arr: any shape, int32, not negative; larger values are ignored.
    size: number of counts. Must be known.
    weights: of the shape of `arr`, or empty for plain counts.

  Returns:
    `[size]`, of the dtype of `weights`.

  Raises:
    InvalidInputError: a known value is negative, or the shapes differ.

  Differs from TF: traced negative values are ignored instead of raising an error.
  """
  _check("Bincount", arr, size, weights)
  return _count_rows(None, 1, jnp.reshape(arr, -1), size, jnp.reshape(weights, -1), binary_output=False)[0]


@register("DenseBincount", ignores=("T", "Tidx"))
def dense_bincount(
  input: Array, size: StaticSize, weights: Array, *, binary_output: bool = False, facts: IntegerFacts = NO_FACTS
) -> Array:
  """Computes `bincount` of a vector, or of each row of a matrix.

  Source op: `tf.raw_ops.DenseBincount`.

  Args:
    input: `[n]` or `[batch, n]`, integer, not negative; larger values are ignored.
    size: number of counts. Must be known.
    weights: of the shape of `input`, or empty for plain counts.
    binary_output: whether to return 1 for each value that occurs and 0 otherwise, regardless of weights.
    facts: what is known of traced integers.

  Returns:
    `[size]` or `[batch, size]`, of the dtype of `weights`.

  Raises:
    InvalidInputError: a known value is negative, or the shapes differ.

  Differs from TF: traced negative values are ignored instead of raising an error.
  """
  _check("DenseBincount", input, size, weights)
  if jnp.ndim(input) < 2:
    counts = _count_rows(None, 1, jnp.reshape(input, -1), size, jnp.reshape(weights, -1), binary_output)[0]
    return counts if jnp.size(weights) else facts.counts(counts, jnp.size(input))
  num_rows, width = jnp.shape(input)
  rows = jnp.repeat(jnp.arange(num_rows), width)
  return _count_rows(rows, num_rows, jnp.reshape(input, -1), size, jnp.reshape(weights, -1), binary_output)


@register("HistogramFixedWidth", ignores=("T",))
def histogram_fixed_width(values: Array, value_range: Array, nbins: StaticSize, *, dtype: np.dtype = INT32) -> Array:
  """Counts the values in each of `nbins` bins of equal width.

  Source op: `tf.raw_ops.HistogramFixedWidth`.

  Args:
    values: any shape; those outside of the range count in the first or the last bin.
    value_range: `[low, high]`, of the same dtype.
    nbins: number of bins. Must be known.
    dtype: of the result.

  Returns:
    `[nbins]` of `dtype`.

  Raises:
    InvalidInputError: `nbins` is not positive, the known range is empty, or a known value is NaN.

  Differs from TF: traced NaNs count in some bin instead of raising an error. A float64 value less than a rounding error
  from the start of a bin may count in the neighboring one. If the range is traced and 64-bit types are off, so may a
  float32 value, and an integer beyond 2**24.
  """
  if nbins <= 0:
    raise InvalidInputError(f"HistogramFixedWidth: nbins must be positive; got {nbins}.")
  if is_known(values) and np.isnan(values).any():
    raise InvalidInputError("HistogramFixedWidth: values must not contain NaN.")
  if is_known(value_range):
    low, high = value_range
    if not low < high:
      raise InvalidInputError(f"HistogramFixedWidth: the range {value_range!r} is empty.")
    starts = jnp.asarray(_bin_starts(low, high, nbins))
    bins = jnp.searchsorted(starts, jnp.reshape(values, -1).astype(starts.dtype), side="right").astype(np.int32)
  else:
    bins = _bins(jnp.reshape(values, -1), value_range[0], value_range[1], nbins)
  return jnp.zeros(nbins, canonical_dtype(dtype)).at[bins].add(1)


def _bins(values: jax.Array, low: Array, high: Array, nbins: int) -> jax.Array:
  """Returns the bin of each value, computed in float64 like TensorFlow if 64-bit types are on."""
  wide = canonical_dtype(np.float64)
  low, high = low.astype(wide), high.astype(wide)
  step = (high - low) / nbins
  # XLA would replace a division by a scalar by a product with its inverse, which rounds twice.
  divisor = lax.optimization_barrier(jnp.broadcast_to(step, values.shape))
  steps = (jnp.maximum(values.astype(wide), low) - low) / divisor
  return jnp.minimum(steps, nbins - 1).astype(np.int32)


def _bin_starts(low: Any, high: Any, nbins: int) -> np.ndarray:
  """Returns `[nbins - 1]`: the least value in each bin but the first, in the dtype of `low`.

  TensorFlow divides in double precision. Comparing with the bin starts that follow from that division gives the same
  bins in any precision.
  """
  step = (np.float64(high) - np.float64(low)) / nbins
  wanted = np.arange(1, nbins)
  # Bisection over the floating-point numbers between the ends, in their order.
  below, above = (np.full(nbins - 1, _place(end)) for end in (low, high))
  while np.any(above - below > 1):
    middle = below + (above - below) // 2
    is_reached = (_number(middle, low.dtype).astype(np.float64) - np.float64(low)) / step >= wanted
    below, above = np.where(is_reached, below, middle), np.where(is_reached, middle, above)
  return _number(above, low.dtype)


def _place(number: Any) -> Any:
  if number.dtype.kind == "i":
    return number.astype(np.int64)
  bits = number.view(f"i{number.dtype.itemsize}").astype(np.int64)
  return bits if bits >= 0 else -(bits & np.iinfo(f"i{number.dtype.itemsize}").max)


def _number(place: np.ndarray, dtype: np.dtype) -> np.ndarray:
  if dtype.kind == "i":
    return place.astype(dtype)
  magnitude = np.abs(place).astype(f"i{dtype.itemsize}").view(dtype)
  return np.where(place < 0, -magnitude, magnitude)


@register("SparseBincount", ignores=("T", "Tidx"))
def sparse_bincount(
  indices: Array,
  values: Array,
  dense_shape: Static[tuple[int, ...]],
  size: StaticSize,
  weights: Array,
  *,
  binary_output: bool = False,
) -> Array:
  """Computes `bincount` of a sparse vector, or of each row of a sparse matrix; otherwise as `DenseBincount`.

  Source op: `tf.raw_ops.SparseBincount`.

  Args:
    indices: `[nnz, rank]` int64, coordinates.
    values: `[nnz]`, integer, not negative; larger values are ignored.
    dense_shape: `[rank]`, one or two dimensions. Must be known, as `size`.
    size: number of counts.
    weights: `[nnz]`, or empty for plain counts.
    binary_output: as for `DenseBincount`.
  """
  _check("SparseBincount", values, size, weights)
  if len(dense_shape) not in (1, 2):
    raise InvalidInputError(f"SparseBincount: dense_shape={tuple(dense_shape)!r}; expected one or two dimensions.")
  if len(dense_shape) == 1:
    return _count_rows(None, 1, values, size, weights, binary_output)[0]
  return _count_rows(jnp.asarray(indices)[:, 0], dense_shape[0], values, size, weights, binary_output)


@register("RaggedBincount", ignores=("T", "Tidx"))
def ragged_bincount(
  splits: Array, values: Array, size: StaticSize, weights: Array, *, binary_output: bool = False
) -> Array:
  """Computes `bincount` of each row of a ragged matrix; otherwise as `DenseBincount`.

  Source op: `tf.raw_ops.RaggedBincount`.

  Args:
    splits: `[num_rows + 1]` int64, the start of each row, followed by the end of the last one.
    values: `[n]`, integer, not negative; larger values are ignored.
    size: number of counts. Must be known.
    weights: `[n]`, or empty for plain counts.
    binary_output: as for `DenseBincount`.
  """
  _check("RaggedBincount", values, size, weights)
  splits = jnp.asarray(splits)
  rows = jnp.searchsorted(splits, jnp.arange(values.shape[0], dtype=splits.dtype), side="right") - 1
  return _count_rows(rows, splits.shape[0] - 1, values, size, weights, binary_output)


def _count_rows(
  rows: Array | None, num_rows: int, values: Array, size: int, weights: Array, binary_output: bool
) -> Array:
  values, weights = jnp.asarray(values), jnp.asarray(weights)
  amounts = weights if weights.size and not binary_output else jnp.ones(values.shape, weights.dtype)
  rows = jnp.zeros(values.shape, np.int32) if rows is None else rows
  counts = jnp.zeros((num_rows, size), weights.dtype)
  counts = counts.at[rows, values].add(amounts, mode="drop", wrap_negative_indices=False)
  return jnp.minimum(counts, 1) if binary_output else counts


def _check(op: str, values: Array, size: int, weights: Array) -> None:
  if size < 0:
    raise InvalidInputError(f"{op}: size must not be negative; got {size}.")
  if is_known(values) and np.any(np.asarray(values) < 0):
    raise InvalidInputError(f"{op}: values must not be negative; got {np.min(values)}.")
  if weights.shape != values.shape and weights.size:
    raise InvalidInputError(f"{op}: weights of shape {weights.shape} do not fit values of shape {values.shape}.")
