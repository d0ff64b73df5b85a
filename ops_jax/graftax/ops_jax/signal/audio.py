"""Audio features: AudioSpectrogram, Mfcc."""

import jax.numpy as jnp
import numpy as np

from graftax.ops_jax._core.errors import InvalidInputError
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array, Static

__all__ = ["audio_spectrogram", "mfcc"]

_QUIETEST = 1e-12


@register("AudioSpectrogram")
def audio_spectrogram(input: Array, *, window_size: int, stride: int, magnitude_squared: bool = False) -> Array:
  """Computes the magnitudes of the spectrum in overlapping windows of audio samples.

  Source op: `tf.raw_ops.AudioSpectrogram`.

  Args:
    input: `[samples, channels]`, float32.
    window_size: samples in a window, at least 2. Windows are weighted by Hann's function.
    stride: samples from one window to the next, at least 1.
    magnitude_squared: leave out the square root.

  Returns:
    `[channels, windows, bins]`, float32; the bins are half the next power of two of `window_size`, and one.

  Raises:
    InvalidInputError: the input has another rank.

  Differs from TF: sums in float32, TensorFlow in float64; within 1e-5 of the largest bin.
  """
  input = jnp.asarray(input)
  if input.ndim != 2:
    raise InvalidInputError(f"AudioSpectrogram: shape {input.shape}; expected [samples, channels].")
  fft_length = 1 << (window_size - 1).bit_length()
  num_windows = max(0, 1 + (input.shape[0] - window_size) // stride)
  places = np.arange(num_windows)[:, None] * stride + np.arange(window_size)
  weights = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(window_size) / window_size)
  if num_windows == 0:
    return jnp.zeros((input.shape[1], 0, fft_length // 2 + 1), np.float32)
  windows = input.T[:, places] * weights.astype(np.float32)
  spectrum = jnp.fft.rfft(windows, n=fft_length)
  power = spectrum.real**2 + spectrum.imag**2
  return (power if magnitude_squared else jnp.sqrt(power)).astype(np.float32)


@register("Mfcc")
def mfcc(
  spectrogram: Array,
  sample_rate: Static[int],
  *,
  upper_frequency_limit: float = 4000.0,
  lower_frequency_limit: float = 20.0,
  filterbank_channel_count: int = 40,
  dct_coefficient_count: int = 13,
) -> Array:
  """Computes mel-frequency cepstral coefficients of a spectrogram of squared magnitudes.

  Source op: `tf.raw_ops.Mfcc`.

  Args:
    spectrogram: `[channels, windows, bins]`, float32.
    sample_rate: samples per second.
    upper_frequency_limit: of the filters, in hertz.
    lower_frequency_limit: of the filters, in hertz.
    filterbank_channel_count: how many triangular filters, evenly spaced on the mel scale.
    dct_coefficient_count: how many coefficients.

  Returns:
    `[channels, windows, dct_coefficient_count]`, float32.

  Differs from TF: sums in float32, TensorFlow in float64; within 1e-4.
  """
  spectrogram = jnp.asarray(spectrogram)
  filters = _mel_filters(
    spectrogram.shape[-1], sample_rate, filterbank_channel_count, lower_frequency_limit, upper_frequency_limit
  )
  energies = jnp.sqrt(spectrogram) @ filters.astype(np.float32)
  places = np.arange(filterbank_channel_count) + 0.5
  angles = np.outer(places, np.arange(dct_coefficient_count)) * np.pi / filterbank_channel_count
  cosines = np.sqrt(2 / filterbank_channel_count) * np.cos(angles)
  return jnp.log(jnp.maximum(energies, _QUIETEST)) @ cosines.astype(np.float32)


def _mel(frequency: np.ndarray | float) -> np.ndarray:
  return 1127.0 * np.log1p(np.asarray(frequency) / 700.0)


def _mel_filters(num_bins: int, sample_rate: int, num_filters: int, lower: float, upper: float) -> np.ndarray:
  """Returns `[bins, filters]`: triangles between neighboring centers on the mel scale; bins out of range weigh 0."""
  hertz_per_bin = 0.5 * sample_rate / (num_bins - 1)
  first, last = int(1.5 + lower / hertz_per_bin), int(upper / hertz_per_bin)
  edges = _mel(lower) + (_mel(upper) - _mel(lower)) / (num_filters + 1) * np.arange(num_filters + 2)
  filters = np.zeros((num_bins, num_filters))
  for index in range(first, min(last, num_bins - 1) + 1):
    mel = _mel(index * hertz_per_bin)
    # The bin lies between edges `above - 1` and `above`; edge i is the center of filter i - 1.
    above = int(np.searchsorted(edges[1:-1], mel, side="left")) + 1
    falling = (edges[above] - mel) / (edges[above] - edges[above - 1])
    if above >= 2:
      filters[index, above - 2] += falling
    if above <= num_filters:
      filters[index, above - 1] += 1 - falling
  return filters
