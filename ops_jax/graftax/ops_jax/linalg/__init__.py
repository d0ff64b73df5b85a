"""Linear algebra: products, decompositions, solvers and functions of matrices.

- `decompositions`: Factorizations with TensorFlow's gradients: Cholesky, Qr, Lu.
- `eigen`: Eigenvalues and singular values with TensorFlow's gradients: SelfAdjointEigV2, Svd, Eig, XlaSvd.
- `einsum`: Sums of products by subscript equations: Einsum, XlaEinsum.
- `matmul`: Matrix and cross products: MatMul, BatchMatMul in all versions, SparseMatMul, Cross.
- `matrix_functions`: Functions of matrices: MatrixExponential, MatrixSquareRoot, MatrixLogarithm.
- `solvers`: Linear systems, inverses and determinants: MatrixSolve, MatrixTriangularSolve, MatrixInverse,
  MatrixDeterminant.
- `tridiagonal`: Tridiagonal matrices: TridiagonalSolve, TridiagonalMatMul.
"""

# The modules that register lowerings; the others are helpers.
LOWERINGS = (
  "decompositions",
  "eigen",
  "einsum",
  "matmul",
  "matrix_functions",
  "solvers",
  "tridiagonal",
)
