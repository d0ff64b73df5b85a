"""Spectrograms and cepstral coefficients against TensorFlow."""

import numpy as np
import pytest

from graftax.testing.raw_ops import check_raw_op, check_raw_op_rejects


def _sound(samples, channels):
  return np.random.default_rng(0).uniform(-1, 1, (samples, channels)).astype(np.float32)


@pytest.mark.parametrize(("window", "stride"), [(16, 8), (20, 7), (100, 50), (64, 64), (500, 10)])
@pytest.mark.parametrize("squared", [False, True])
def test_spectrogram(window, stride, squared):
  attrs = {"window_size": window, "stride": stride, "magnitude_squared": squared}
  check_raw_op("AudioSpectrogram", [_sound(256, 2)], attrs, tolerance=(1e-4, 1e-4))


def test_spectrogram_of_a_vector_raises():
  check_raw_op_rejects("AudioSpectrogram", [np.ones(9, np.float32)], {"window_size": 4, "stride": 2}, match="(9,)")


@pytest.mark.parametrize(
  "attrs",
  [
    {},
    {"upper_frequency_limit": 7000.0, "lower_frequency_limit": 100.0},
    {"filterbank_channel_count": 20, "dct_coefficient_count": 20},
  ],
)
@pytest.mark.parametrize("rate", [16000, 22050])
def test_mfcc(attrs, rate):
  power = np.random.default_rng(0).uniform(0, 3, (2, 4, 257)).astype(np.float32)
  check_raw_op("Mfcc", [power, np.int32(rate)], attrs, tolerance=(1e-4, 1e-4))


def test_mfcc_of_silence_is_finite():
  check_raw_op("Mfcc", [np.zeros((1, 2, 129), np.float32), np.int32(8000)], tolerance=(1e-4, 1e-4))
