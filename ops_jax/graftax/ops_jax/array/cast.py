"""Conversion between dtypes, by value and by bits: Cast, Bitcast."""

import jax.numpy as jnp
import numpy as np
from jax import lax

from graftax.ops_jax._core.errors import InvalidInputError
from graftax.ops_jax._core.integer_facts import NO_FACTS, IntegerFacts
from graftax.ops_jax._core.known import canonical_dtype
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array, is_known, is_symbolic, materialize

__all__ = ["bitcast", "cast"]


@register("Cast", ignores=("SrcT",), symbolic=True)
def cast(x: Array, *, DstT: np.dtype, Truncate: bool = False, facts: IntegerFacts = NO_FACTS) -> Array:
  """Converts `x` to another dtype, element by element.

  Source op: `tf.raw_ops.Cast`.

  Args:
    x: any shape and numeric or boolean dtype.
    DstT: dtype of the result.
    Truncate: whether to drop the low bits of a floating-point number instead of rounding to the nearest.
    facts: what is known of traced integers.

  Returns:
    Same shape. Floating point to integer rounds towards 0; values out of range give the result of TensorFlow's CPU
    kernel (the smallest int32 or int64; narrower integers keep its low bits). Complex to real drops the imaginary part.

  Differs from TF: for 8-bit, 16-bit and uint32 results TensorFlow itself gives different numbers for inputs out of
    range depending on the position in the vector; ours are those of its scalar path.
  """
  if x.dtype == DstT:
    return x
  if is_symbolic(x):
    if DstT in (np.int32, np.int64):
      return x
    x = materialize(x)
  if is_known(x):
    return _cast_known(np.asarray(x), DstT, Truncate)
  return facts.cast(_cast_traced(x, canonical_dtype(DstT), Truncate), x)


def _cast_known(x: np.ndarray, dtype: np.dtype, truncate: bool) -> Array:
  is_plain = x.dtype.kind in "biu" or (not jnp.issubdtype(dtype, jnp.integer) and not truncate)
  if not is_plain:
    if jnp.issubdtype(dtype, jnp.integer) and np.all(np.isfinite(x)) and np.all(np.abs(x) < 2**7):
      return x.real.astype(dtype) if dtype.kind == "i" else x.real.astype(np.int8).astype(dtype)
    return _cast_traced(jnp.asarray(x), canonical_dtype(dtype), truncate)
  if x.dtype.kind == "c" and dtype.kind != "c":
    x = x.real
  with np.errstate(all="ignore"):
    return x.astype(dtype)


def _cast_traced(x: Array, dtype: np.dtype, truncate: bool) -> Array:
  if jnp.issubdtype(x.dtype, jnp.complexfloating) and not jnp.issubdtype(dtype, jnp.complexfloating):
    x = jnp.real(x)
  if jnp.issubdtype(x.dtype, jnp.floating):
    if jnp.issubdtype(dtype, jnp.integer):
      return _float_to_integer(x, dtype)
    if truncate and jnp.issubdtype(dtype, jnp.floating) and jnp.finfo(dtype).nmant < jnp.finfo(x.dtype).nmant:
      x = _drop_low_bits(x, dtype)
  if dtype.kind == "b":
    return x != 0
  return lax.convert_element_type(x, dtype)


def _float_to_integer(x: Array, dtype: np.dtype) -> Array:
  info = jnp.iinfo(dtype)
  if info.bits < 32:
    return _float_to_integer(x, np.dtype(np.int32)).astype(dtype)
  if info.min == 0:
    return _float_to_unsigned(x, dtype)
  in_range = (x >= _power_of_two(x, info.bits - 1, -1)) & (x < _power_of_two(x, info.bits - 1))
  return jnp.where(in_range, lax.convert_element_type(x, dtype), jnp.asarray(info.min, dtype))


