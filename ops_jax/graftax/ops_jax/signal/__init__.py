"""Fourier transforms and features of sound."""

# The modules that register lowerings. The other modules hold what these share.
LOWERINGS = (
  "audio",
  "fft",
)
