"""Discrete Fourier transforms: FFT, IFFT, RFFT and IRFFT over one, two or three axes, and their ND forms."""

import math
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp

from graftax.ops_jax._core.errors import InvalidInputError
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array, Static, StaticSizes

__all__ = ["fftnd", "ifftnd", "irfftnd", "rfftnd"]


def _complex_transform(num_axes: int, *, inverse: bool) -> Callable[..., Array]:
  def transform(input: Array) -> Array:
    """Returns the Fourier transform of the last axes; the inverse is divided by their lengths.

    Source ops: `tf.raw_ops.FFT`, `FFT2D`, `FFT3D`, `IFFT`, `IFFT2D`, `IFFT3D` and their `Batch` forms.

    Args:
      input: `[..., *lengths]`, complex64 or complex128.

    Returns:
      Shape and dtype of `input`.

    Raises:
      InvalidInputError: `input` has fewer axes than the transform.
    """
    return _complex(input, num_axes, inverse=inverse)

  return transform


def _real_transform(axes: tuple[int, ...]) -> Callable[..., Array]:
  def transform(input: Array, fft_length: StaticSizes) -> Array:
    """Returns the Fourier transform of the last axes of real numbers, without the half that mirrors the other.

    Source ops: `tf.raw_ops.RFFT`, `RFFT2D` and `RFFT3D`.

    Args:
      input: `[..., *lengths]`, float32 or float64.
      fft_length: one entry per axis; the axes are cut or padded with zeros to it. Must be concrete.

    Returns:
      `[..., *fft_length[:-1], fft_length[-1] // 2 + 1]`, complex64 or complex128.

    Raises:
      InvalidInputError: `input` has fewer axes than the transform.
    """
    return _real(input, fft_length, axes)

  return transform


def _real_inverse_transform(axes: tuple[int, ...]) -> Callable[..., Array]:
  def transform(input: Array, fft_length: StaticSizes) -> Array:
    """Returns the real inverse Fourier transform of the last axes, from one half of a mirrored spectrum.

    Source ops: `tf.raw_ops.IRFFT`, `IRFFT2D` and `IRFFT3D`.

    Args:
      input: `[..., *lengths]`, complex64 or complex128.
      fft_length: one entry per axis, lengths of the result. Must be concrete.

    Returns:
      `[..., *fft_length]`, float32 or float64.

    Raises:
      InvalidInputError: `input` has fewer axes than the transform.
    """
    return _real_inverse(input, fft_length, axes)

  return transform


for _num_axes, _suffix in ((1, ""), (2, "2D"), (3, "3D")):
  _axes = tuple(range(-_num_axes, 0))
  for _name, _inverse in ((f"FFT{_suffix}", False), (f"IFFT{_suffix}", True)):
    register(_name, f"Batch{_name}", ignores=("Tcomplex",))(_complex_transform(_num_axes, inverse=_inverse))
  register(f"RFFT{_suffix}", ignores=("Treal", "Tcomplex"))(_real_transform(_axes))
  register(f"IRFFT{_suffix}", ignores=("Treal", "Tcomplex"))(_real_inverse_transform(_axes))


@register("FFTND", ignores=("Tcomplex",))
def fftnd(input: Array, fft_length: StaticSizes, axes: Static[tuple[int, ...]]) -> Array:
  """Computes the Fourier transform of some axes.

  Source op: `tf.raw_ops.FFTND`.

  Args:
    input: complex64 or complex128.
    fft_length: length of each transformed axis; an axis is cut or padded with zeros to it. Must be concrete.
    axes: the axes to transform. Must be concrete.

  Returns:
    `input` with `fft_length` in the axes; same dtype.
  """
  return _along(jnp.fft.fft, input, fft_length, axes)


@register("IFFTND", ignores=("Tcomplex",))
def ifftnd(input: Array, fft_length: StaticSizes, axes: Static[tuple[int, ...]]) -> Array:
  """Computes the inverse Fourier transform of some axes, divided by their lengths.

  Source op: `tf.raw_ops.IFFTND`.

  Args:
    input: complex64 or complex128.
    fft_length: length of each transformed axis; an axis is cut or padded with zeros to it. Must be concrete.
    axes: the axes to transform. Must be concrete.

  Returns:
    `input` with `fft_length` in the axes; same dtype.
  """
  return _along(jnp.fft.ifft, input, fft_length, axes)


@register("RFFTND", ignores=("Treal", "Tcomplex"))
def rfftnd(input: Array, fft_length: StaticSizes, axes: Static[tuple[int, ...]]) -> Array:
  """Computes the Fourier transform of some axes of real numbers, without the mirrored half of the last of them.

  Source op: `tf.raw_ops.RFFTND`.

  Args:
    input: float32 or float64.
    fft_length: length of each transformed axis. Must be concrete.
    axes: the axes to transform. Must be concrete.

  Returns:
    `input` with `fft_length` in the axes, the last of them `fft_length // 2 + 1`; complex64 or complex128.
  """
  return _real(input, fft_length, axes)


@register("IRFFTND", ignores=("Treal", "Tcomplex"))
def irfftnd(input: Array, fft_length: StaticSizes, axes: Static[tuple[int, ...]]) -> Array:
  """Computes the real inverse Fourier transform of some axes, from one half of a spectrum mirrored in the last of them.

  Source op: `tf.raw_ops.IRFFTND`.

  Args:
    input: complex64 or complex128.
    fft_length: lengths of the result in the axes. Must be concrete.
    axes: the axes to transform. Must be concrete.

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


def _along(transform: Callable[..., jax.Array], input: Array, lengths: Sequence[int], axes: Sequence[int]) -> Array:
  output = jnp.asarray(input)
  for length, axis in zip(lengths, axes, strict=True):
    if length == 0 or math.prod(output.shape) == 0:
      output = _empty(transform, output, length, axis)
    else:
      output = transform(output, n=length, axis=axis)
  return output


def _empty(transform: Callable[..., jax.Array], input: Array, length: int, axis: int) -> jax.Array:
  """Returns zeros of the shape that the transform of an empty array has."""
  shape = list(input.shape)
  shape[axis] = length // 2 + 1 if transform is jnp.fft.rfft and length else length
  real = jnp.zeros((), input.dtype).real.dtype
  dtype = real if transform is jnp.fft.irfft else jnp.result_type(real, jnp.complex64)
  return jnp.zeros(shape, dtype)


def _check_axes(input: Array, axes: Sequence[int]) -> None:
  if any(not -input.ndim <= axis < input.ndim for axis in axes):
    raise InvalidInputError(f"FFT: shape {input.shape} has no axes {tuple(axes)!r}.")
