"""Sparse and ragged tensors."""

# The modules that register lowerings. The other modules hold what these share.
LOWERINGS = (
  "merging",
  "parts",
  "ragged",
  "segment",
  "sparse_tensor",
)
