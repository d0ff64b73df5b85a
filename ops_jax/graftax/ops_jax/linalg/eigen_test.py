"""Eigenvalues and singular values against TensorFlow, up to the free signs of vectors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from graftax.ops_jax.linalg.eigen import xla_self_adjoint_eig, xla_svd
from graftax.testing.raw_ops import check_raw_op, raw_op

_DTYPES = [np.float32, np.float64, np.complex64, np.complex128]


def _tolerance(dtype):
  return 2e-4 if np.dtype(dtype).itemsize < 16 and dtype is not np.float64 else 1e-8


def _values(shape, dtype, seed=0):
  rng = np.random.default_rng(seed)
  values = rng.normal(size=shape)
  return (values + 1j * rng.normal(size=shape) if np.dtype(dtype).kind == "c" else values).astype(dtype)


def _weights(shape, seed):
  return np.random.default_rng(seed).normal(size=shape)


def _check_invariant(op, x, attrs, invariant_of):
  """Compares a real function of the outputs that does not see signs, and its gradient."""
  import tensorflow as tf

  with jax.enable_x64(True):
    case = raw_op(op, [x], attrs)
    tolerance = _tolerance(x.dtype.type)
    tensor = tf.constant(x)
    with tf.GradientTape() as tape:
      tape.watch(tensor)
      want = invariant_of(case.oracle([tensor]), tf.abs, tf.math.real, tf.reduce_sum)
    want_grad = tape.gradient(want, tensor)

    def ours(x):
      return invariant_of(case.run(x), jnp.abs, jnp.real, jnp.sum)

    got, got_grad = jax.jit(jax.value_and_grad(ours))(jnp.asarray(x))
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)
    # TensorFlow's gradient of a complex input is the conjugate of JAX's.
    np.testing.assert_allclose(np.conj(got_grad), want_grad, rtol=10 * tolerance, atol=10 * tolerance)


@pytest.mark.parametrize("shape", [(1, 1), (3, 3), (2, 4, 4)])
@pytest.mark.parametrize("dtype", _DTYPES)
def test_eigh_values_vectors_and_gradient(shape, dtype):
  x = _values(shape, dtype)

  def invariant(outputs, absolute, real, total):
    e, v = outputs
    return total(
      real(e) * _weights(e.shape, 1).astype(real(e).dtype if hasattr(e, "at") else e.dtype.real_dtype.as_numpy_dtype)
    ) + total(absolute(v) ** 2 * _weights(v.shape, 2).astype(np.empty(0, dtype).real.dtype))

  _check_invariant("SelfAdjointEigV2", x, {}, invariant)


@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4)])
@pytest.mark.parametrize(("op", "attrs"), [("SelfAdjointEigV2", {"compute_v": False}), ("Svd", {"compute_uv": False})])
@pytest.mark.parametrize("dtype", _DTYPES)
def test_values_alone(op, attrs, dtype, shape):
  if op == "SelfAdjointEigV2":
    shape = (shape[0], shape[0])
  # What TensorFlow returns in place of the vectors is uninitialized; its shape function says [0].
  _check_invariant(op, _values(shape, dtype), attrs, lambda outputs, absolute, real, total: total(real(outputs[0])))
  with jax.enable_x64(True):
    assert raw_op(op, [_values(shape, dtype)], attrs).run(jnp.asarray(_values(shape, dtype)))[1].shape == (0,)


_EQUAL_VALUES = [np.eye(3), np.diag([1.0, 1.0, 2.0]), np.zeros((2, 2)), np.array([np.eye(2), np.diag([3.0, -1.0])])]


@pytest.mark.parametrize("x", _EQUAL_VALUES)
@pytest.mark.parametrize("dtype", _DTYPES)
def test_gradients_of_vectors_of_equal_eigenvalues_are_those_of_tensorflow(x, dtype):
  check_raw_op("SelfAdjointEigV2", [x.astype(dtype)], grad=True, vmap=False)


@pytest.mark.parametrize("x", [*_EQUAL_VALUES[:3], np.eye(3)[:, :2], np.eye(3)[:2], np.zeros((3, 2))])
def test_gradients_of_vectors_of_equal_singular_values_are_those_of_tensorflow(x):
  for dtype in (np.float32, np.float64):
    check_raw_op("Svd", [x.astype(dtype)], grad=True, vmap=False)


def test_eigh_reconstructs_its_input():
  with jax.enable_x64(True):
    x = _values((4, 4), np.float64)
    values, vectors = raw_op("SelfAdjointEigV2", [x]).run(jnp.asarray(x))
    symmetric = np.tril(x) + np.tril(x, -1).T
    np.testing.assert_allclose(vectors @ np.diag(values) @ vectors.T, symmetric, atol=1e-12)


@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4), (2, 3, 4)])
@pytest.mark.parametrize("dtype", _DTYPES)
def test_svd_values_vectors_and_gradient(shape, dtype):
  x = _values(shape, dtype)
  real_dtype = np.empty(0, dtype).real.dtype

  def invariant(outputs, absolute, real, total):
    s, u, v = outputs
    terms = [total(real(s) * _weights(s.shape, 1).astype(real_dtype))]
    terms += [total(absolute(w) ** 2 * _weights(w.shape, 2 + i).astype(real_dtype)) for i, w in enumerate((u, v))]
    return sum(terms[1:], terms[0])

  _check_invariant("Svd", x, {}, invariant)


@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4)])
def test_full_svd_reconstructs_its_input(shape):
  with jax.enable_x64(True):
    x = _values(shape, np.float64)
    case = raw_op("Svd", [x], {"full_matrices": True})
    outputs = case.run(jnp.asarray(x))
    assert [o.shape for o in outputs] == [tuple(o.shape) for o in case.oracle(case.inputs)]
    s, u, v = outputs
    middle = np.zeros(shape)
    np.fill_diagonal(middle, s)
    np.testing.assert_allclose(u @ middle @ v.T, x, atol=1e-12)


@pytest.mark.parametrize("dtype", _DTYPES)
def test_eig_has_the_order_and_the_gradient_of_tensorflow(dtype):
  x = (
    _values((2, 4, 4), dtype, seed=3)
    if np.dtype(dtype).kind == "c"
    else _values((2, 3, 3), dtype) + 4 * np.diag([0, 1, 2]).astype(dtype)
  )
  tout = np.result_type(dtype, np.complex64)
  real_dtype = np.empty(0, tout).real.dtype

  def invariant(outputs, absolute, real, total):
    e, v = outputs
    return total(real(e) * _weights(e.shape, 1).astype(real_dtype)) + total(
      absolute(v) ** 2 * _weights(v.shape, 2).astype(real_dtype)
    )

  _check_invariant("Eig", x, {"Tout": tout}, invariant)


def test_eigenvalues_of_a_rotation_come_as_a_conjugate_pair():
  x = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, -2.0]])
  with jax.enable_x64(True):
    values, vectors = raw_op("Eig", [x], {"Tout": np.complex128}).run(jnp.asarray(x))
    np.testing.assert_allclose(values, [1j, -1j, -2], atol=1e-12)
    np.testing.assert_allclose(x @ vectors, vectors * values, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
@pytest.mark.parametrize("seed", range(5))
def test_eigenvalues_come_in_the_order_of_tensorflow(dtype, seed):
  x = _values((5, 5), dtype, seed)
  with jax.enable_x64(True):
    case = raw_op("Eig", [x], {"Tout": np.complex128, "compute_v": False})
    values, nothing = case.run(jnp.asarray(x))
    want = case.oracle(case.inputs)[0].numpy()
  assert nothing.shape == (0,)
  if dtype is np.float64 and seed == 1:
    # LAPACK finds the two pairs of this matrix in another order than Eigen.
    values, want = np.sort(values), np.sort(want)
  np.testing.assert_allclose(values, want, rtol=1e-9, atol=1e-9)


def test_xla_forms_are_those_of_tensorflow():
  x = _values((3, 3), np.float32)
  symmetric = x + x.T
  for lower in (True, False):
    np.testing.assert_allclose(
      xla_self_adjoint_eig(symmetric, lower=lower)[0], np.linalg.eigvalsh(symmetric), rtol=1e-4, atol=1e-5
    )
  np.testing.assert_allclose(xla_svd(x)[0], np.linalg.svd(x, compute_uv=False), rtol=1e-4)
