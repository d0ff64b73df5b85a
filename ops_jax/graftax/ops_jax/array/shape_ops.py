"""Shapes: Shape, Size, Rank, Reshape, ExpandDims, Squeeze, Transpose, InvertPermutation. Known values stay known."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from graftax.ops_jax._core.axes import canonical_axes, canonical_axis
from graftax.ops_jax._core.errors import InvalidInputError
from graftax.ops_jax._core.integer_facts import NO_FACTS, IntegerFacts
from graftax.ops_jax._core.known import INT32, as_known
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array, Static, is_known, namespace, shape_vector

__all__ = [
  "conjugate_transpose",
  "expand_dims",
  "invert_permutation",
  "rank",
  "reshape",
  "shape",
  "shape_n",
  "size",
  "squeeze",
  "transpose",
]


@register("Shape", ignores=("T",), symbolic=True)
def shape(input: Array, *, out_type: np.dtype = INT32) -> np.ndarray:
  """Returns the shape, `[rank]` of `out_type`, known; of dtype object if a dimension is symbolic."""
  return shape_vector(input.shape, out_type)


@register("ShapeN", ignores=("T", "N"), symbolic=True)
def shape_n(input: list[Array], *, out_type: np.dtype = INT32) -> list[np.ndarray]:
  """Returns the shape of every input; see `shape`."""
  return [shape_vector(x.shape, out_type) for x in input]


@register("Size", ignores=("T",), symbolic=True)
def size(input: Array, *, out_type: np.dtype = INT32) -> np.ndarray:
  """Returns the number of elements, a known scalar of `out_type`."""
  total: Any = 1
  for dim in input.shape:
    total = total * dim
  return as_known(total, out_type)


@register("Rank", ignores=("T",), symbolic=True)
def rank(input: Array) -> np.ndarray:
  """Returns the number of dimensions, a known int32 scalar."""
  return np.asarray(input.ndim, np.int32)


@register("Reshape", ignores=("T", "Tshape"), symbolic=True, data_inputs=("tensor",))
def reshape(tensor: Array, shape: Static[tuple[int, ...]], *, facts: IntegerFacts = NO_FACTS) -> Array:
  """Reshapes an array in row-major order.

  Source op: `tf.raw_ops.Reshape`.

  Args:
    tensor: any shape and dtype.
    shape: the new shape; one entry may be -1, which is inferred. Symbolic dimensions are allowed. Must be known.
    facts: what is known of traced integers.

  Raises:
    InvalidInputError: the number of elements differs.
  """
  shape = _without_wildcard_beside_zero(tensor.shape, shape)
  return facts.note_concatenated(
    _change_shape("Reshape", tensor, lambda xp: xp.reshape(tensor, shape), shape), [tensor]
  )


def _without_wildcard_beside_zero(old: Sequence[Any], new: tuple[Any, ...]) -> tuple[Any, ...]:
  # Beside a size of 0, TensorFlow infers -1 from the sizes that are not 0; numpy raises an error.
  if not all(isinstance(dim, int) for dim in (*old, *new)) or 0 not in new or new.count(-1) != 1:
    return new
  rest = math.prod(dim for dim in old if dim) // math.prod(dim for dim in new if dim not in (0, -1))
  return tuple(rest if dim == -1 else dim for dim in new)


@register("ExpandDims", ignores=("T", "Tdim"), symbolic=True, data_inputs=("input",))
def expand_dims(input: Array, dim: Static[int], *, facts: IntegerFacts = NO_FACTS) -> Array:
  """Inserts a dimension of size 1 at `dim`; a negative `dim` counts from the end of the result."""
  axis = canonical_axis("ExpandDims", dim, input.ndim + 1)
  return facts.note_concatenated(namespace(input).expand_dims(input, axis), [input])


@register("Squeeze", ignores=("T",), symbolic=True, data_inputs=("input",))
def squeeze(input: Array, *, squeeze_dims: tuple[int, ...] = (), facts: IntegerFacts = NO_FACTS) -> Array:
  """Removes dimensions of size 1.

  Source op: `tf.raw_ops.Squeeze`.

  Args:
    input: any shape and dtype.
    squeeze_dims: the dimensions to remove; all of size 1 if empty.
    facts: what is known of traced integers.

  Raises:
    InvalidInputError: a named dimension does not have size 1.
  """
  axes = [canonical_axis("Squeeze", axis, input.ndim) for axis in squeeze_dims]
  if not axes:
    axes = [axis for axis, dim in enumerate(input.shape) if isinstance(dim, int) and dim == 1]
  squeezed = _change_shape("Squeeze", input, lambda xp: xp.squeeze(input, tuple(set(axes))), squeeze_dims)
  return facts.note_concatenated(squeezed, [input])


@register("Transpose", ignores=("T", "Tperm"), symbolic=True, data_inputs=("x",))
def transpose(x: Array, perm: Static[tuple[int, ...]]) -> Array:
  """Permutes the dimensions of `x`: dimension `i` of the result is dimension `perm[i]`.

  Raises:
    InvalidInputError: `perm` is not a permutation of the dimensions.
  """
  axes = canonical_axes("Transpose", perm, x.ndim)
  if len(axes) != x.ndim:
    raise InvalidInputError(f"Transpose: perm={perm!r} does not name each of {x.ndim} dimensions.")
  return namespace(x).transpose(x, axes)


@register("ConjugateTranspose", ignores=("T", "Tperm"))
def conjugate_transpose(x: Array, perm: Static[tuple[int, ...]]) -> Array:
  """Returns the complex conjugate of `transpose(x, perm)`."""
  result = transpose(x, perm)
  return namespace(result).conj(result) if result.dtype.kind == "c" else result


@register("InvertPermutation", ignores=("T",))
def invert_permutation(x: Array) -> Array:
  """Returns `y` with `y[x[i]] == i`, for a vector `x` that holds each of `0 ... n-1` once.

  Raises:
    InvalidInputError: `x` is known and not a permutation.
  """
  if not is_known(x):
    return jnp.zeros_like(x).at[x].set(jnp.arange(x.shape[0], dtype=x.dtype))
  if x.ndim != 1 or not np.array_equal(np.sort(x), np.arange(x.size)):
    raise InvalidInputError(f"InvertPermutation: {x!r} is not a permutation.")
  return np.argsort(x).astype(x.dtype)


def _change_shape(op: str, x: Array, change: Callable[[Any], Array], wanted: Any) -> Array:
  try:
    return change(namespace(x))
  except (TypeError, ValueError) as e:
    raise InvalidInputError(f"{op}: shape {x.shape} does not allow {wanted!r}: {e}") from e
