"""Decompositions and solvers for which TensorFlow has an op."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from graftax.convert.jax2tf.tf_ops.builder import Builder
from graftax.convert.jax2tf.tf_ops.registry import Unsupported, rule
from graftax.convert.jax2tf.tf_ops.rules import _substitution as substitution
from graftax.convert.jax2tf.tf_ops.rules._common import broadcast, cast, full, reshape, select, static_slice, transpose
from graftax.convert.jax2tf.tf_ops.rules._traced import traced, traced_arrays
from graftax.convert.jax2tf.tf_ops.rules.shaping import positions
from graftax.convert.jax2tf.tf_ops.tensors import Tensor
from graftax.graphdef_ir import DType
from graftax.xla_call_module.lax_extras import identity_like, packed_qr, pivoted_qr, safe_scale, times_reflectors

_MAX_PIVOTS = 64


@rule("cholesky", ignores=("symmetrize_input",))
def cholesky(b: Builder, x: Tensor) -> Tensor:
  """Returns the lower triangle. TensorFlow raises an error where JAX returns NaN."""
  if b.lacks("Cholesky") and _is_real_of_known_size(x):
    return traced(b, substitution.cholesky, [x])
  return b.op("Cholesky", x, shape=x.shape)


@rule("triangular_solve")
def triangular_solve(
  b: Builder,
  a: Tensor,
  y: Tensor,
  *,
  left_side: bool,
  lower: bool,
  transpose_a: bool,
  conjugate_a: bool,
  unit_diagonal: bool,
) -> Tensor:
  """Returns the solution of a triangular system. TensorFlow raises an error if the diagonal has a zero."""
  if b.lacks("MatrixTriangularSolve") and _is_real_of_known_size(a):
    if not left_side:  # x a = y is a^T x^T = y^T
      a, y = _swapped(b, a), _swapped(b, y)
    if transpose_a:
      a = _swapped(b, a)
    lower = lower != (transpose_a != (not left_side))
    solve = functools.partial(substitution.solve, lower=lower, unit_diagonal=unit_diagonal)
    found = traced(b, solve, [a, y])
    return found if left_side else _swapped(b, found)
  if unit_diagonal:
    a = b.op(
      "MatrixSetDiag", a, broadcast(b, b.constant(np.ones((1,) * (a.rank - 1), a.dtype)), a.shape[:-1]), shape=a.shape
    )
  if not left_side:  # x a = y is a^T x^T = y^T
    transpose_a = not transpose_a
    y = _swapped(b, y)
  if a.dtype.kind == "c" and conjugate_a != transpose_a:  # `adjoint` transposes and conjugates
    a = b.op("Conj", a, shape=a.shape)
  found = b.op("MatrixTriangularSolve", a, y, shape=y.shape, lower=lower, adjoint=transpose_a)
  return found if left_side else _swapped(b, found)


@rule("tridiagonal_solve")
def tridiagonal_solve(
  b: Builder, lower: Tensor, diagonal: Tensor, upper: Tensor, y: Tensor, *, perturb_singular: bool = False
) -> Tensor:
  """Returns the solution of a tridiagonal system; NaN if it is singular, as in JAX.

  TensorFlow (2.21) leaves the result of a singular complex system unset.
  """
  diagonals = b.op("Pack", [upper, diagonal, lower], shape=(*diagonal.shape[:-1], 3, diagonal.shape[-1]), axis=-2)
  return b.op("TridiagonalSolve", diagonals, y, shape=y.shape, perturb_singular=perturb_singular)


def _is_real_of_known_size(x: Tensor) -> bool:
  """Returns whether matrices are real, and their size does not depend on the arguments."""
  return x.is_float and isinstance(x.shape[-1], int)


def _swapped(b: Builder, x: Tensor) -> Tensor:
  return transpose(b, x, [*range(x.rank - 2), x.rank - 1, x.rank - 2])


@rule("qr", ignores=("use_magma",))
def qr(b: Builder, x: Tensor, *, full_matrices: bool, pivoting: bool, outs: Any) -> list[Tensor]:
  """Returns an orthogonal and a triangular matrix; with pivots, also the order of columns."""
  if pivoting:
    _known_sizes(x)
    return traced_arrays(b, lambda x: pivoted_qr(x, outs[0].shape[-1]), [x])
  if 0 in x.shape[-2:]:
    return b.op_list("Qr", x, shapes=[out.shape for out in outs], full_matrices=full_matrices)
  # TensorFlow's kernel squares the entries.
  scale = traced(b, lambda x: safe_scale(x).astype(x.dtype), [x])
  scaled = traced(b, jax.lax.div, [x, broadcast(b, scale, x.shape)])
  q, r = b.op_list("Qr", scaled, shapes=[out.shape for out in outs], full_matrices=full_matrices)
  return [q, traced(b, jax.lax.mul, [r, broadcast(b, scale, r.shape)])]


@rule("geqrf")
def geqrf(b: Builder, x: Tensor) -> list[Tensor]:
  """Returns the triangular factor with the reflectors below it, and the factors of the reflectors."""
  _known_sizes(x)
  return traced_arrays(b, packed_qr, [x])


@rule("householder_product")
def householder_product(b: Builder, x: Tensor, taus: Tensor) -> Tensor:
  """Returns columns of the product of reflectors."""
  rows, columns = _known_sizes(x)
  return traced(b, lambda x, taus: times_reflectors(x, taus, identity_like(x, rows, columns)), [x, taus])


@rule("ormqr")
def ormqr(b: Builder, x: Tensor, taus: Tensor, y: Tensor, *, left: bool, transpose: bool) -> Tensor:
  """Returns a product with the product of reflectors."""
  _known_sizes(x)
  return traced(b, functools.partial(times_reflectors, left=left, transpose=transpose), [x, taus, y])


def _known_sizes(x: Tensor) -> tuple[int, int]:
  rows, columns = x.shape[-2:]
  if not (isinstance(rows, int) and isinstance(columns, int)):
    raise Unsupported(f"reflectors of {rows} by {columns} matrices; expected sizes that are numbers")
  return rows, columns


@rule("eig", ignores=("enable_eigvec_derivs", "implementation", "use_magma"))
def eig(
  b: Builder, x: Tensor, *, compute_left_eigenvectors: bool, compute_right_eigenvectors: bool, outs: Any
) -> list[Tensor]:
  """Returns eigenvalues and right eigenvectors of square matrices, in the order of TensorFlow's kernel.

  As in LAPACK, eigenvectors have the norm 1, and their largest component is real.
  """
  if compute_left_eigenvectors:
    raise Unsupported("left eigenvectors")
  dtype = DType.from_numpy(outs[0].dtype)
  shapes = [outs[0].shape, x.shape]
  values, vectors = b.op_list("Eig", x, shapes=shapes, compute_v=compute_right_eigenvectors, Tout=dtype)
  return [values, traced(b, _with_real_component, [vectors])] if compute_right_eigenvectors else [values]


def _with_real_component(vectors: jax.Array) -> jax.Array:
  place = jnp.argmax(jnp.abs(vectors), axis=-2, keepdims=True)
  largest = jnp.take_along_axis(vectors, place, axis=-2, mode="promise_in_bounds")
  return vectors * (jnp.conj(largest) / jnp.abs(largest))


@rule("eigh", ignores=("algorithm", "sort_eigenvalues"))
def eigh(b: Builder, x: Tensor, *, lower: bool, subset_by_index: Any = None, outs: Any) -> list[Tensor]:
  """Returns eigenvectors and eigenvalues in ascending order. TensorFlow reads the lower triangle only.

  Eigenvectors have the signs of TensorFlow's kernel. Those of LAPACK, which JAX calls on CPUs, follow from no rule.
  """
  if subset_by_index is not None:
    raise Unsupported("a subset of eigenvalues")
  if not lower:
    x = _swapped(b, x)
    x = b.op("Conj", x, shape=x.shape) if x.dtype.kind == "c" else x
  values, vectors = b.op_list("SelfAdjointEigV2", x, shapes=[outs[1].shape, outs[0].shape], compute_v=True)
  if x.dtype.kind == "c":
    values = b.op("Real", values, shape=values.shape, Tout=DType.from_numpy(outs[1].dtype))
  return [vectors, values]


@rule("svd", ignores=("algorithm",))
def svd(
  b: Builder, x: Tensor, *, compute_uv: bool, full_matrices: bool, subset_by_index: Any = None, outs: Any
) -> list[Tensor]:
  """Returns singular values, and the matrices of singular vectors, with the signs of TensorFlow's kernel."""
  if subset_by_index is not None:
    raise Unsupported("a subset of singular values")
  # Without vectors, TensorFlow returns empty ones. Open sizes cannot be compared, so the smaller one is JAX's.
  u_shape, vt_shape = (out.shape for out in outs[1:]) if compute_uv else ((0, 0), (0, 0))
  shapes = [outs[0].shape, u_shape, (*vt_shape[:-2], vt_shape[-1], vt_shape[-2])]
  s, u, v = b.op_list("Svd", x, shapes=shapes, compute_uv=compute_uv, full_matrices=full_matrices)
  s = cast(b, s, outs[0].dtype) if s.dtype.kind != "c" else b.op(
    "Real", s, shape=s.shape, Tout=DType.from_numpy(outs[0].dtype)
  )  # fmt: skip
  if not compute_uv:
    return [s]
  v = b.op("Conj", v, shape=v.shape) if v.dtype.kind == "c" else v
  return [s, u, _swapped(b, v)]


