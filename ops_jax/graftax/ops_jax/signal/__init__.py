"""Fourier transforms and audio features.

- `audio`: Audio features: AudioSpectrogram, Mfcc.
- `fft`: Discrete Fourier transforms: FFT, IFFT, RFFT and IRFFT over one, two or three axes, and their ND forms.
"""

# The modules that register lowerings; the others are helpers.
LOWERINGS = (
  "audio",
  "fft",
)