def _float_to_unsigned(x: Array, dtype: np.dtype) -> Array:
  bits = jnp.iinfo(dtype).bits
  signed = np.dtype(f"int{bits}")
  overflow = jnp.asarray(0 if bits == 32 else 1 << 63, dtype)
  in_range = (x >= _power_of_two(x, bits - 1, -1)) & (x < _power_of_two(x, bits))
  negative = lax.bitcast_convert_type(lax.convert_element_type(x, signed), dtype)
  return jnp.where(in_range, jnp.where(x < 0, negative, lax.convert_element_type(x, dtype)), overflow)


def _power_of_two(x: Array, exponent: int, sign: int = 1) -> Array:
  # If the type does not reach 2**exponent, the bound is infinite, and only infinities and NaN are out of range.
  is_reached = exponent < jnp.finfo(x.dtype).maxexp
  return jnp.asarray(sign * (2.0**exponent if is_reached else np.inf), x.dtype)


def _drop_low_bits(x: Array, dtype: np.dtype) -> Array:
  num_dropped = jnp.finfo(x.dtype).nmant - jnp.finfo(dtype).nmant
  bits = lax.bitcast_convert_type(x, np.dtype(f"uint{jnp.finfo(x.dtype).bits}"))
  mask = jnp.asarray(~((1 << num_dropped) - 1) & ((1 << jnp.finfo(x.dtype).bits) - 1), bits.dtype)
  return lax.bitcast_convert_type(bits & mask, x.dtype)


@register("Bitcast", ignores=("T",))
def bitcast(input: Array, *, type: np.dtype) -> Array:
  """Reads the same bits as another dtype.

  Source op: `tf.raw_ops.Bitcast`.

  Args:
    input: any shape.
    type: dtype of the result.

  Returns:
    Same shape for dtypes of one size. A narrower `type` adds a last dimension of the ratio of sizes; a wider one
    removes it.

  Raises:
    InvalidInputError: for a wider `type`, the last dimension is not the ratio of sizes.

  Differs from TF: with 64-bit types switched off, the bits are those of the 32-bit type that JAX holds instead.
  """
  ratio = type.itemsize / input.dtype.itemsize
  if ratio > 1 and (not input.ndim or input.shape[-1] != ratio):
    raise InvalidInputError(
      f"Bitcast: from {input.dtype} to {type} the last dimension must be {int(ratio)}; got shape {input.shape}."
    )
  if is_known(input):
    return _bitcast_known(np.asarray(input), type)
  return _bitcast_traced(input, canonical_dtype(type))


def _bitcast_known(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
  x = np.asarray(x, order="C")
  if dtype.itemsize == x.dtype.itemsize:
    return x.view(dtype)
  if dtype.itemsize > x.dtype.itemsize:
    return x.view(dtype)[..., 0]
  return x[..., None].view(dtype)


def _bitcast_traced(x: Array, dtype: np.dtype) -> Array:
  if x.dtype == dtype:
    return x
  if jnp.issubdtype(x.dtype, jnp.complexfloating):
    return _bitcast_from_complex(x, dtype)
  if jnp.issubdtype(dtype, jnp.complexfloating):
    return _bitcast_to_complex(x, dtype)
  return lax.bitcast_convert_type(x, dtype)


def _bitcast_from_complex(x: Array, dtype: np.dtype) -> Array:
  # JAX cannot bitcast complex numbers, so they are treated as pairs of reals.
  pairs = jnp.stack([jnp.real(x), jnp.imag(x)], axis=-1)
  if dtype.itemsize > x.dtype.itemsize:
    pairs = pairs.reshape(*x.shape[:-1], -1)
  result = _bitcast_traced(pairs, dtype)
  return result.reshape(*x.shape, -1) if dtype.itemsize < pairs.dtype.itemsize else result


def _bitcast_to_complex(x: Array, dtype: np.dtype) -> Array:
  real = np.zeros((), dtype).real.dtype
  if x.dtype.itemsize < real.itemsize:
    x = x.reshape(*x.shape[:-1], 2, -1)
  pairs = _bitcast_traced(x, real)
  return lax.complex(pairs[..., 0], pairs[..., 1])
