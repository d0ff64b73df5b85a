"""Linear algebra: products, decompositions, solvers and functions of matrices."""

# The modules that register lowerings. The other modules hold what these share.
LOWERINGS = (
  "decompositions",
  "eigen",
  "einsum",
  "matmul",
  "matrix_functions",
  "solvers",
  "tridiagonal",
)
