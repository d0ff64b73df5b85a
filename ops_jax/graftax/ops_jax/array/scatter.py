"""Updates at given coordinates: ScatterNd, TensorScatterUpdate, TensorScatterAdd, InplaceUpdate.

TensorFlow's CPU kernels raise an error for coordinates out of range, including negative ones. These lowerings do so if
the coordinates are known. Updates at traced coordinates out of range are dropped.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from graftax.ops_jax._core.derivatives import with_partials
from graftax.ops_jax._core.errors import InvalidInputError
from graftax.ops_jax._core.known import KNOWN_SIZE_LIMIT, as_known
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array, StaticSizes, is_known, is_symbolic
from graftax.ops_jax.array.gather import check_bounds

__all__ = [
  "inplace_add",
  "inplace_sub",
  "inplace_update",
  "scatter_nd",
  "tensor_scatter_add",
  "tensor_scatter_max",
  "tensor_scatter_min",
  "tensor_scatter_sub",
  "tensor_scatter_update",
]

_IGNORES = ("T", "Tindices")


@register("ScatterNd", ignores=_IGNORES, symbolic=True)
def scatter_nd(indices: Array, updates: Array, shape: StaticSizes, *, bad_indices_policy: str = "") -> Array:
  """Adds `updates` at given coordinates to an array of zeros.

  Source op: `tf.raw_ops.ScatterNd`.

  Args:
    indices: `[*positions, k]`, integer coordinates of elements or slices.
    updates: `[*positions, *shape[k:]]`; updates with equal coordinates are added up.
    shape: the result's shape. Must be known.
    bad_indices_policy: "IGNORE" drops updates out of range; otherwise known coordinates out of range are an error.

  Returns:
    `[*shape]`, of the dtype of `updates`; known if the inputs are.

  Raises:
    InvalidInputError: known coordinates are out of range, or the shapes do not fit.

  Differs from TF: updates at traced coordinates out of range are dropped instead of raising an error.
  """
  indices = _coordinates("ScatterNd", indices, updates, shape, bad_indices_policy)
  if is_known(indices) and is_known(updates) and (_is_text(updates) or _is_small_integers(updates)):
    if all(isinstance(dim, int) for dim in shape) and bad_indices_policy != "IGNORE" and not is_symbolic(indices):
      result = np.full(shape, b"" if _is_text(updates) else 0, updates.dtype)
      np.add.at(result, tuple(np.moveaxis(indices, -1, 0)), updates)
      return as_known(result)
  updates = jnp.asarray(updates)
  return _add(jnp.zeros(shape, updates.dtype), indices, updates)


@register("TensorScatterUpdate", ignores=_IGNORES, symbolic=True, data_inputs=("tensor", "updates"))
def tensor_scatter_update(tensor: Array, indices: Array, updates: Array, *, bad_indices_policy: str = "") -> Array:
  """Replaces elements or slices of `tensor` at given coordinates.

  Source op: `tf.raw_ops.TensorScatterUpdate`.

  Args:
    tensor: any shape and dtype.
    indices: `[*positions, k]`, integer coordinates of elements or slices.
    updates: `[*positions, *tensor.shape[k:]]`; of several with equal coordinates the last one stays (on a CPU).
    bad_indices_policy: "IGNORE" drops updates out of range.

  Returns:
    Same shape and dtype as `tensor`.

  Raises:
    InvalidInputError: known coordinates are out of range, or the shapes do not fit.

  Differs from TF: updates at traced coordinates out of range are dropped instead of raising an error. Of several
    updates with equal coordinates only the one that stays gets a gradient; TensorFlow gives each of them the gradient
    of it.
  """
  indices = _coordinates("TensorScatterUpdate", indices, updates, tensor.shape, bad_indices_policy)
  if is_known(tensor) and is_known(indices) and is_known(updates) and tensor.dtype == object:
    result = tensor.copy()
    result[tuple(np.moveaxis(indices, -1, 0))] = updates
    return as_known(result)
  return _at(jnp.asarray(tensor), indices).set(updates, mode="drop", wrap_negative_indices=False)


@register("TensorScatterAdd", "ScatterNdNonAliasingAdd", ignores=_IGNORES)
def tensor_scatter_add(tensor: Array, indices: Array, updates: Array, *, bad_indices_policy: str = "") -> Array:
  """Adds `updates` to `tensor` at given coordinates; see `tensor_scatter_update`."""
  indices = _coordinates("TensorScatterAdd", indices, updates, tensor.shape, bad_indices_policy)
  return _add(jnp.asarray(tensor), indices, updates)


@register("TensorScatterSub", ignores=_IGNORES)
def tensor_scatter_sub(tensor: Array, indices: Array, updates: Array, *, bad_indices_policy: str = "") -> Array:
  """Subtracts `updates` from `tensor` at given coordinates; see `tensor_scatter_update`."""
  return tensor_scatter_add(tensor, indices, jnp.negative(updates), bad_indices_policy=bad_indices_policy)


@register("TensorScatterMax", ignores=_IGNORES)
def tensor_scatter_max(tensor: Array, indices: Array, updates: Array, *, bad_indices_policy: str = "") -> Array:
  """Returns the maximum of `tensor` and the `updates` at each place; equal values share the derivative evenly.

  Differs from TF: NaN at a place makes the result NaN; TensorFlow's CPU kernel may drop it, depending on the order.
  """
  indices = _coordinates("TensorScatterMax", indices, updates, tensor.shape, bad_indices_policy)
  return _scatter_max(jnp.asarray(tensor), jnp.asarray(indices), jnp.asarray(updates))


@register("TensorScatterMin", ignores=_IGNORES)
def tensor_scatter_min(tensor: Array, indices: Array, updates: Array, *, bad_indices_policy: str = "") -> Array:
  """Returns the minimum of `tensor` and the `updates` at each place; equal values share the derivative evenly.

  Differs from TF: NaN at a place makes the result NaN; TensorFlow's CPU kernel may drop it, depending on the order.
  """
  indices = _coordinates("TensorScatterMin", indices, updates, tensor.shape, bad_indices_policy)
  return _scatter_min(jnp.asarray(tensor), jnp.asarray(indices), jnp.asarray(updates))


@register("InplaceUpdate", ignores=("T",))
def inplace_update(x: Array, i: Array, v: Array) -> Array:
  """Replaces rows `i` (modulo the number of rows) of `x` by the rows of `v`."""
  return jnp.asarray(x).at[_rows(x, i)].set(v)


@register("InplaceAdd", ignores=("T",))
def inplace_add(x: Array, i: Array, v: Array) -> Array:
  """Adds the rows of `v` to rows `i` (modulo the number of rows) of `x`."""
  return jnp.asarray(x).at[_rows(x, i)].add(v)


@register("InplaceSub", ignores=("T",))
def inplace_sub(x: Array, i: Array, v: Array) -> Array:
  """Subtracts the rows of `v` from rows `i` (modulo the number of rows) of `x`."""
  return jnp.asarray(x).at[_rows(x, i)].add(-v)


def _rows(x: Array, i: Array) -> Array:
  return jnp.mod(i, x.shape[0])


def _is_text(x: np.ndarray) -> bool:
  # `is_string` looks at an element.
  return x.dtype == object and not is_symbolic(x)


def _is_small_integers(x: np.ndarray) -> bool:
  return x.dtype.kind in "iuO" and x.size <= KNOWN_SIZE_LIMIT


def _add(x: jax.Array, indices: Array, updates: Array) -> Array:
  # A sum of booleans is their disjunction.
  combine = _at(x, indices).max if x.dtype == np.bool_ else _at(x, indices).add
  return combine(updates, mode="drop", wrap_negative_indices=False)


def _at(x: jax.Array, indices: Array) -> Any:
  return x.at[tuple(indices[..., k] for k in range(indices.shape[-1]))]


def _at_fill(x: jax.Array, indices: Array) -> jax.Array:
  return _at(x, indices).get(mode="fill", fill_value=0, wrap_negative_indices=False)


def _coordinates(op: str, indices: Array, updates: Array, shape: tuple[Any, ...], policy: str) -> Array:
  depth = indices.shape[-1] if indices.ndim else 1
  if not indices.ndim or depth > len(shape) or tuple(updates.shape) != (*indices.shape[:-1], *shape[depth:]):
    raise InvalidInputError(
      f"{op}: indices of shape {indices.shape} and updates of shape {updates.shape} do not fit shape {tuple(shape)}."
    )
  if policy != "IGNORE":
    check_bounds(op, indices, tuple(shape[:depth]))
  return indices


def _shared_partials(function: Any) -> Any:
  """Returns the derivatives of a scattered extremum: every value equal to the result gets an even share."""

  def shares(z: jax.Array, tensor: Array, indices: Array, updates: Array) -> tuple[Array, Array, Array]:
    from_tensor = (tensor == z).astype(z.dtype)
    from_updates = (updates == _at_fill(z, indices)).astype(z.dtype)
    count = _at(from_tensor, indices).add(from_updates, mode="drop", wrap_negative_indices=False)
    return from_tensor, from_updates, jnp.maximum(count, 1)

  def partial_tensor(t: Array, z: jax.Array, tensor: Array, indices: Array, updates: Array) -> Array:
    from_tensor, _, count = shares(z, tensor, indices, updates)
    return t * from_tensor / count

  def partial_updates(t: Array, z: jax.Array, tensor: Array, indices: Array, updates: Array) -> Array:
    _, from_updates, count = shares(z, tensor, indices, updates)
    total = _at(jnp.zeros_like(z), indices).add(t * from_updates, mode="drop", wrap_negative_indices=False)
    return total / count

  return with_partials(function, partial_tensor, None, partial_updates)


_scatter_max = _shared_partials(
  lambda tensor, indices, updates: _at(tensor, indices).max(updates, mode="drop", wrap_negative_indices=False)
)
_scatter_min = _shared_partials(
  lambda tensor, indices, updates: _at(tensor, indices).min(updates, mode="drop", wrap_negative_indices=False)
)
