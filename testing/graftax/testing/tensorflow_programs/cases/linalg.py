"""Linear algebra."""

import numpy as np

from graftax.testing.harness.conversion_case import Collector, normal

define = Collector("linalg")

_DIFFERENTIABLE = ("value", "jit", "grad", "vmap", "batch")
_LOOSE = (1e-4, 2e-5)
_SQUARE = normal(2, 4, 4) + 4 * np.eye(4, dtype=np.float32)


def _spd(tf, x):
  return x @ tf.linalg.matrix_transpose(x) + tf.eye(4)


@define(_SQUARE, checks=_DIFFERENTIABLE, tolerance=_LOOSE)
def cholesky(tf, x):
  return tf.linalg.cholesky(_spd(tf, x))


@define(_SQUARE, normal(2, 4, 3), checks=_DIFFERENTIABLE, tolerance=_LOOSE)
def solve(tf, a, b):
  return tf.linalg.solve(a, b), tf.linalg.solve(a, b, adjoint=True)


@define(_SQUARE, normal(2, 4, 3), checks=_DIFFERENTIABLE, tolerance=_LOOSE)
def triangular_and_cholesky_solve(tf, a, b):
  chol = tf.linalg.cholesky(_spd(tf, a))
  return tf.linalg.triangular_solve(chol, b), tf.linalg.cholesky_solve(chol, b)


@define(_SQUARE, checks=_DIFFERENTIABLE, tolerance=_LOOSE)
def determinants_and_inverse(tf, x):
  return tf.linalg.det(x), tf.linalg.inv(x), tf.linalg.slogdet(x)[1]


@define(normal(2, 5, 3), checks=_DIFFERENTIABLE, tolerance=_LOOSE)
def qr(tf, x):
  q, r = tf.linalg.qr(x)
  return q @ r, tf.abs(r)


@define(_SQUARE, checks=_DIFFERENTIABLE, tolerance=_LOOSE)
def eigenvalues_of_symmetric(tf, x):
  values, vectors = tf.linalg.eigh(_spd(tf, x))
  return values, vectors @ tf.linalg.diag(tf.sqrt(values)) @ tf.linalg.matrix_transpose(vectors)


@define(normal(2, 4, 3), checks=_DIFFERENTIABLE, tolerance=_LOOSE)
def singular_values(tf, x):
  s, u, v = tf.linalg.svd(x)
  return s, u @ tf.linalg.diag(s) @ tf.linalg.matrix_transpose(v)


@define(normal(2, 5, 3), normal(2, 5, 2), checks=_DIFFERENTIABLE, tolerance=_LOOSE)
def least_squares(tf, a, b):
  return tf.linalg.lstsq(a, b, l2_regularizer=0.1)


@define(_SQUARE, checks=("value", "jit", "vmap"), tolerance=_LOOSE)
def lu(tf, x):
  return tuple(tf.linalg.lu(x))


@define(normal(2, 3, 3, scale=0.5), checks=("value", "jit", "grad", "vmap", "batch"), tolerance=_LOOSE)
def matrix_exponential(tf, x):
  return tf.linalg.expm(x)


@define(normal(2, 3, 5), checks=_DIFFERENTIABLE, tolerance=_LOOSE)
def tridiagonal(tf, x):
  diagonals = tf.stack([x[:, 0], x[:, 1] + 5.0, x[:, 2]], 1)
  return tf.linalg.tridiagonal_solve(diagonals, x[:, 1], diagonals_format="compact")


@define(normal(2, 4, 4), checks=("value", "jit", "grad", "vmap", "batch", "second_order"))
def bands_and_diagonals(tf, x):
  band = tf.linalg.band_part(x, 1, 0)
  return tf.linalg.set_diag(band, tf.linalg.diag_part(x) * 2.0), tf.linalg.trace(x), tf.linalg.diag(x[:, 0], k=1)


@define(normal(2, 3, 4), normal(2, 4, 5), checks=("value", "jit", "grad", "vmap", "batch", "second_order"))
def einsum_chain(tf, a, b):
  return tf.einsum("bij,bjk->bik", a, b), tf.einsum("bij,bjk,bil->kl", a, b, a), tf.tensordot(a, b, [[2], [1]])


@define(normal(4, 4, dtype=np.float64), checks=("value", "jit", "grad", "vmap"), x64=True, tolerance=(1e-9, 1e-10))
def double_precision(tf, x):
  spd = x @ tf.transpose(x) + tf.eye(4, dtype=tf.float64)
  return tf.linalg.logdet(spd), tf.linalg.pinv(spd)


@define(normal(2, 3, 3), normal(2, 3, 3, seed=1), checks=("value", "jit", "grad", "vmap"), tolerance=_LOOSE)
def complex_matrices(tf, re, im):
  z = tf.complex(re, im)
  h = z @ tf.linalg.adjoint(z)
  return tf.linalg.trace(h), tf.math.real(tf.linalg.cholesky(h + tf.eye(3, dtype=tf.complex64)))


# TensorFlow's derivative of a complex determinant lacks a conjugate, so it is not an oracle for it.
@define(normal(2, 3, 3), normal(2, 3, 3, seed=1), checks=("value", "jit", "vmap"), tolerance=_LOOSE)
def complex_determinant(tf, re, im):
  z = tf.complex(re, im)
  return tf.linalg.det(z), tf.linalg.inv(z)


@define(normal(3, 4), normal(3, 4, seed=1), checks=("value", "jit", "grad", "vmap", "batch"))
def norms_and_products(tf, a, b):
  outer = a[:, :, None] * b[:, None]
  return tf.norm(a, axis=1), tf.norm(a, 1, axis=1), tf.linalg.cross(a[:, :3], b[:, :3]), tf.linalg.matvec(outer, b)
