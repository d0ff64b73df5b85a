"""Runs shape arithmetic in numpy, including symbolic dimensions, so that known inputs give known results."""

from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from graftax.ops_jax._core.values import Value, is_known, is_symbolic, materialize
from graftax.xla_call_module.lax_extras import InconclusiveDimensionOperation as InconclusiveError

__all__ = [
  "FLOAT32",
  "INT32",
  "INT64",
  "InconclusiveError",
  "KNOWN_SIZE_LIMIT",
  "as_known",
  "canonical_dtype",
  "is_small",
  "keep_known",
  "to_dtype",
]

# Defaults of TensorFlow's type attributes.
FLOAT32 = np.dtype(np.float32)
INT32 = np.dtype(np.int32)
INT64 = np.dtype(np.int64)

# Values with more elements are computed in JAX even if they could stay known: they would become constants of the
# compiled program, and shapes and counters are never as large.
KNOWN_SIZE_LIMIT = 4096


def as_known(value: Any, dtype: Any = np.int32) -> np.ndarray:
  """Returns a known array for a numpy result, which is a plain Python object for object arrays of rank 0.

  Args:
    value: numpy array or scalar, Python number, bytes, or symbolic dimension.
    dtype: dtype for plain integers; symbolic dimensions keep dtype object. A kernel casts the result to the dtype that
      its op declares.
  """
  # NumPy's own type for bytes drops zeros at their end.
  array = np.asarray(value, object) if isinstance(value, bytes) else np.asarray(value)
  if isinstance(value, (np.ndarray, np.generic)) and array.dtype != object:
    return array
  if all(isinstance(item, (bool, np.bool_)) for item in array.flat):
    return array.astype(bool)
  if all(isinstance(item, (int, np.integer)) for item in array.flat):
    return array.astype(dtype)
  return array if array.dtype == object else array.astype(object)


def keep_known(np_function: Callable[..., Any], jax_function: Callable[..., Any], *args: Value) -> Value:
  """Returns `np_function(*args)` as a known array if every argument is known, else `jax_function(*args)`.

  If numpy cannot compute it (a comparison of symbolic dimensions), the arguments become JAX arrays.
  """
  if not all(map(is_known, args)):
    return jax_function(*args)
  # A condition among the arguments does not determine the dtype of the result.
  dtypes = [a.dtype for a in args if a.dtype != object and a.dtype != bool]
  dtype = dtypes[0] if dtypes else INT32
  try:
    with np.errstate(all="ignore"):
      return as_known(np_function(*args), dtype)
  except (jax.errors.ConcretizationTypeError, InconclusiveError, TypeError):
    return jax_function(*[materialize(a, canonical_dtype(dtype)) for a in args])


def is_small(shape: Iterable[Any]) -> bool:
  """Returns whether an array of `shape` is small enough to stay known."""
  size = 1
  for dim in shape:
    if not isinstance(dim, (int, np.integer)):
      return False
    size *= int(dim)
  return size <= KNOWN_SIZE_LIMIT


def canonical_dtype(dtype: Any) -> np.dtype:
  """Returns the dtype that JAX uses for `dtype`: 64-bit types become 32-bit if `jax_enable_x64` is off."""
  return np.dtype(jax.dtypes.canonicalize_dtype(dtype))


def to_dtype(x: Value, dtype: Any) -> Value:
  """Converts `x`, known or traced, to `dtype` by value, without TensorFlow's overflow rules."""
  if is_known(x) and not is_symbolic(x):
    return np.asarray(x).astype(dtype)
  return jnp.asarray(materialize(x)).astype(canonical_dtype(dtype))
