"""Fourier transforms and audio features.

- `audio`: AudioSpectrogram, Mfcc
- `fft`: FFT, IFFT, RFFT and IRFFT over one to three axes, and their ND forms
"""

# The modules that register lowerings. The other modules hold what these share.
LOWERINGS = (
  "audio",
  "fft",
)
