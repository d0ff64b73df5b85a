"""Recipes of Fourier transforms and audio."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from graftax.testing.generated.draw import Draw
from graftax.testing.generated.recipes.registry import recipe

_RANKS = {"": 1, "2D": 2, "3D": 3}


@recipe(*(f"{way}{rank}" for way in ("FFT", "IFFT") for rank in _RANKS))
def fft(d: Draw) -> Sequence[Any]:
  """Sizes from 1 on."""
  rank = _RANKS[d.op.split("FFT")[1]]
  return [d.tame((*d.shape(0, 2), *(d.size(1, 5) for _ in range(rank))), d.dtype(d.signature.inputs[0]))]


@recipe(*(f"{way}{rank}" for way in ("RFFT", "IRFFT") for rank in _RANKS))
def rfft(d: Draw) -> Sequence[Any]:
  """Lengths that keep or cut the input: TensorFlow's eager kernels do not pad."""
  rank = _RANKS[d.op.split("RFFT")[1]]
  double = d.chance(0.3)
  d.attrs["Treal"] = np.dtype(np.float64 if double else np.float32)
  d.attrs["Tcomplex"] = np.dtype(np.complex128 if double else np.complex64)
  shape = (*d.shape(0, 2), *(d.size(1, 5) for _ in range(rank)))
  lengths = list(shape[-rank:])
  if d.op.startswith("IRFFT"):
    lengths[-1] = max(2 * (lengths[-1] - 1) + d.integer(0, 1), 1)
  lengths = [d.integer(1, n) if d.chance(0.3) else n for n in lengths]
  return [d.tame(shape, d.dtype(d.signature.inputs[0])), np.array(lengths, np.int32)]


@recipe("AudioSpectrogram")
def spectrogram(d: Draw) -> Sequence[Any]:
  d.attrs.update(window_size=d.integer(2, 9), stride=d.integer(1, 5))
  return [d.tame((d.integer(5, 20), d.size(1, 2)), np.float32)]


@recipe("Mfcc")
def mfcc(d: Draw) -> Sequence[Any]:
  d.attrs.update(filterbank_channel_count=d.integer(5, 20), dct_coefficient_count=d.integer(2, 5))
  return [d.between((d.size(1, 2), d.size(1, 3), d.pick([65, 129])), np.float32, 0, 2), np.array(16000, np.int32)]
