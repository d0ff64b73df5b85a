"""Values during the evaluation of a module: known or traced arrays, symbolic shapes, and tokens."""

import dataclasses
from typing import Any

import numpy as np
from jax import lax

from graftax.xla_call_module.lax_extras.symbolic_dims import stack_dims

__all__ = [
  "TOKEN",
  "Known",
  "Recovered",
  "SymbolicArray",
  "Token",
  "as_dims",
  "is_64_bit",
  "is_known",
  "known_int",
  "materialize",
  "to_known",
]


class Token:
  """Placeholder for every `!stablehlo.token`. It has no contents, because JAX orders the effects of a lifted module."""

  def __repr__(self) -> str:
    return "TOKEN"


TOKEN = Token()


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class SymbolicArray:
  """A known integer array with symbolic entries: `dims` has dtype object, `dtype` is the declared dtype."""

  dims: np.ndarray
  dtype: np.dtype

  @property
  def shape(self) -> tuple[int, ...]:
    return self.dims.shape

  @property
  def ndim(self) -> int:
    return self.dims.ndim


Known = np.ndarray | SymbolicArray


def is_known(value: object) -> bool:
  """Returns whether the value does not depend on traced data."""
  return isinstance(value, (np.ndarray, SymbolicArray))


def is_64_bit(dtype: np.dtype) -> bool:
  """Returns whether JAX supports a dtype only with `jax_enable_x64`."""
  return dtype.itemsize == 16 or (dtype.itemsize == 8 and dtype.kind in "iuf")


def to_known(dims: np.ndarray, dtype: np.dtype) -> Known:
  """Converts an object array to an integer array if no entry is symbolic, else to a `SymbolicArray`."""
  if all(isinstance(dim, (int, np.integer, bool, np.bool_)) for dim in dims.flat):
    return dims.astype(dtype)
  return SymbolicArray(dims, dtype)


def materialize(value: object) -> Any:
  """Returns the value as an operand of a JAX op; a splat becomes a broadcast scalar instead of a full constant."""
  if isinstance(value, np.ndarray):
    if value.size > 1 and not any(value.strides):
      return lax.full(value.shape, value[(0,) * value.ndim], value.dtype)
    return value
  if isinstance(value, SymbolicArray):
    return stack_dims(value.dims, value.dtype)
  return value


def as_dims(value: object) -> tuple[int, ...] | None:
  """Returns the entries of a known integer array (ints or symbolic dimensions), or None if the value is traced."""
  if isinstance(value, SymbolicArray):
    return tuple(value.dims.reshape(-1))
  if isinstance(value, np.ndarray):
    return tuple(int(dim) for dim in value.reshape(-1))
  return None


def known_int(value: object) -> int | None:
  """Returns the value of a known integer scalar, or None for other values."""
  if isinstance(value, np.ndarray) and value.size == 1 and value.dtype.kind in "iub":
    return int(value.reshape(-1)[0])
  return None


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Recovered:
  """Results of an op, and values of later ops (by number) that are computed with it as one recognized pattern."""

  results: tuple[Any, ...]
  others: dict[int, Any]
