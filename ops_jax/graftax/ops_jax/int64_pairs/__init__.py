"""64-bit integers as pairs of 32-bit words, for programs that run while JAX's 64-bit types are off."""

# The modules that register lowerings. The other modules hold what these share.
LOWERINGS = ("lowerings",)
