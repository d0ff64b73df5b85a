"""Sorting and searching: TopKV2, NthElement, InTopK, LowerBound, UpperBound, Bucketize."""

import jax
import jax.numpy as jnp
import numpy as np

from graftax.ops_jax._core.derivatives import with_partials
from graftax.ops_jax._core.errors import InvalidInputError
from graftax.ops_jax._core.known import INT32, canonical_dtype
from graftax.ops_jax._core.numeric import rank_keys, search_sorted
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array, Static

__all__ = [
  "approx_top_k",
  "bucketize",
  "in_top_k",
  "in_top_k_v2",
  "nth_element",
  "top_k",
  "top_k_v2",
]


@register("TopKV2", ignores=("T", "Tk", "sorted"))
def top_k_v2(input: Array, k: Static[int], *, index_type: np.dtype = INT32) -> tuple[Array, Array]:
  """Returns the largest elements of the last axis, largest first, and their positions.

  Source op: `tf.raw_ops.TopKV2`.

  Args:
    input: `[..., n]`, any real dtype. Of equal elements the earlier comes first.
    k: how many; at most `n`. Must be concrete.
    index_type: int16, int32 or int64.

  Returns:
    Values `[..., k]`, dtype of `input`; indices `[..., k]` of `index_type`.

  Raises:
    StaticInputError: `k` depends on traced data.
    InvalidInputError: `input` has no axis, or fewer than `k` elements in the last one.

  Differs from TF: with `sorted=False` TensorFlow's order is unspecified; here it is sorted. If `n` is symbolic and
  less than `k` at run time, the missing elements are NaN, or the least or greatest integer, with indices from `n` on.
  NaN comes first, or last if its sign bit is set, as after the negation in `tf.sort`; in TensorFlow's CPU kernel its
  place depends on the order of the elements.
  """
  input = jnp.asarray(input)
  # Symbolic sizes are not compared: an error could be wrong.
  is_negative = isinstance(k, int) and k < 0
  has_axis = input.ndim > 0
  is_short = has_axis and isinstance(k, int) and isinstance(input.shape[-1], int) and input.shape[-1] < k
  if not has_axis or is_negative or is_short:
    raise InvalidInputError(f"TopK: k={k!r} of shape {input.shape}; expected an axis of at least k elements.")
  keys = jax.lax.stop_gradient(input)
  if not isinstance(input.shape[-1], int):
    # Padded with `k` values that are ranked last, a symbolic axis is known to have `k` elements.
    keys = rank_keys(keys)
    keys = jnp.concatenate([keys, jnp.full((*keys.shape[:-1], k), jnp.iinfo(keys.dtype).min, keys.dtype)], axis=-1)
  elif jnp.issubdtype(keys.dtype, jnp.floating):
    # XLA orders -0 before +0; in TensorFlow and for this key they are equal.
    keys = jnp.where(keys == 0, jnp.zeros((), keys.dtype), keys)
  _, indices = jax.lax.top_k(keys, k)
  return jnp.take_along_axis(input, indices, axis=-1), indices.astype(canonical_dtype(index_type))


@register("TopK", ignores=("T", "sorted"))
def top_k(input: Array, *, k: int) -> tuple[Array, Array]:
  """Returns the largest elements of the last axis, largest first, and their positions.

  Source op: `tf.raw_ops.TopK`.

  Args:
    input: `[..., n]`, any real dtype.
    k: how many; at most `n`.

  Returns:
    Values `[..., k]`, dtype of `input`; indices `[..., k]`, int32.

  Differs from TF: with `sorted=False` TensorFlow's order is unspecified; here it is sorted.
  """
  return top_k_v2(input, k)


@register("ApproxTopK", ignores=("T",))
def approx_top_k(
  input: Array,
  *,
  k: int,
  reduction_dimension: int = -1,
  recall_target: float = 0.95,
  is_max_k: bool = True,
  reduction_input_size_override: int = -1,
  aggregate_to_topk: bool = True,
) -> tuple[Array, Array]:
  """Returns most of the largest (or smallest) elements along one axis, faster than exactly on some accelerators.

  Source op: `tf.raw_ops.ApproxTopK`.

  Args:
    input: float16, bfloat16 or float32.
    k: how many.
    reduction_dimension: the axis.
    recall_target: target share of the true largest elements.
    is_max_k: largest rather than smallest.
    reduction_input_size_override: size to compute the recall from, or -1.
    aggregate_to_topk: reduce to exactly `k`.

  Returns:
    Values, dtype of `input`; indices, int32.
  """
  input = jnp.asarray(input)
  if k == 0:
    none = jax.lax.slice_in_dim(input, 0, 0, axis=reduction_dimension)
    return none, none.astype(np.int32)
  search = jax.lax.approx_max_k if is_max_k else jax.lax.approx_min_k
  values, indices = search(
    input, k, reduction_dimension, recall_target, reduction_input_size_override, aggregate_to_topk
  )
  return values, indices


