"""What a value may be while a module is evaluated: known, traced, a symbolic shape, or a token."""

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
  """Stands for every `!stablehlo.token`: a lifted module orders its effects as JAX does, so nothing is carried."""

  def __repr__(self) -> str:
    return "TOKEN"


TOKEN = Token()


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class SymbolicArray:
  """An integer array known up to symbolic dimensions: `dims` has dtype object, `dtype` is what the module declares."""

  dims: np.ndarray
  dtype: np.dtype

  @property
  def shape(self) -> tuple[int, ...]:
    return self.dims.shape

  @property
  def ndim(self) -> int:
    return self.dims.ndim


Known = np.ndarray | SymbolicArray


def is_known(value: Any) -> bool:
  """Whether the value does not depend on traced data."""
  return isinstance(value, (np.ndarray, SymbolicArray))


def is_64_bit(dtype: np.dtype) -> bool:
  """Whether JAX has a dtype only with `jax_enable_x64`."""
  return dtype.itemsize == 16 or (dtype.itemsize == 8 and dtype.kind in "iuf")


def to_known(dims: np.ndarray, dtype: np.dtype) -> Known:
  """An object array as a plain integer array where no entry is symbolic."""
  if all(isinstance(dim, (int, np.integer, bool, np.bool_)) for dim in dims.flat):
    return dims.astype(dtype)
  return SymbolicArray(dims, dtype)


def materialize(value: Any) -> Any:
  """The value as an operand of a JAX op; a splat becomes a broadcast scalar instead of a full constant."""
  if isinstance(value, np.ndarray):
    if value.size > 1 and not any(value.strides):
      return lax.full(value.shape, value[(0,) * value.ndim], value.dtype)
    return value
  if isinstance(value, SymbolicArray):
    return stack_dims(value.dims, value.dtype)
  return value


def as_dims(value: Any) -> tuple[Any, ...] | None:
  """The entries of a known 1-D integer array (ints or symbolic dimensions), or None where the value is traced."""
  if isinstance(value, SymbolicArray):
    return tuple(value.dims.reshape(-1))
  if isinstance(value, np.ndarray):
    return tuple(int(dim) for dim in value.reshape(-1))
  return None


def known_int(value: Any) -> int | None:
  """The value of a known integer scalar, else None."""
  if isinstance(value, np.ndarray) and value.size == 1 and value.dtype.kind in "iub":
    return int(value.reshape(-1)[0])
  return None


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Recovered:
  """Results of an op together with values (by number) of later ops that a recognised pattern produced with them."""

  results: tuple[Any, ...]
  others: dict[int, Any]
