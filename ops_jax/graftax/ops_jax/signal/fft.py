"""Discrete Fourier transforms."""

import math
from collections.abc import Callable, Sequence

import jax.numpy as jnp

from graftax.ops_jax._core.errors import InvalidInputError
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array, Static

__all__ = [
  "fft",
  "fft2d",
  "fft3d",
  "fftnd",
  "ifft",
  "ifft2d",
  "ifft3d",
  "ifftnd",
  "irfft",
  "irfft2d",
  "irfft3d",
  "irfftnd",
  "rfft",
  "rfft2d",
  "rfft3d",
  "rfftnd",
]


@register("FFT", "BatchFFT", ignores=("Tcomplex",))
def fft(input: Array) -> Array:
  """Fourier transform of the last axis.

  Source op: `tf.raw_ops.FFT`.

  Args:
    input: `[..., n]`, complex64 or complex128.

  Returns:
    Shape and dtype of `input`.
  """
  return _complex(input, 1, inverse=False)


@register("IFFT", "BatchIFFT", ignores=("Tcomplex",))
def ifft(input: Array) -> Array:
  """Inverse Fourier transform of the last axis, divided by its length.

  Source op: `tf.raw_ops.IFFT`.

  Args:
    input: `[..., n]`, complex64 or complex128.

  Returns:
    Shape and dtype of `input`.
  """
  return _complex(input, 1, inverse=True)


@register("FFT2D", "BatchFFT2D", ignores=("Tcomplex",))
def fft2d(input: Array) -> Array:
  """Fourier transform of the last two axes.

  Source op: `tf.raw_ops.FFT2D`.

  Args:
    input: `[..., m, n]`, complex64 or complex128.

  Returns:
    Shape and dtype of `input`.
  """
  return _complex(input, 2, inverse=False)


@register("IFFT2D", "BatchIFFT2D", ignores=("Tcomplex",))
def ifft2d(input: Array) -> Array:
  """Inverse Fourier transform of the last two axes, divided by their lengths.

  Source op: `tf.raw_ops.IFFT2D`.

  Args:
    input: `[..., m, n]`, complex64 or complex128.

  Returns:
    Shape and dtype of `input`.
  """
  return _complex(input, 2, inverse=True)


@register("FFT3D", "BatchFFT3D", ignores=("Tcomplex",))
def fft3d(input: Array) -> Array:
  """Fourier transform of the last three axes.

  Source op: `tf.raw_ops.FFT3D`.

  Args:
    input: `[..., l, m, n]`, complex64 or complex128.

  Returns:
    Shape and dtype of `input`.
  """
  return _complex(input, 3, inverse=False)


@register("IFFT3D", "BatchIFFT3D", ignores=("Tcomplex",))
def ifft3d(input: Array) -> Array:
  """Inverse Fourier transform of the last three axes, divided by their lengths.

  Source op: `tf.raw_ops.IFFT3D`.

  Args:
    input: `[..., l, m, n]`, complex64 or complex128.

  Returns:
    Shape and dtype of `input`.
  """
  return _complex(input, 3, inverse=True)


@register("FFTND", ignores=("Tcomplex",))
def fftnd(input: Array, fft_length: Static[tuple[int, ...]], axes: Static[tuple[int, ...]]) -> Array:
  """Fourier transform of some axes.

  Source op: `tf.raw_ops.FFTND`.

  Args:
    input: complex64 or complex128.
    fft_length: length of each transformed axis; longer ones are cut, shorter ones padded with zeros.
    axes: the axes.

  Returns:
    `input` with `fft_length` in the axes; same dtype.
  """
  return _along(jnp.fft.fft, input, fft_length, axes)


@register("IFFTND", ignores=("Tcomplex",))
def ifftnd(input: Array, fft_length: Static[tuple[int, ...]], axes: Static[tuple[int, ...]]) -> Array:
  """Inverse Fourier transform of some axes, divided by their lengths.

  Source op: `tf.raw_ops.IFFTND`.

  Args:
    input: complex64 or complex128.
    fft_length: length of each transformed axis; longer ones are cut, shorter ones padded with zeros.
    axes: the axes.

  Returns:
    `input` with `fft_length` in the axes; same dtype.
  """
  return _along(jnp.fft.ifft, input, fft_length, axes)


@register("RFFT", ignores=("Treal", "Tcomplex"))
def rfft(input: Array, fft_length: Static[tuple[int, ...]]) -> Array:
  """Fourier transform of the last axis of real numbers, without the half that mirrors the other.

  Source op: `tf.raw_ops.RFFT`.

  Args:
    input: `[..., n]`, float32 or float64.
    fft_length: `[1]`; the axis is cut or padded with zeros to it.

  Returns:
    `[..., fft_length // 2 + 1]`, complex64 or complex128.
  """
  return _real(input, fft_length, (-1,))


@register("RFFT2D", ignores=("Treal", "Tcomplex"))
def rfft2d(input: Array, fft_length: Static[tuple[int, ...]]) -> Array:
  """Fourier transform of the last two axes of real numbers, without the half that mirrors the other.

  Source op: `tf.raw_ops.RFFT2D`.

  Args:
    input: `[..., m, n]`, float32 or float64.
    fft_length: `[2]`; the axes are cut or padded with zeros to it.

  Returns:
    `[..., fft_length[0], fft_length[1] // 2 + 1]`, complex64 or complex128.
  """
  return _real(input, fft_length, (-2, -1))


