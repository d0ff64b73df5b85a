"""Array creation: Const, Fill, ZerosLike, Range, LinSpace, OneHot, Empty."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from graftax.graphdef_ir import Budget
from graftax.ops_jax._core.errors import InvalidInputError
from graftax.ops_jax._core.known import INT32, as_known, canonical_dtype, is_small, to_dtype
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.result_sizes import NO_BUDGET, check_known
from graftax.ops_jax._core.values import Array, Static, StaticSize, StaticSizes, is_known
from graftax.ops_jax.variants.arithmetic import zeros_of_variant
from graftax.ops_jax.variants.structures import is_variant

__all__ = ["const", "empty", "fill", "lin_space", "one_hot", "ones_like", "range_", "zeros_like"]


@register("Const", "HostConst", ignores=("dtype",))
def const(*, value: np.ndarray) -> np.ndarray:
  """Returns the constant, known."""
  return value


@register("Fill", ignores=("T", "index_type"), symbolic=True, data_inputs=("value",))
def fill(dims: StaticSizes, value: Array) -> Array:
  """Returns an array filled with one value.

  Source op: `tf.raw_ops.Fill`.

  Args:
    dims: the shape; symbolic dimensions are allowed. Must be known.
    value: scalar of any dtype.

  Returns:
    `[*dims]`, of the dtype of `value`; known if `value` is and the array is small.

  Raises:
    InvalidInputError: a negative dimension, or `value` is not a scalar.
  """
  if value.ndim:
    raise InvalidInputError(f"Fill: value must be a scalar; got shape {value.shape}.")
  _refuse_negative("Fill", dims)
  if is_known(value) and (is_small(dims) or value.dtype == object):
    return np.full(dims, value, value.dtype)
  return jnp.broadcast_to(value, dims)


@register("Empty", ignores=("init",))
def empty(shape: StaticSizes, *, dtype: np.dtype) -> Array:
  """Returns zeros of the given shape and dtype, initialized or not; known if the array is small."""
  _refuse_negative("Empty", shape)
  if dtype.kind == "O":
    return np.full(shape, b"", object)
  if is_small(shape):
    return np.zeros(shape, dtype)
  return jnp.zeros(shape, canonical_dtype(dtype))


@register("ZerosLike", ignores=("T",), symbolic=True, compared_inputs=("x",))
def zeros_like(x: Array) -> Array:
  """Returns zeros (false, empty strings) like `x`; of a tensor list or an optional, the same with zeros inside."""
  if is_variant(x):
    return zeros_of_variant(x)
  return _full_like(x, 0)


@register("OnesLike", ignores=("T",), symbolic=True)
def ones_like(x: Array) -> Array:
  """Returns ones (true) of the shape and dtype of `x`."""
  return _full_like(x, 1)


def _full_like(x: Array, fill_value: int) -> Array:
  if x.dtype == object:  # symbolic sizes
    return np.full(x.shape, fill_value, np.int32)
  if is_known(x) and is_small(x.shape):
    return np.full(x.shape, fill_value, x.dtype)
  return jnp.full_like(x, fill_value)


@register("Range", ignores=())
def range_(
  start: Static[np.ndarray],
  limit: Static[np.ndarray],
  delta: Static[np.ndarray],
  *,
  Tidx: np.dtype = INT32,
  budget: Budget = NO_BUDGET,
) -> Array:
  """Returns evenly spaced numbers from `start` up to `limit`, which is excluded.

  Source op: `tf.raw_ops.Range`.

  Args:
    start: scalar. Must be known, like the others, because they decide the result's length.
    limit: scalar; may be a symbolic dimension.
    delta: scalar step, not 0.
    Tidx: dtype of all of them.
    budget: is asked for memory.

  Returns:
    `[ceil((limit - start) / delta)]`, of the same dtype; known if it is small.

  Raises:
    InvalidInputError: the step is 0 or points away from `limit`, or a number is infinite or NaN.
    LimitExceededError: the range needs too much memory.

  Differs from TF: a range over symbolic dimensions whose step points away from `limit` is empty instead of raising an
  error.
  """
  first, last, step = (x.item() if x.dtype == object else x.reshape(())[()] for x in (start, limit, delta))
  if step == 0:
    raise InvalidInputError("Range: delta must not be 0.")
  if any(x.dtype == object for x in (start, limit, delta)):
    return _symbolic_range(first, last, step, canonical_dtype(Tidx))
  if (step > 0 and first > last) or (step < 0 and first < last):
    raise InvalidInputError(f"Range: start={first} lies beyond limit={last} for delta={step}.")
  if jnp.issubdtype(Tidx, jnp.integer):
    size = -((int(last) - int(first)) // -int(step))
  else:
    with np.errstate(all="ignore"):
      steps = np.ceil(np.abs((last - first) / step))
    if not np.isfinite(steps):
      raise InvalidInputError(f"Range: {first} to {last} by {step} is not a finite number of steps.")
    size = int(steps)
  check_known((size,), budget, "Range", max(np.dtype(Tidx).itemsize, 1))
  if is_small((size,)):
    with np.errstate(all="ignore"):
      return (np.arange(size).astype(Tidx) * np.asarray(step, Tidx) + np.asarray(first, Tidx)).astype(Tidx)
  dtype = canonical_dtype(Tidx)
  return lax.iota(dtype, size) * jnp.asarray(step, dtype) + jnp.asarray(first, dtype)


@register("LinSpace", ignores=("T", "Tidx"))
def lin_space(start: Array, stop: Array, num: StaticSize) -> Array:
  """Returns `num` evenly spaced numbers from `start` to `stop`, both included.

  Source op: `tf.raw_ops.LinSpace`.

  Args:
    start: scalar.
    stop: scalar.
    num: how many, at least 1. Must be known.

  Raises:
    InvalidInputError: `num` is not positive.
  """
  if num <= 0:
    raise InvalidInputError(f"LinSpace: num must be positive; got {num}.")
  start, stop = jnp.asarray(start).reshape(()), jnp.asarray(stop).reshape(())
  if num == 1:
    return start[None]
  step = (stop - start) / jnp.asarray(num - 1, start.dtype)
  values = start + step * lax.iota(start.dtype, num)
  return values.at[0].set(start).at[num - 1].set(stop)


@register("OneHot", ignores=("T", "TI"), data_inputs=("on_value", "off_value"))
def one_hot(indices: Array, depth: StaticSize, on_value: Array, off_value: Array, *, axis: int = -1) -> Array:
  """Returns vectors that hold `on_value` at one position and `off_value` elsewhere.

  Source op: `tf.raw_ops.OneHot`.

  Args:
    indices: any shape, integer; out of `[0, depth)` gives a vector without `on_value`.
    depth: length of the vectors. Must be known.
    on_value: scalar of any dtype.
    off_value: scalar of that dtype.
    axis: where the new dimension goes; -1 is last.

  Returns:
    The shape of `indices` with `depth` inserted at `axis`, of the dtype of `on_value`.

  Raises:
    InvalidInputError: `depth` is negative or there is no such axis.
  """
  rank = indices.ndim + 1
  if not -1 <= axis < rank:
    raise InvalidInputError(f"OneHot: axis {axis} is out of range for indices of shape {indices.shape}.")
  _refuse_negative("OneHot", (depth,))
  axis %= rank
  on_known = all(map(is_known, (indices, on_value, off_value)))
  xp: Any = np if on_known and is_small((*indices.shape, depth)) else jnp
  # Narrow indices are widened, because positions would wrap in a narrow type.
  dtype = indices.dtype if indices.dtype.itemsize >= 4 else INT32
  positions = np.arange(depth).astype(dtype) if xp is np else lax.iota(canonical_dtype(dtype), depth)
  shape = [1] * rank
  shape[axis] = depth
  hot = xp.expand_dims(xp.asarray(indices).astype(positions.dtype), axis) == positions.reshape(shape)
  result = xp.where(hot, on_value, off_value)
  return as_known(result) if xp is np else to_dtype(result, on_value.dtype)


def _symbolic_range(first: Any, last: Any, step: Any, dtype: np.dtype) -> Array:
  size = jax.core.max_dim(-((last - first) // -step), 0)
  return jnp.asarray(first, dtype) + lax.iota(dtype, size) * jnp.asarray(step, dtype)


def _refuse_negative(op: str, dims: tuple[Any, ...]) -> None:
  if any(isinstance(dim, int) and dim < 0 for dim in dims):
    raise InvalidInputError(f"{op}: dimensions must not be negative; got {dims!r}.")
