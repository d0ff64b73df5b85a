"""Sparse and ragged tensors."""

# The modules that register lowerings. The other modules hold what these share.
LOWERINGS = (
  "arithmetic",
  "fill_slice_split",
  "ragged",
  "segment",
  "sparse_tensor",
)