@register("RFFT3D", ignores=("Treal", "Tcomplex"))
def rfft3d(input: Array, fft_length: Static[tuple[int, ...]]) -> Array:
  """Fourier transform of the last three axes of real numbers, without the half that mirrors the other.

  Source op: `tf.raw_ops.RFFT3D`.

  Args:
    input: `[..., l, m, n]`, float32 or float64.
    fft_length: `[3]`; the axes are cut or padded with zeros to it.

  Returns:
    `[..., fft_length[0], fft_length[1], fft_length[2] // 2 + 1]`, complex64 or complex128.
  """
  return _real(input, fft_length, (-3, -2, -1))


@register("RFFTND", ignores=("Treal", "Tcomplex"))
def rfftnd(input: Array, fft_length: Static[tuple[int, ...]], axes: Static[tuple[int, ...]]) -> Array:
  """Fourier transform of some axes of real numbers, without the half that mirrors the other in the last of them.

  Source op: `tf.raw_ops.RFFTND`.

  Args:
    input: float32 or float64.
    fft_length: length of each transformed axis.
    axes: the axes.

  Returns:
    `input` with `fft_length` in the axes, the last of them `fft_length // 2 + 1`; complex64 or complex128.
  """
  return _real(input, fft_length, axes)


@register("IRFFT", ignores=("Treal", "Tcomplex"))
def irfft(input: Array, fft_length: Static[tuple[int, ...]]) -> Array:
  """Real inverse Fourier transform of the last axis, from one half of a mirrored spectrum.

  Source op: `tf.raw_ops.IRFFT`.

  Args:
    input: `[..., n]`, complex64 or complex128.
    fft_length: `[1]`, length of the result.

  Returns:
    `[..., fft_length]`, float32 or float64.
  """
  return _real_inverse(input, fft_length, (-1,))


@register("IRFFT2D", ignores=("Treal", "Tcomplex"))
def irfft2d(input: Array, fft_length: Static[tuple[int, ...]]) -> Array:
  """Real inverse Fourier transform of the last two axes, from one half of a mirrored spectrum.

  Source op: `tf.raw_ops.IRFFT2D`.

  Args:
    input: `[..., m, n]`, complex64 or complex128.
    fft_length: `[2]`, lengths of the result.

  Returns:
    `[..., *fft_length]`, float32 or float64.
  """
  return _real_inverse(input, fft_length, (-2, -1))


@register("IRFFT3D", ignores=("Treal", "Tcomplex"))
def irfft3d(input: Array, fft_length: Static[tuple[int, ...]]) -> Array:
  """Real inverse Fourier transform of the last three axes, from one half of a mirrored spectrum.

  Source op: `tf.raw_ops.IRFFT3D`.

  Args:
    input: `[..., l, m, n]`, complex64 or complex128.
    fft_length: `[3]`, lengths of the result.

  Returns:
    `[..., *fft_length]`, float32 or float64.
  """
  return _real_inverse(input, fft_length, (-3, -2, -1))


@register("IRFFTND", ignores=("Treal", "Tcomplex"))
def irfftnd(input: Array, fft_length: Static[tuple[int, ...]], axes: Static[tuple[int, ...]]) -> Array:
  """Real inverse Fourier transform of some axes, from one half of a mirrored spectrum in the last of them.

  Source op: `tf.raw_ops.IRFFTND`.

  Args:
    input: complex64 or complex128.
    fft_length: lengths of the result in the axes.
    axes: the axes.

  Returns:
    `input` with `fft_length` in the axes; float32 or float64.
  """
  return _real_inverse(input, fft_length, axes)


def _complex(input: Array, num_axes: int, *, inverse: bool) -> Array:
  input = jnp.asarray(input)
  axes = tuple(range(-num_axes, 0))
  _check_axes(input, axes)
  return _along(jnp.fft.ifft if inverse else jnp.fft.fft, input, input.shape[input.ndim - num_axes :], axes)


def _real(input: Array, fft_length: Sequence[int], axes: Sequence[int]) -> Array:
  input = jnp.asarray(input)
  _check_axes(input, axes)
  half = _along(jnp.fft.rfft, input, fft_length[-1:], axes[-1:])
  return _along(jnp.fft.fft, half, fft_length[:-1], axes[:-1])


def _real_inverse(input: Array, fft_length: Sequence[int], axes: Sequence[int]) -> Array:
  input = jnp.asarray(input)
  _check_axes(input, axes)
  half = _along(jnp.fft.ifft, input, fft_length[:-1], axes[:-1])
  return _along(jnp.fft.irfft, half, fft_length[-1:], axes[-1:])


def _along(transform: Callable[..., Array], input: Array, lengths: Sequence[int], axes: Sequence[int]) -> Array:
  output = jnp.asarray(input)
  for length, axis in zip(lengths, axes, strict=True):
    if length == 0 or math.prod(output.shape) == 0:
      output = _empty(transform, output, length, axis)
    else:
      output = transform(output, n=length, axis=axis)
  return output


def _empty(transform: Callable[..., Array], input: Array, length: int, axis: int) -> Array:
  """Zeros of the shape that the transform of nothing has."""
  shape = list(input.shape)
  shape[axis] = length // 2 + 1 if transform is jnp.fft.rfft and length else length
  real = jnp.zeros((), input.dtype).real.dtype
  dtype = real if transform is jnp.fft.irfft else jnp.result_type(real, jnp.complex64)
  return jnp.zeros(shape, dtype)


def _check_axes(input: Array, axes: Sequence[int]) -> None:
  if any(not -input.ndim <= axis < input.ndim for axis in axes):
    raise InvalidInputError(f"FFT: shape {input.shape} has no axes {tuple(axes)!r}.")
