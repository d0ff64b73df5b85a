"""Recipes of linear algebra. Matrices are well conditioned, and vectors of decompositions are unique up to sign."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from graftax.testing.generated.draw import Draw
from graftax.testing.generated.recipes.registry import recipe

_EQUATIONS = """
  ij,jk->ik ij->ji ii->i ii-> i,j->ij ...ij,...jk->...ik bij,bkj->bik ij-> a...,a...->...
"""


def _square(d: Draw, dtype: Any) -> np.ndarray:
  """Returns batches of matrices with a dominant diagonal."""
  n = d.size(0, 4)
  x = d.tame((*d.shape(0, 2, 3), n, n), dtype)
  return np.asarray(x + np.eye(n) * 9).astype(dtype)


def _positive(d: Draw, dtype: Any) -> np.ndarray:
  """Returns batches of Hermitian positive definite matrices."""
  x = _square(d, dtype)
  return np.asarray((x @ np.swapaxes(x, -1, -2).conj()) / 8).astype(dtype)


@recipe("MatMul", "SparseMatMul")
def matmul(d: Draw) -> Sequence[Any]:
  """Two matrices, transposed or not."""
  a, b = [d.size(), k := d.size()], [k, d.size()]
  shapes = [a[::-1] if d.attrs["transpose_a"] else a, b[::-1] if d.attrs["transpose_b"] else b]
  d.attrs.update({name: False for name in ("grad_a", "grad_b") if name in d.attrs})
  make = d.array if d.style == "special" else d.tame
  return [make(shape, d.dtype(arg)) for shape, arg in zip(shapes, d.signature.inputs, strict=True)]


@recipe("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
def batch_matmul(d: Draw) -> Sequence[Any]:
  """Batches that broadcast, except in the oldest op."""
  batch = d.shape(0, 2)
  other = batch if d.op == "BatchMatMul" else d.broadcastable(batch)
  a, b = [d.size(), k := d.size()], [k, d.size()]
  shapes = [(*batch, *(a[::-1] if d.attrs["adj_x"] else a)), (*other, *(b[::-1] if d.attrs["adj_y"] else b))]
  d.attrs.update(grad_x=False, grad_y=False)
  if d.op == "BatchMatMulV3":
    d.attrs["Tb"] = d.attrs["Ta"]
    d.attrs["Tout"] = d.attrs["Ta"]
  make = d.array if d.style == "special" else d.tame
  return [make(shape, d.dtype(arg)) for shape, arg in zip(shapes, d.signature.inputs, strict=True)]


@recipe(
  "LogMatrixDeterminant",
  "Lu",
  "MatrixDeterminant",
  "MatrixExponential",
  "MatrixInverse",
  "MatrixLogarithm",
  "MatrixSquareRoot",
)
def of_square(d: Draw) -> Sequence[Any]:
  """Square matrices; of any values for Lu."""
  if d.op == "Lu":
    n = d.size(1, 4)
    return [d.tame((*d.shape(0, 2, 3), n, n), d.attrs["T"])]
  return [_square(d, d.attrs["T"])]


@recipe("Cholesky")
def cholesky(d: Draw) -> Sequence[Any]:
  """Positive definite matrices."""
  return [_positive(d, d.attrs["T"])]


@recipe("CholeskyGrad")
def cholesky_grad(d: Draw) -> Sequence[Any]:
  """Factors and their cotangents."""
  factor = np.linalg.cholesky(_positive(d, d.attrs["T"]).astype(np.float64)).astype(d.attrs["T"])
  return [factor, d.tame(factor.shape, d.attrs["T"])]


@recipe("SelfAdjointEigV2")
def eigenvalues(d: Draw) -> Sequence[Any]:
  """Eigenvalues alone, since vectors are unique only up to a factor."""
  d.attrs["compute_v"] = False
  return [_positive(d, d.attrs["T"])]


@recipe("Svd")
def svd(d: Draw) -> Sequence[Any]:
  """Singular values alone, since vectors are unique only up to a factor."""
  d.attrs["compute_uv"] = False
  return [d.tame((*d.shape(0, 2, 3), d.size(0, 4), d.size(0, 4)), d.attrs["T"])]


@recipe("MatrixSolve", "MatrixTriangularSolve", "BandedTriangularSolve")
def solve(d: Draw) -> Sequence[Any]:
  """Well conditioned systems."""
  matrix = _square(d, d.attrs["T"])
  return [matrix, d.tame((*matrix.shape[:-1], d.size(0, 3)), d.attrs["T"])]


@recipe("MatrixSolveLs")
def solve_ls(d: Draw) -> Sequence[Any]:
  """Systems with more or fewer rows than columns."""
  rows, columns, batch = d.size(1, 4), d.size(1, 4), d.shape(0, 2, 3)
  matrix = d.tame((*batch, rows, columns), d.attrs["T"]) + 5 * np.eye(rows, columns)
  regularizer = np.array(d.pick([0.0, 0.5]), np.float64)
  d.attrs["fast"] = True
  return [matrix.astype(d.attrs["T"]), d.tame((*batch, rows, d.size(1, 3)), d.attrs["T"]), regularizer]


@recipe("TridiagonalSolve")
def tridiagonal_solve(d: Draw) -> Sequence[Any]:
  """A dominant diagonal."""
  batch, n = d.shape(0, 2), d.size(1, 5)
  diagonals = d.tame((*batch, 3, n), d.attrs["T"])
  diagonals[..., 1, :] += 9
  return [diagonals, d.tame((*batch, n, d.size(1, 3)), d.attrs["T"])]


@recipe("TridiagonalMatMul")
def tridiagonal_matmul(d: Draw) -> Sequence[Any]:
  """Diagonals as rows."""
  batch, n = d.shape(0, 2), d.size(1, 5)
  return [*(d.tame((*batch, 1, n), d.attrs["T"]) for _ in range(3)), d.tame((*batch, n, d.size(1, 3)), d.attrs["T"])]


@recipe("Einsum")
def einsum(d: Draw) -> Sequence[Any]:
  """Products, sums, traces and broadcast dimensions."""
  equation = d.pick(_EQUATIONS.split())
  d.attrs["equation"] = equation
  sizes = {letter: d.size(0, 4) for letter in "abcijk"}
  batch = d.shape(0, 2)
  terms = equation.split("->")[0].split(",")
  inputs = []
  for term in terms:
    front, _, back = term.partition("...")
    shape = [sizes[c] for c in front] + (list(batch) if "..." in term else []) + [sizes[c] for c in back]
    inputs.append(d.tame(shape, d.attrs["T"]))
  return [inputs]