@register("NthElement", ignores=("T",))
def nth_element(input: Array, n: Array, *, reverse: bool = False) -> Array:
  """Returns the element at one position of the sorted last axis.

  Source op: `tf.raw_ops.NthElement`.

  Args:
    input: `[..., m]`, any real dtype.
    n: scalar int32, from 0 to `m - 1`.
    reverse: count from the largest.

  Returns:
    `[...]`, dtype of `input`. Equal elements share the derivative evenly.

  Raises:
    InvalidInputError: `input` has no axis.
  """
  input = jnp.asarray(input)
  if input.ndim == 0:
    raise InvalidInputError("NthElement: the input is a scalar; expected at least one axis.")
  place = input.shape[-1] - 1 - n if reverse else n
  return _element_in_order(input, jnp.asarray(place))


def _shared_partial(t: Array, z: Array, x: Array, place: Array) -> Array:
  is_selected = (x == z[..., None]).astype(x.dtype)
  return jnp.sum(t * is_selected, axis=-1) / jnp.sum(is_selected, axis=-1)


def _select_in_order(x: Array, place: Array) -> jax.Array:
  return jnp.take(jnp.sort(x, axis=-1), place, axis=-1, mode="clip")


_element_in_order = with_partials(_select_in_order, _shared_partial, None)


@register("InTopKV2", ignores=("T",))
def in_top_k_v2(predictions: Array, targets: Array, k: Array | int) -> Array:
  """Returns whether fewer than `k` classes are predicted above the target.

  A class that ties with the target does not count as above it.

  Source op: `tf.raw_ops.InTopKV2`.

  Args:
    predictions: `[batch, classes]`, float32.
    targets: `[batch]`, int32 or int64.
    k: scalar, dtype of `targets`.

  Returns:
    `[batch]`, bool; false for a target out of range and for a row with a number that is not finite.
  """
  predictions, targets = jnp.asarray(predictions), jnp.asarray(targets)
  num_classes = predictions.shape[1]
  in_range = (targets >= 0) & (targets < num_classes)
  if num_classes == 0:
    return jnp.zeros(targets.shape, bool)
  of_target = jnp.take_along_axis(predictions, jnp.where(in_range, targets, 0)[:, None], axis=1)
  num_above = jnp.sum(predictions > of_target, axis=1)
  return in_range & jnp.all(jnp.isfinite(predictions), axis=1) & (num_above < k)


@register("InTopK", ignores=("T",))
def in_top_k(predictions: Array, targets: Array, *, k: int) -> Array:
  """Returns whether fewer than `k` classes are predicted above the target.

  Source op: `tf.raw_ops.InTopK`.

  Args:
    predictions: `[batch, classes]`, float32.
    targets: `[batch]`, int32 or int64.
    k: the target must be among the `k` highest.

  Returns:
    `[batch]`, bool; false for a target out of range and for a row with a number that is not finite.
  """
  return in_top_k_v2(predictions, targets, k)


def _search_rows(sorted_inputs: Array, values: Array, side: str, out_type: np.dtype) -> Array:
  sorted_inputs, values = jnp.asarray(sorted_inputs), jnp.asarray(values)
  if sorted_inputs.ndim != 2 or values.ndim != 2 or sorted_inputs.shape[0] != values.shape[0]:
    raise InvalidInputError(
      f"LowerBound/UpperBound: shapes {sorted_inputs.shape} and {values.shape}; expected [batch, n] and [batch, m]."
    )
  places = jax.vmap(lambda row, wanted: search_sorted(row, wanted, side))(sorted_inputs, values)
  return places.astype(canonical_dtype(out_type))


def _register_bound(op: str, side: str) -> None:
  def bound(sorted_inputs: Array, values: Array, *, out_type: np.dtype = INT32) -> Array:
    """Returns where values would be inserted in sorted rows, before (lower) or after (upper) equal elements.

    Source ops: `tf.raw_ops.LowerBound` and `UpperBound`.

    Args:
      sorted_inputs: `[batch, n]`, each row ascending; any real dtype.
      values: `[batch, m]`, dtype of `sorted_inputs`.
      out_type: int32 or int64.

    Returns:
      `[batch, m]` of `out_type`.

    Raises:
      InvalidInputError: an input is not a matrix, or the batch sizes differ.
    """
    return _search_rows(sorted_inputs, values, side, out_type)

  register(op, ignores=("T",))(bound)


_register_bound("LowerBound", "left")
_register_bound("UpperBound", "right")


@register("Bucketize", ignores=("T",))
def bucketize(input: Array, *, boundaries: tuple[float, ...]) -> Array:
  """Returns for each element the number of boundaries that it reaches.

  Source op: `tf.raw_ops.Bucketize`.

  Args:
    input: any shape; int32, int64, float32 or float64.
    boundaries: ascending; float32 in the graph.

  Returns:
    Shape of `input`, int32.
  """
  input = jnp.asarray(input)
  edges = np.asarray(boundaries, np.float32)
  if input.dtype == np.float64:
    edges = edges.astype(np.float64)
  else:
    input = input.astype(np.float32)
  return jnp.searchsorted(jnp.asarray(edges), input, side="right").astype(np.int32)
