"""One step of an optimizer, for dense and for sparse gradients."""

# The modules that register lowerings. The other modules hold what these share.
LOWERINGS = (
  "dense",
  "sparse",
)