@rule("lu")
def lu(b: Builder, x: Tensor, *, outs: Any) -> list[Tensor]:
  """Returns both triangular matrices in one, the rows that were swapped, and the order of rows."""
  rows, columns = x.shape[-2:]
  if rows != columns:
    raise Unsupported(f"LU decomposition of {rows} by {columns} matrices; expected square ones")
  if not isinstance(rows, int):
    raise Unsupported(f"LU decomposition of {rows} by {rows} matrices; expected a size that is a number")
  factors, order = b.op_list("Lu", x, shapes=[x.shape, x.shape[:-1]], output_idx_type=DType.INT32)
  return [factors, _pivots(b, order, rows), order]


def _pivots(b: Builder, order: Tensor, size: int) -> Tensor:
  """Returns which row each row was swapped with, one after the other, for an order of rows."""
  if size > _MAX_PIVOTS:
    raise Unsupported(f"pivots of {size} by {size} matrices; expected at most {_MAX_PIVOTS}")
  shape = order.shape
  numbers = positions(b, shape, len(shape) - 1, np.dtype(np.int32))
  current, pivots = numbers, numbers
  for i in range(size):
    wanted = _at(b, order, i)
    found = b.op("Equal", current, wanted, shape=shape)
    where = b.op(
      "ArgMax", cast(b, found, np.int32), np.int32(len(shape) - 1), shape=shape[:-1], output_type=DType.INT32
    )
    where = reshape(b, where, (*shape[:-1], 1))
    mine = b.op("Equal", numbers, np.int32(i), shape=shape)
    pivots = select(b, mine, where, pivots, shape)
    swapped = select(b, found, _at(b, current, i), current, shape)
    current = select(b, mine, wanted, swapped, shape)
  return pivots


def _at(b: Builder, x: Tensor, i: int) -> Tensor:
  zeros = [0] * (x.rank - 1)
  return static_slice(b, x, [*zeros, i], [*x.shape[:-1], i + 1])


@rule("lu_pivots_to_permutation")
def lu_pivots_to_permutation(b: Builder, pivots: Tensor, *, permutation_size: int, out: Any) -> Tensor:
  """Returns the order of rows after swaps."""
  number = pivots.shape[-1]
  if not isinstance(number, int) or number > _MAX_PIVOTS:
    raise Unsupported(f"{number} pivots; expected at most {_MAX_PIVOTS}")
  shape = out.shape
  numbers = positions(b, shape, len(shape) - 1, np.dtype(np.int32))
  current = numbers
  for i in range(number):
    pivot = _at(b, pivots, i)
    mine, other = b.op("Equal", numbers, np.int32(i), shape=shape), b.op("Equal", numbers, pivot, shape=shape)
    there = b.op("Sum", select(b, other, current, full(b, current, 0), shape), np.array([len(shape) - 1], np.int32),
                 shape=(*shape[:-1], 1), keep_dims=True)  # fmt: skip
    current = select(b, mine, there, select(b, other, _at(b, current, i), current, shape), shape)
  return current
