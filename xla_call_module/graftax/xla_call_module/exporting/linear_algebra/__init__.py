"""Linear algebra from ops that every XLA compiles.

On CPU and GPU, JAX calls LAPACK and cuSOLVER by names that only jaxlib registers. These functions compute the same with
loops, and with the ops and calls that XLA expands itself: `stablehlo.cholesky`, `stablehlo.triangular_solve`, and the
custom calls `Qr`, `ProductOfElementaryHouseholderReflectors` and `Eigh`.

- `eigh`: Eigenvalues and eigenvectors of Hermitian matrices.
- `householder`: QR decompositions and products with their orthogonal factor.
- `lu`: LU decomposition with row pivoting.
- `refusals`: Errors for what has no expansion.
- `rules`: The functions by primitive.
- `solvers`: Cholesky decomposition, triangular and tridiagonal systems.
- `svd`: Singular value decomposition.
"""

from graftax.xla_call_module.exporting.linear_algebra.rules import lowering_rules

__all__ = ["lowering_rules"]
