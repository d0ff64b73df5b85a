"""Associative functions of two arrays with a neutral element, by name."""

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

__all__ = ["BOOL_FORMS", "MONOIDS", "identity", "is_identity", "reduce_monoid"]

MONOIDS: dict[str, Callable[..., Any]] = {
    "add": lax.add, "multiply": lax.mul, "maximum": lax.max, "minimum": lax.min,
    "and": lax.bitwise_and, "or": lax.bitwise_or, "xor": lax.bitwise_xor,
}  # fmt: skip

BOOL_FORMS = {"add": "or", "multiply": "and", "maximum": "or", "minimum": "and"}
"""The logical functions that equal the arithmetic ones on booleans."""

_LOGICAL = ("and", "or", "xor")


def identity(name: str, dtype: np.dtype) -> np.ndarray | None:
  """Returns the neutral element of a monoid, or None if the dtype has none (the maximum of complex numbers)."""
  if name in ("add", "or", "xor"):
    return np.zeros((), dtype)
  if name == "multiply":
    return np.ones((), dtype)
  if name == "and":
    return np.ones((), dtype) if dtype == np.bool_ else np.invert(np.zeros((), dtype))
  if jnp.issubdtype(dtype, jnp.complexfloating):
    return None
  if dtype == np.bool_:
    return np.asarray(name == "minimum")
  if jnp.issubdtype(dtype, jnp.integer):
    integers = jnp.iinfo(dtype)
    return np.asarray(integers.min if name == "maximum" else integers.max, dtype)
  limits = jnp.finfo(dtype)
  has_inf = bool(np.isinf(np.asarray(np.inf, dtype).astype(np.float32)))
  low, high = (-np.inf, np.inf) if has_inf else (limits.min, limits.max)
  return np.asarray(low if name == "maximum" else high, dtype)


def is_identity(name: str, init: Any, dtype: np.dtype) -> bool:
  """Returns whether a known initial value is the neutral element, so that it can be left out."""
  neutral = identity(name, dtype)
  return neutral is not None and isinstance(init, np.ndarray) and init.tobytes() == neutral.tobytes()


def reduce_monoid(name: str, x: Array, init: Any, axes: Sequence[int]) -> Array | None:
  """Returns `x` reduced along axes by a monoid, or None if JAX does not support this for the dtype of `x`.

  Args:
    name: a key of `MONOIDS`.
    x: any dtype.
    init: initial value of the reduction, a scalar; skipped if it is known to be neutral.
    axes: not negative.
  """
  neutral = identity(name, x.dtype)
  if neutral is None or (
    name in _LOGICAL and x.dtype.kind not in "iub"
  ):  # JAX's reductions do not support 4-bit integers
    return None
  if 0 in (x.shape[axis] for axis in axes):  # the derivative of an empty maximum would be NaN
    return lax.broadcast(init, [dim for axis, dim in enumerate(x.shape) if axis not in axes])
  result = lax.reduce(x, neutral, MONOIDS[name], axes)
  if is_identity(name, init, x.dtype):
    return result
  return MONOIDS[name](result, lax.broadcast(init, result.shape) if result.ndim else init)
