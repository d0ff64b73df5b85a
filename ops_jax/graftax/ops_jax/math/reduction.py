"""Reductions over axes: Sum, Prod, Max, Min, Mean, All, Any, EuclideanNorm, ArgMax, ArgMin.

The axes must be known; an empty list of axes reduces nothing. Results have the input's dtype. `keep_dims` keeps each
reduced axis with size 1. Sum, Prod, Max and Min of known inputs are known, since shapes are computed with them.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from graftax.ops_jax._core.axes import canonical_axes, canonical_axis
from graftax.ops_jax._core.errors import InvalidInputError
from graftax.ops_jax._core.integer_facts import NO_FACTS, IntegerFacts
from graftax.ops_jax._core.known import INT64, keep_known, to_dtype
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array, Static
from graftax.ops_jax.math.integer_mean import integer_mean
from graftax.xla_call_module.lax_extras import highest, lowest

__all__ = ["all_", "any_", "arg_max", "arg_min", "euclidean_norm", "max_", "mean", "min_", "prod", "sum_"]

_IGNORES = ("T", "Tidx")


@register("Sum", ignores=_IGNORES, symbolic=True)
def sum_(input: Array, reduction_indices: Static[tuple[int, ...]], *, keep_dims: bool = False) -> Array:
  """Sums over axes; 0 for no elements. Integers wrap."""
  return _reduce("Sum", np.sum, jnp.sum, input, reduction_indices, keep_dims, dtype=True)


@register("Prod", ignores=_IGNORES, symbolic=True)
def prod(
  input: Array,
  reduction_indices: Static[tuple[int, ...]],
  *,
  keep_dims: bool = False,
  facts: IntegerFacts = NO_FACTS,
) -> Array:
  """Multiplies over axes; 1 for no elements. Integers wrap."""
  result = _reduce("Prod", np.prod, jnp.prod, input, reduction_indices, keep_dims, dtype=True)
  return facts.product(result, input)


@register("Max", ignores=_IGNORES, symbolic=True)
def max_(
  input: Array,
  reduction_indices: Static[tuple[int, ...]],
  *,
  keep_dims: bool = False,
  facts: IntegerFacts = NO_FACTS,
) -> Array:
  """Computes the maximum over axes, NaN if there is one; the smallest number of the type for no elements.

  Equal maxima share the derivative evenly.
  """
  return facts.largest(_reduce("Max", _np_max, jnp.max, input, reduction_indices, keep_dims), input)


@register("Min", ignores=_IGNORES, symbolic=True)
def min_(input: Array, reduction_indices: Static[tuple[int, ...]], *, keep_dims: bool = False) -> Array:
  """Computes the minimum over axes, NaN if there is one; the largest number of the type for no elements.

  Equal minima share the derivative evenly.
  """
  return _reduce("Min", _np_min, jnp.min, input, reduction_indices, keep_dims)


@register("All", ignores=_IGNORES)
def all_(input: Array, reduction_indices: Static[tuple[int, ...]], *, keep_dims: bool = False) -> Array:
  """Returns whether all elements along axes are true; true for no elements."""
  return _reduce("All", np.all, jnp.all, input, reduction_indices, keep_dims)


@register("Any", ignores=_IGNORES)
def any_(input: Array, reduction_indices: Static[tuple[int, ...]], *, keep_dims: bool = False) -> Array:
  """Returns whether any element along axes is true; false for no elements."""
  return _reduce("Any", np.any, jnp.any, input, reduction_indices, keep_dims)


@register("Mean", ignores=_IGNORES)
def mean(input: Array, reduction_indices: Static[tuple[int, ...]], *, keep_dims: bool = False) -> Array:
  """Computes the mean over axes. Means of integers are rounded towards 0. No elements give NaN, or 0 for integers."""
  axes = canonical_axes("Mean", reduction_indices, input.ndim)
  input = jnp.asarray(input)
  if jnp.issubdtype(input.dtype, jnp.inexact):
    with jax.debug_nans(False):
      return jnp.mean(input, axes, keepdims=keep_dims)
  return integer_mean(input, axes, keep_dims)


@register("EuclideanNorm", ignores=_IGNORES)
def euclidean_norm(input: Array, reduction_indices: Static[tuple[int, ...]], *, keep_dims: bool = False) -> Array:
  """Computes the root of the sum of squares over axes, rounded down for integers. The derivative at 0 is NaN."""
  axes = canonical_axes("EuclideanNorm", reduction_indices, input.ndim)
  input = jnp.asarray(input)
  squares = jnp.conj(input) * input
  if jnp.issubdtype(input.dtype, jnp.inexact):
    return lax.sqrt(jnp.sum(squares, axes, keepdims=keep_dims))
  return jnp.floor(jnp.sqrt(jnp.sum(squares, axes, keepdims=keep_dims))).astype(input.dtype)


@register("ArgMax", ignores=("T", "Tidx"))
def arg_max(input: Array, dimension: Static[int], *, output_type: np.dtype = INT64) -> Array:
  """Returns the position of the first maximum along an axis; NaN is never the maximum.

  Source op: `tf.raw_ops.ArgMax`.

  Args:
    input: `[..., n, ...]`, numeric or bool, with at least one element along the axis.
    dimension: position of `n`; negative counts from the end. Must be known.
    output_type: dtype of the result.

  Returns:
    The shape of `input` without `n`.

  Raises:
    InvalidInputError: no such axis, or `n` is 0.
  """
  return _arg_reduce("ArgMax", jnp.argmax, -np.inf, input, dimension, output_type)


@register("ArgMin", ignores=("T", "Tidx"))
def arg_min(input: Array, dimension: Static[int], *, output_type: np.dtype = INT64) -> Array:
  """Returns the position of the first minimum along an axis; NaN is never the minimum. See `arg_max`."""
  return _arg_reduce("ArgMin", jnp.argmin, np.inf, input, dimension, output_type)


def _arg_reduce(
  op: str, function: Callable[..., Array], neutral: float, input: Array, dimension: int, output_type: np.dtype
) -> Array:
  axis = canonical_axis(op, dimension, input.ndim)
  if isinstance(input.shape[axis], int) and input.shape[axis] == 0:
    raise InvalidInputError(f"{op}: dimension {axis} of shape {input.shape} is empty.")
  input = jnp.asarray(input)
  if jnp.issubdtype(input.dtype, jnp.floating):
    input = jnp.where(jnp.isnan(input), jnp.asarray(neutral, input.dtype), input)
  return to_dtype(function(input, axis), output_type)


def _reduce(
  op: str,
  np_function: Callable[..., Any],
  jax_function: Callable[..., Array],
  x: Array,
  axes: tuple[int, ...],
  keep_dims: bool,
  dtype: bool = False,
) -> Array:
  axes = canonical_axes(op, axes, x.ndim)
  # numpy and JAX would sum small integers in a wider type.
  kwargs = {"dtype": x.dtype} if dtype and x.dtype != object else {}

  def on_jax(a: Array) -> Array:
    if op in ("Max", "Min") and any(a.shape[axis] == 0 for axis in axes):
      return _empty_extremum(op, a, axes, keep_dims)
    options = {}
    if op in ("Max", "Min") and not all(isinstance(a.shape[axis], int) for axis in axes):
      # JAX cannot reduce a symbolic dimension, which may be 0, without an initial value.
      options["initial"] = (lowest if op == "Max" else highest)(a.dtype)
    result = jax_function(a, axis=axes, keepdims=keep_dims, **options)
    return result.astype(a.dtype)

  return keep_known(lambda a: np_function(a, axis=axes, keepdims=keep_dims, **kwargs), on_jax, x)


def _empty_extremum(op: str, x: Array, axes: tuple[int, ...], keep_dims: bool) -> Array:
  shape = [1 if axis in axes else dim for axis, dim in enumerate(x.shape) if keep_dims or axis not in axes]
  return jnp.full(shape, lowest(x.dtype) if op == "Max" else highest(x.dtype), x.dtype)


def _np_max(x: np.ndarray, **kwargs: Any) -> Any:
  if x.dtype == object:
    return _reduced_dims(jax.core.max_dim, x, **kwargs)
  return np.max(x, initial=lowest(x.dtype).item(), **kwargs)


def _np_min(x: np.ndarray, **kwargs: Any) -> Any:
  if x.dtype == object:
    return _reduced_dims(jax.core.min_dim, x, **kwargs)
  return np.min(x, initial=highest(x.dtype).item(), **kwargs)


def _reduced_dims(function: Callable[[Any, Any], Any], x: np.ndarray, axis: tuple[int, ...], keepdims: bool) -> Any:
  elementwise = np.frompyfunc(function, 2, 1)
  for position in sorted(axis, reverse=True):
    # A reduction without neutral element raises a ValueError for no elements.
    x = np.asarray(elementwise.reduce(x, axis=position, keepdims=keepdims), object)
  return x
