"""Conversions to and from 64-bit integers while `jax_enable_x64` is off."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from graftax.ops_jax._core.errors import InvalidInputError, UnsupportedOpError
from graftax.ops_jax._core.known import canonical_dtype
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array, Value, is_known
from graftax.ops_jax.int64_pairs import arithmetic
from graftax.ops_jax.int64_pairs.arithmetic import Halves
from graftax.ops_jax.int64_pairs.pairs import Int64Pair, as_int64_pair, from_halves, split, traced_halves

__all__: list[str] = []

_register = functools.partial(register, int64_pairs="only")


@_register("Cast")
def cast(x: Value, *, SrcT: np.dtype, DstT: np.dtype, Truncate: bool = False) -> Value:
  """Converts `x` to another dtype; `SrcT` or `DstT` is a 64-bit integer.

  Raises:
    UnsupportedOpError: the cast is from floating-point numbers to int64, or from complex numbers to a 64-bit integer.
  """
  if DstT in (np.int64, np.uint64):
    return _cast_to_pair(x, DstT)
  halves = split(x)
  if DstT == np.bool_:
    return (halves[0] | halves[1]) != 0
  if DstT.kind in "iu":
    return _integer_of(jnp.asarray(halves[0]), DstT)
  return arithmetic.to_float32(traced_halves(x), signed=SrcT == np.int64).astype(canonical_dtype(DstT))


def _integer_of(low: Array, dtype: np.dtype) -> Array:
  return jax.lax.bitcast_convert_type(low, np.int32).astype(dtype) if dtype.kind == "i" else low.astype(dtype)


def _cast_to_pair(x: Value, dtype: np.dtype) -> Int64Pair:
  if isinstance(x, Int64Pair) or is_known(x) or not jnp.issubdtype(x.dtype, jnp.inexact):
    return as_int64_pair(x, dtype)
  if dtype == np.int64 or jnp.issubdtype(x.dtype, jnp.complexfloating):
    raise UnsupportedOpError(f"Cast: from {x.dtype} to {dtype} with 64-bit types off; enable them (jax_enable_x64).")
  return from_halves(arithmetic.from_float(x.astype(np.float32)), dtype)


@_register("Bitcast")
def bitcast(input: Value, *, T: np.dtype, type: np.dtype) -> Value:
  """Reinterprets the bits of `input` as another dtype; `T` or `type` is a 64-bit integer.

  Raises:
    UnsupportedOpError: the other dtype is 64 bits wide and not an integer.
  """
  if T in (np.int64, np.uint64):
    return _bits_of(as_int64_pair(input, T), type)
  if T.itemsize >= 8:
    raise UnsupportedOpError(f"Bitcast: from {T} to {type} with 64-bit types off; enable them (jax_enable_x64).")
  if input.ndim == 0 or input.shape[-1] * T.itemsize != 8:
    raise InvalidInputError(
      f"Bitcast: from {T} to {type} the last dimension must be {8 // T.itemsize}; got shape {input.shape}."
    )
  low, high = _halves(jnp.asarray(input))
  return Int64Pair(low, high, type)


def _halves(parts: Array) -> Halves:
  """Joins the parts of 64-bit integers along the last axis into low and high halves."""
  if parts.dtype.itemsize < 4:
    parts = parts.reshape(*parts.shape[:-1], 2, parts.shape[-1] // 2)
  parts = jax.lax.bitcast_convert_type(parts, np.uint32)
  return parts[..., 0], parts[..., 1]


def _bits_of(input: Int64Pair, dtype: np.dtype) -> Value:
  if dtype in (np.int64, np.uint64):
    return Int64Pair(input.low, input.high, dtype)
  if dtype.itemsize == 8:
    raise UnsupportedOpError(
      f"Bitcast: from {input.dtype} to {dtype} with 64-bit types off; enable them (jax_enable_x64)."
    )
  pairs = jax.lax.bitcast_convert_type(jnp.stack([input.low, input.high], axis=-1), dtype)
  return pairs.reshape(*input.shape, 8 // dtype.itemsize)
