"""Keeping known values known: shape arithmetic runs in numpy, symbolic dimensions included."""

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

# Above this number of elements, a value that could stay known is computed in JAX instead: it would become a constant
# of the compiled program, and nothing as large is a shape.
KNOWN_SIZE_LIMIT = 4096


def as_known(value: Any, dtype: Any = np.int32) -> np.ndarray:
  """A known array from a numpy result, which for object arrays of rank 0 is a bare Python object.

  Args:
    value: numpy array or scalar, Python number, or symbolic dimension.
    dtype: what plain integers become; symbolic dimensions keep dtype object. A kernel corrects it to the type that its
      op declares.
  """
  array = np.asarray(value)
  if isinstance(value, (np.ndarray, np.generic)) and array.dtype != object:
    return array
  if all(isinstance(item, (bool, np.bool_)) for item in array.flat):
    return array.astype(bool)
  if all(isinstance(item, (int, np.integer)) for item in array.flat):
    return array.astype(dtype)
  return array if array.dtype == object else array.astype(object)


def keep_known(np_function: Callable[..., Any], jax_function: Callable[..., Any], *args: Value) -> Value:
  """`np_function(*args)` as a known array when every argument is known, else `jax_function(*args)`.

  Where numpy cannot decide (a comparison of symbolic dimensions), the arguments are materialized and JAX decides.
  """
  if not all(map(is_known, args)):
    return jax_function(*args)
  # A condition among the arguments says nothing about the type of what it selects.
  dtypes = [a.dtype for a in args if a.dtype != object and a.dtype != bool]
  dtype = dtypes[0] if dtypes else INT32
  try:
    with np.errstate(all="ignore"):
      return as_known(np_function(*args), dtype)
  except (jax.errors.ConcretizationTypeError, InconclusiveError, TypeError):
    return jax_function(*[materialize(a, canonical_dtype(dtype)) for a in args])


def is_small(shape: Iterable[Any]) -> bool:
  """Whether an array of `shape` is small enough to stay known."""
  size = 1
  for dim in shape:
    if not isinstance(dim, (int, np.integer)):
      return False
    size *= int(dim)
  return size <= KNOWN_SIZE_LIMIT


def canonical_dtype(dtype: Any) -> np.dtype:
  """The dtype that JAX uses for `dtype`: 64-bit types become 32-bit while they are switched off."""
  return np.dtype(jax.dtypes.canonicalize_dtype(dtype))


def to_dtype(x: Value, dtype: Any) -> Value:
  """`x` as `dtype`, known or not, by plain value conversion (no reinterpretation, no TensorFlow overflow rules)."""
  if is_known(x) and not is_symbolic(x):
    return np.asarray(x).astype(dtype)
  return jnp.asarray(materialize(x)).astype(canonical_dtype(dtype))
