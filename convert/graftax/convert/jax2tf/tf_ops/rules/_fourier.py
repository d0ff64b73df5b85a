"""Fourier transforms by matrix products of real and imaginary parts, for consumers that lack them."""

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from graftax.convert.jax2tf.tf_ops.registry import Unsupported

__all__ = ["transform"]

_MAX_DIRECT = 32
_MAX_MATRIX = 2048

_Parts = tuple[jax.Array, jax.Array]


def transform(kind: str, lengths: Sequence[int], real: jax.Array, imag: jax.Array | None = None) -> list[jax.Array]:
  """Returns real and imaginary parts of a transform along the last axes, or the real numbers of an IRFFT.

  Args:
    kind: "FFT", "IFFT", "RFFT" or "IRFFT".
    lengths: sizes along the axes, before an RFFT and after an IRFFT.
    real: real parts.
    imag: imaginary parts; None for an RFFT.

  Raises:
    Unsupported: the matrices would be too large.
  """
  rank = len(lengths)
  parts = (real, jnp.zeros_like(real) if imag is None else imag)
  others = range(-rank, -1)
  if kind in ("FFT", "RFFT"):
    parts = _along(parts, -1, lengths[-1], -1)
    if kind == "RFFT":
      parts = (parts[0][..., : lengths[-1] // 2 + 1], parts[1][..., : lengths[-1] // 2 + 1])
    for axis in others:
      parts = _along(parts, axis, lengths[axis], -1)
    return list(parts)
  for axis in others:
    parts = _along(parts, axis, lengths[axis], 1)
  if kind == "IRFFT":
    parts = _whole(parts, lengths[-1])
  real, imag = _along(parts, -1, lengths[-1], 1)
  scale = np.asarray(1 / math.prod(lengths), real.dtype)
  return [real * scale] if kind == "IRFFT" else [real * scale, imag * scale]


def _whole(parts: _Parts, length: int) -> _Parts:
  """Returns all frequencies of real numbers from half of them. Imaginary parts that must be zero have no effect."""
  real, imag = parts
  mirrored = slice(1, (length + 1) // 2)
  is_free = np.arange(length // 2 + 1) * 2 % length != 0
  imag = jnp.where(is_free, imag, 0)
  return (
    jnp.concatenate([real, real[..., mirrored][..., ::-1]], -1),
    jnp.concatenate([imag, -imag[..., mirrored][..., ::-1]], -1),
  )


def _along(parts: _Parts, axis: int, length: int, sign: int) -> _Parts:
  """Returns a transform along one axis, without the scale of an inverse one."""
  first, second = _factors(length)
  if axis != -1:
    parts = (jnp.moveaxis(parts[0], axis, -1), jnp.moveaxis(parts[1], axis, -1))
  if first == 1:
    parts = _product(parts, _powers(length, length, length, sign))
  else:
    # Number `second * i + j` goes to frequency `k + first * l`: transforms along `i`, a factor, transforms along `j`.
    shape = parts[0].shape[:-1]
    parts = _reshaped(parts, (*shape, first, second))
    parts = _swapped(_product(_swapped(parts), _powers(first, first, first, sign)))
    parts = _scaled(parts, _powers(length, first, second, sign))
    parts = _product(parts, _powers(second, second, second, sign))
    parts = _reshaped(_swapped(parts), (*shape, length))
  if axis != -1:
    parts = (jnp.moveaxis(parts[0], -1, axis), jnp.moveaxis(parts[1], -1, axis))
  return parts


def _factors(length: int) -> tuple[int, int]:
  """Returns two factors, the first one 1 if one matrix is used.

  Raises:
    Unsupported: the second factor is large, as that of a large prime number is.
  """
  root = math.isqrt(length)
  first = 1 if length <= _MAX_DIRECT else max(n for n in range(1, root + 1) if length % n == 0)
  if length // first > _MAX_MATRIX:
    raise Unsupported(f"a Fourier transform of length {length} by products of matrices of {length // first} rows")
  return first, length // first


def _powers(order: int, rows: int, columns: int, sign: int) -> _Parts:
  """Returns the powers `i * j` of the root of unity of an order."""
  exponents = np.outer(np.arange(rows), np.arange(columns)) % order
  angles = sign * 2 * np.pi * exponents / order
  return np.cos(angles), np.sin(angles)  # type: ignore[return-value]  # JAX takes arrays of numpy


def _product(parts: _Parts, matrix: _Parts) -> _Parts:
  (a, b), (c, d) = parts, _as(matrix, parts)
  return a @ c - b @ d, a @ d + b @ c


def _scaled(parts: _Parts, factors: _Parts) -> _Parts:
  (a, b), (c, d) = parts, _as(factors, parts)
  return a * c - b * d, a * d + b * c


def _as(numbers: _Parts, parts: _Parts) -> _Parts:
  dtype = parts[0].dtype
  return jnp.asarray(numbers[0], dtype), jnp.asarray(numbers[1], dtype)


def _swapped(parts: _Parts) -> _Parts:
  return jnp.swapaxes(parts[0], -1, -2), jnp.swapaxes(parts[1], -1, -2)


def _reshaped(parts: _Parts, shape: tuple[int, ...]) -> _Parts:
  return parts[0].reshape(shape), parts[1].reshape(shape)
