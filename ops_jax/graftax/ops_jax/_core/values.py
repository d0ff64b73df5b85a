"""The value model: numpy arrays are known while tracing, JAX arrays are traced.

`np.ndarray` (and numpy scalars) mean *known*: constants, shapes, and arithmetic on them. `jax.Array` and tracers mean
*traced*. A shape vector of a program with symbolic dimensions is a numpy array of dtype object that holds `int`s and
JAX dimension expressions; numpy's elementwise operators, `concatenate` and indexing work on it unchanged.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Annotated, Any, Protocol, TypeAlias, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from graftax.xla_call_module.lax_extras import stack_dims

if TYPE_CHECKING:
  from typing_extensions import TypeIs

__all__ = [
  "SIZE_MARKER",
  "STATIC_MARKER",
  "UNCONVERTED_MARKER",
  "Array",
  "Namespace",
  "StaticSize",
  "StaticSizes",
  "Static",
  "Unconverted",
  "UnconvertedList",
  "Value",
  "dtype_of",
  "is_known",
  "is_string",
  "is_symbolic",
  "materialize",
  "namespace",
  "shape_vector",
]

Array: TypeAlias = jax.Array | np.ndarray
"""An array of a lowering: a NumPy array is known while tracing, a JAX array is not."""


class Namespace(Protocol):
  """Either `numpy` or `jax.numpy`, so that the same code computes known and traced results."""

  float32: type[np.float32]
  int32: type[np.int32]

  def __getattr__(self, name: str) -> Callable[..., Array]: ...


# Any: besides arrays, resource handles and tensor lists travel along graph edges.
Value: TypeAlias = Any


class _StaticMarker:
  """Distinguishes a `Static[...]` annotation from any other `Annotated`."""


class _SizeMarker:
  """Distinguishes a `StaticSize` or `StaticSizes` annotation from any other `Static`."""


class _UnconvertedMarker:
  """Distinguishes an `Unconverted` annotation from any other `Annotated`."""


_T = TypeVar("_T")
STATIC_MARKER = _StaticMarker()
Static = Annotated[_T, STATIC_MARKER]

SIZE_MARKER = _SizeMarker()
# Static inputs whose product is the number of elements that the lowering makes, apart from the sizes of other inputs.
# The kernel compares it with the limits before it calls the lowering.
StaticSize = Annotated[int, STATIC_MARKER, SIZE_MARKER]
StaticSizes = Annotated[tuple[int, ...], STATIC_MARKER, SIZE_MARKER]

UNCONVERTED_MARKER = _UnconvertedMarker()
# An input that is passed unchanged if it has symbolic dimensions, even if others are traced.
Unconverted = Annotated[Value, UNCONVERTED_MARKER]
# The same for an argument that is a list.
UnconvertedList = Annotated[list[Value], UNCONVERTED_MARKER]


def is_known(value: Value) -> "TypeIs[np.ndarray]":
  """Returns whether `value` is known while tracing.

  Example:
    >>> is_known(np.float32(1)), is_known(jnp.float32(1))
    (True, False)
  """
  return isinstance(value, (np.ndarray, np.generic))


def dtype_of(value: Value) -> Any:
  """Returns the dtype of an array, and None of other values.

  Graphs have thousands of small ops, and the property of a tracer takes longer than that of its aval.
  """
  return getattr(getattr(value, "aval", value), "dtype", None)


def is_string(value: Value) -> bool:
  """Returns whether `value` is a TensorFlow string tensor: known, with `bytes` as elements."""
  return isinstance(value, np.ndarray) and value.dtype == object and value.size > 0 and isinstance(value.flat[0], bytes)


def is_symbolic(value: Value) -> bool:
  """Returns whether `value` is a known shape vector with at least one symbolic dimension.

  Example:
    >>> (batch,) = jax.export.symbolic_shape("batch")
    >>> is_symbolic(shape_vector((batch, 3))), is_symbolic(shape_vector((2, 3)))
    (True, False)
  """
  return (
    isinstance(value, np.ndarray) and value.dtype == object and any(jax.export.is_symbolic_dim(d) for d in value.flat)
  )


def namespace(*values: Value) -> Namespace:
  """Returns `numpy` if every value is known, else `jax.numpy`.

  A lowering for shape arithmetic calls its functions through this, so that known inputs give known outputs.

  Example:
    >>> namespace(np.int32(1), np.int32(2)).__name__, namespace(np.int32(1), jnp.int32(2)).__name__
    ('numpy', 'jax.numpy')
  """
  return np if all(map(is_known, values)) else jnp


def shape_vector(dims: Iterable[int | Any], dtype: Any = np.int32) -> np.ndarray:
  """Returns the dimensions of a shape as `[rank]` of `dtype`, or of dtype object if a dimension is symbolic.

  Args:
    dims: integers or symbolic dimensions.
    dtype: the integer dtype of the vector if all dimensions are integers.

  Example:
    >>> shape_vector((2, 3))
    array([2, 3], dtype=int32)
  """
  dims = tuple(dims)
  if all(isinstance(d, (int, np.integer)) for d in dims):
    return np.array(dims, dtype)
  vector = np.empty(len(dims), object)
  vector[:] = dims
  return vector


def materialize(value: Value, dtype: Any = np.int32) -> Value:
  """Converts a value with symbolic dimensions to a traced array of `dtype`; returns any other value unchanged.

  Args:
    value: any value. Known values without symbolic dimensions and traced values are returned unchanged.
    dtype: the integer dtype of the array.

  Returns:
    A traced array of the shape of `value`.
  """
  if not is_symbolic(value):
    return value
  return stack_dims(value, dtype)
