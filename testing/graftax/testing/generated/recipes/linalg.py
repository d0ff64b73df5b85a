"""Recipes of linear algebra. Matrices are well conditioned, and vectors of decompositions are unique up to sign."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from graftax.testing.generated.draw import Draw
from graftax.testing.generated.recipes.registry import recipe, recipes

_EQUATIONS = """
  ij,jk->ik ij->ji ii->i ii-> i,j->ij ...ij,...jk->...ik bij,bkj->bik ij-> a...,a...->...
"""


def _square(d: Draw) -> np.ndarray:
  """Returns batches of matrices with a dominant diagonal."""
  n = d.size(0, 4)
  x = d.tame((*d.shape(0, 2, 3), n, n))
  return np.asarray(x + np.eye(n) * 9).astype(x.dtype)


def _positive(d: Draw) -> np.ndarray:
  """Returns batches of Hermitian positive definite matrices."""
  x = _square(d)
  return np.asarray((x @ np.swapaxes(x, -1, -2).conj()) / 8).astype(x.dtype)


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


@recipe("Lu")
def lu(d: Draw) -> Sequence[Any]:
  """Square matrices of any values."""
  n = d.size(1, 4)
  return [d.tame((*d.shape(0, 2, 3), n, n))]


@recipe("CholeskyGrad")
def cholesky_grad(d: Draw) -> Sequence[Any]:
  factor = np.linalg.cholesky(_positive(d).astype(np.float64)).astype(d.attrs["T"])
  return [factor, d.tame(factor.shape)]


@recipe("SelfAdjointEigV2")
def eigenvalues(d: Draw) -> Sequence[Any]:
  """Eigenvalues alone, since vectors are unique only up to a factor."""
  d.attrs["compute_v"] = False
  return [_positive(d)]


@recipe("Svd")
def svd(d: Draw) -> Sequence[Any]:
  """Singular values alone, since vectors are unique only up to a factor."""
  d.attrs["compute_uv"] = False
  return [d.tame((*d.shape(0, 2, 3), d.size(0, 4), d.size(0, 4)))]


@recipe("MatrixSolveLs")
def solve_ls(d: Draw) -> Sequence[Any]:
  """Systems with more or fewer rows than columns."""
  rows, columns, batch = d.size(1, 4), d.size(1, 4), d.shape(0, 2, 3)
  matrix = d.tame((*batch, rows, columns)) + 5 * np.eye(rows, columns)
  regularizer = np.array(d.pick([0.0, 0.5]), np.float64)
  d.attrs["fast"] = True
  return [matrix.astype(d.attrs["T"]), d.tame((*batch, rows, d.size(1, 3))), regularizer]


@recipe("TridiagonalSolve")
def tridiagonal_solve(d: Draw) -> Sequence[Any]:
  """A dominant diagonal."""
  batch, n = d.shape(0, 2), d.size(1, 5)
  diagonals = d.tame((*batch, 3, n))
  diagonals[..., 1, :] += 9
  return [diagonals, d.tame((*batch, n, d.size(1, 3)))]


@recipe("TridiagonalMatMul")
def tridiagonal_matmul(d: Draw) -> Sequence[Any]:
  batch, n = d.shape(0, 2), d.size(1, 5)
  return [*(d.tame((*batch, 1, n)) for _ in range(3)), d.tame((*batch, n, d.size(1, 3)))]


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
    inputs.append(d.tame(shape))
  return [inputs]


recipes(
  {
    "LogMatrixDeterminant MatrixDeterminant MatrixExponential MatrixInverse MatrixLogarithm MatrixSquareRoot": (
      lambda d: [_square(d)]
    ),
    "Cholesky": lambda d: [_positive(d)],
    "MatrixSolve MatrixTriangularSolve BandedTriangularSolve": lambda d: [
      matrix := _square(d),
      d.tame((*matrix.shape[:-1], d.size(0, 3))),
    ],
  }
)
