"""Fourier transforms and what is built on them."""

import jax
import jax.numpy as jnp

from graftax.testing.jax_functions.case import SHARED, Case, c64, c128, f32, f64

_X = (f32(3, 6),)
_B = ("b, _",)

CASES = (
  Case("fft", lambda x: jnp.fft.fft(x), (c64(3, 6),), _B),
  Case("fft_of_real", SHARED["fft"], _X, _B),
  Case("ifft", lambda x: jnp.fft.ifft(x), (c64(3, 6),), _B),
  Case("rfft_irfft", SHARED["rfft_irfft"], _X, _B),
  Case("irfft_odd", lambda x: jnp.fft.irfft(x, 7), (c64(3, 4),), _B),
  Case("hfft", lambda x: jnp.fft.hfft(x, 6), (c64(3, 4),), _B),
  Case("fft2", lambda x: jnp.fft.fft2(x), (c64(2, 4, 5),), ("b, ...",)),
  Case("rfftn", lambda x: jnp.fft.rfftn(x, axes=(1, 2)), (f32(2, 4, 5),), ("b, ...",)),
  Case("fftshift", lambda x: jnp.fft.fftshift(x, 1) * jnp.fft.fftfreq(6), _X, _B),
  Case("fft_f64", lambda x: jnp.fft.rfft(x), (f64(3, 6),), _B),
  Case("fft_c128", lambda x: jnp.fft.fft(x), (c128(3, 6),), _B),
  Case("fftconvolve", lambda x, k: jax.scipy.signal.fftconvolve(x, k, mode="same", axes=(1,)), (f32(3, 8), f32(3, 3))),
  Case("stft", lambda x: jnp.abs(jax.scipy.signal.stft(x, nperseg=8)[2]) ** 2, (f32(2, 32),)),
  Case("dct", lambda x: jax.scipy.fft.dct(x, norm="ortho"), _X, _B),
)
