"""Comparisons, tests of floating-point classes and boolean logic: Equal, Less, IsNan, LogicalAnd.

All return bool of the broadcast shape. Known inputs give known results; if symbolic dimensions cannot be ordered, the
comparison is made at run time.
"""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from graftax.ops_jax._core.errors import InvalidInputError
from graftax.ops_jax._core.known import keep_known
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array

__all__ = [
  "approximate_equal",
  "equal",
  "greater",
  "greater_equal",
  "is_finite",
  "is_inf",
  "is_nan",
  "less",
  "less_equal",
  "logical_and",
  "logical_not",
  "logical_or",
  "not_equal",
  "to_bool",
]


@register("Equal", ignores=("T",), symbolic=True, compared_inputs=("x", "y"))
def equal(x: Array, y: Array, *, incompatible_shape_error: bool = True) -> Array | np.bool_:
  """Returns `x == y` elementwise.

  Source op: `tf.raw_ops.Equal`.

  Args:
    x: any shape and dtype; strings must be known.
    y: any shape that broadcasts with `x`.
    incompatible_shape_error: whether shapes that do not broadcast are an error; otherwise the result is a scalar False.

  Raises:
    InvalidInputError: the shapes do not broadcast.
  """
  if not _compatible(x, y):
    return _incompatible("Equal", x, y, incompatible_shape_error, False)
  if x is y and np.shape(x) == () and getattr(x, "dtype", None) == np.bool_:
    # `tf.recompute_grad` makes its gradient depend on the cotangents by such a comparison. With a traced result, the
    # gradient would not be linear in them, and so have no forward mode.
    return np.bool_(True)
  return keep_known(_np_equal, jnp.equal, x, y)


@register("NotEqual", ignores=("T",), symbolic=True, compared_inputs=("x", "y"))
def not_equal(x: Array, y: Array, *, incompatible_shape_error: bool = True) -> Array:
  """Returns `x != y` elementwise; see `equal`."""
  if not _compatible(x, y):
    return _incompatible("NotEqual", x, y, incompatible_shape_error, True)
  return keep_known(lambda a, b: np.logical_not(_np_equal(a, b)), jnp.not_equal, x, y)


@register("Less", ignores=("T",), symbolic=True)
def less(x: Array, y: Array) -> Array:
  """Returns `x < y` elementwise."""
  return keep_known(np.less, jnp.less, x, y)


@register("LessEqual", ignores=("T",), symbolic=True)
def less_equal(x: Array, y: Array) -> Array:
  """Returns `x <= y` elementwise."""
  return keep_known(np.less_equal, jnp.less_equal, x, y)


@register("Greater", ignores=("T",), symbolic=True)
def greater(x: Array, y: Array) -> Array:
  """Returns `x > y` elementwise."""
  return keep_known(np.greater, jnp.greater, x, y)


@register("GreaterEqual", ignores=("T",), symbolic=True)
def greater_equal(x: Array, y: Array) -> Array:
  """Returns `x >= y` elementwise."""
  return keep_known(np.greater_equal, jnp.greater_equal, x, y)


@register("ApproximateEqual", ignores=("T",))
def approximate_equal(x: Array, y: Array, *, tolerance: float = 1e-5) -> Array:
  """Returns `|x - y| <= tolerance` elementwise, for `x` and `y` of one shape."""
  difference = jnp.abs(jnp.subtract(x, y))
  return difference <= jnp.asarray(tolerance).astype(difference.dtype)


@register("IsNan", ignores=("T",))
def is_nan(x: Array) -> Array:
  """Returns whether each element is NaN."""
  return keep_known(np.isnan, jnp.isnan, x)


@register("IsInf", ignores=("T",))
def is_inf(x: Array) -> Array:
  """Returns whether each element is plus or minus infinity."""
  return keep_known(np.isinf, jnp.isinf, x)


@register("IsFinite", ignores=("T",))
def is_finite(x: Array) -> Array:
  """Returns whether each element is neither infinite nor NaN."""
  return keep_known(np.isfinite, jnp.isfinite, x)


@register("LogicalAnd")
def logical_and(x: Array, y: Array) -> Array:
  """Returns whether both booleans are true."""
  return keep_known(np.logical_and, jnp.logical_and, x, y)


@register("LogicalOr")
def logical_or(x: Array, y: Array) -> Array:
  """Returns whether at least one of two booleans is true."""
  return keep_known(np.logical_or, jnp.logical_or, x, y)


@register("LogicalNot")
def logical_not(x: Array) -> Array:
  """Negates a boolean."""
  return keep_known(np.logical_not, jnp.logical_not, x)


@register("ToBool", ignores=("T",))
def to_bool(input: Array) -> Array:
  """Returns whether a scalar is not 0 (or not empty, for strings); for other arrays, whether there are elements."""
  if input.ndim:
    return np.asarray(input.size > 0)
  if input.dtype == object and isinstance(input.item(), bytes):
    return np.asarray(bool(input.item()))
  return not_equal(input, np.zeros((), np.int32 if input.dtype == object else input.dtype))


def _np_equal(x: np.ndarray, y: np.ndarray) -> np.ndarray:
  if x.dtype == object or y.dtype == object:
    return np.asarray(_equal_objects(x, y)).astype(bool)
  return np.equal(x, y)


def _equal_object(a: Any, b: Any) -> bool:
  # `==` of symbolic dimensions means "always equal"; "never equal" is known only if they can be ordered.
  return bool(a == b) or not (a < b or a > b)


_equal_objects: Callable[..., Any] = np.frompyfunc(_equal_object, 2, 1)


def _compatible(x: Array, y: Array) -> bool:
  dims = zip(reversed(x.shape), reversed(y.shape), strict=False)
  return all(a == b or a == 1 or b == 1 or not (isinstance(a, int) and isinstance(b, int)) for a, b in dims)


def _incompatible(op: str, x: Array, y: Array, is_error: bool, result: bool) -> Array:
  if is_error:
    raise InvalidInputError(f"{op}: shapes {x.shape} and {y.shape} do not broadcast.")
  return np.asarray(result)
