"""Elementwise functions, comparisons, reductions, running sums, segments and special functions."""

# The modules that register lowerings. The other modules hold what these share.
LOWERINGS = (
  "bessel",
  "binary",
  "bitwise",
  "comparison",
  "complex_numbers",
  "cumulative",
  "histogram",
  "reduction",
  "segment",
  "special",
  "unary",
)
