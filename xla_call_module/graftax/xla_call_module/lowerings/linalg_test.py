import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from graftax.xla_call_module import Module, lift

_A = np.array([[4, 1, 0.5, 0.2], [1, 5, 0.3, 0.1], [0.5, 0.3, 6, 0.7], [0.2, 0.1, 0.7, 7]], np.float32)
_TALL = np.arange(12, dtype=np.float32).reshape(4, 3) % 5 + np.eye(4, 3, dtype=np.float32)
_BAND = np.array([0.5, 1, 0.7, 0.3], np.float32)

_CASES = {
  "cholesky": (lambda a: jnp.linalg.cholesky(a), _A),
  "lu": (lambda a: lax.linalg.lu(a)[0], _A),
  "solve": (lambda a: jnp.linalg.solve(a, a[0]), _A),
  "qr": (lambda a: jnp.abs(jnp.linalg.qr(a)[1]), _TALL),
  "eigh": (lambda a: jnp.linalg.eigh(a)[0], _A),
  "tridiagonal_solve": (lambda d: lax.linalg.tridiagonal_solve(d, d + 4, d, d[:, None]), _BAND),
  "triangular_solve": (lambda a: lax.linalg.triangular_solve(a, a, left_side=True, lower=True), _A),
}


@pytest.mark.parametrize("platform", ["cpu", "cuda", "tpu"])
@pytest.mark.parametrize("name", list(_CASES))
def test_custom_calls_of_every_platform_lift_to_differentiable_twins(name, platform):
  function, x = _CASES[name]
  exported = jax.export.export(jax.jit(function), platforms=[platform])(jax.ShapeDtypeStruct(x.shape, x.dtype))
  lifted = lift(Module.from_exported(exported), check_platform=False, gradient="primal")
  got, want = jax.jit(lambda x: lifted(x)[0])(x), jax.jit(function)(x)
  np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-5)

  def total(f):
    return jax.jit(jax.grad(lambda x: jnp.sum(jnp.cos(f(x)))))

  np.testing.assert_allclose(total(lambda x: lifted(x)[0])(x), total(function)(x), rtol=2e-3, atol=2e-4)
  np.testing.assert_allclose(jax.vmap(lambda x: lifted(x)[0])(x[None])[0], want, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("platform", ["cpu", "cuda"])
def test_singular_values_of_cpu_and_gpu_custom_calls(platform):
  def function(a):
    return jnp.linalg.svd(a, full_matrices=False)

  exported = jax.export.export(jax.jit(function), platforms=[platform])(jax.ShapeDtypeStruct(_TALL.shape, np.float32))
  lifted = lift(Module.from_exported(exported), check_platform=False, gradient="primal")
  u, s, vt = lifted(_TALL)
  np.testing.assert_allclose((u * s) @ vt, _TALL, atol=1e-5)
  got, want = (jax.jacrev(lambda a, f=f: f(a)[1])(_TALL) for f in (lifted, function))
  np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_full_svd_of_a_gpu_custom_call():
  exported = jax.export.export(jax.jit(jnp.linalg.svd), platforms=["cuda"])(jax.ShapeDtypeStruct((4, 3), np.float32))
  u, s, vt = lift(Module.from_exported(exported), check_platform=False, gradient="primal")(_TALL)
  np.testing.assert_allclose((u[:, :3] * s) @ vt, _TALL, atol=1e-5)
  np.testing.assert_allclose(u.T @ u, np.eye(4), atol=1e-5)


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
@pytest.mark.parametrize("shape", [(4, 3), (3, 4), (2, 3, 4)])
@pytest.mark.parametrize("full_matrices", [True, False])
def test_svd_by_qr_iterations_on_gpus_of_tall_and_wide_matrices(shape, full_matrices, dtype):
  parts = np.random.default_rng(0).normal(size=(2, *shape))
  x = parts[0] + 1j * parts[1] if dtype == np.complex128 else parts[0]

  def function(a):
    return lax.linalg.svd(a, full_matrices=full_matrices, algorithm=lax.linalg.SvdAlgorithm.QR)

  with jax.enable_x64(True):
    exported = jax.export.export(jax.jit(function), platforms=["cuda"])(jax.ShapeDtypeStruct(shape, dtype))
    u, s, vt = lift(Module.from_exported(exported), check_platform=False, gradient="primal")(x)
    np.testing.assert_allclose((u[..., :3] * s[..., None, :]) @ vt[..., :3, :], x, atol=1e-12)
    assert (u.shape[-1], vt.shape[-2]) == (shape[-2:] if full_matrices else (3, 3))


def test_qr_of_a_module_of_several_platforms_is_differentiable():
  def function(a):
    return jnp.linalg.qr(a)[1]

  exported = jax.export.export(jax.jit(function), platforms=["cpu", "cuda", "tpu"])(
    jax.ShapeDtypeStruct(_TALL.shape, np.float32)
  )
  lifted = lift(Module.from_exported(exported), gradient="primal")
  got, want = (jax.jit(jax.jacfwd(f))(_TALL) for f in (lambda a: lifted(a)[0], function))
  np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_gesdd_of_hipsolver_is_thin_if_asked_for():
  def function(a):
    return lax.linalg.svd(a, full_matrices=False, algorithm=lax.linalg.SvdAlgorithm.QR)

  exported = jax.export.export(jax.jit(function), platforms=["rocm"])(jax.ShapeDtypeStruct((4, 3), np.float32))
  text = exported.mlir_module().replace("hipsolver_gesvd_ffi", "hipsolver_gesdd_ffi")
  u, s, vt = lift(Module.from_text(text), gradient="primal")(_TALL)
  np.testing.assert_allclose((u * s) @ vt, _TALL, atol=1e-5)


def test_thin_svd_by_qr_iterations_is_differentiable():
  def function(a):
    return lax.linalg.svd(a, full_matrices=False, algorithm=lax.linalg.SvdAlgorithm.QR)[1]

  check = jax.export.DisabledSafetyCheck.custom_call("lapack_sgesvd_ffi")
  spec = jax.ShapeDtypeStruct(_TALL.shape, np.float32)
  lifted = lift(
    Module.from_exported(jax.export.export(jax.jit(function), disabled_checks=[check])(spec)), gradient="primal"
  )
  np.testing.assert_allclose(
    jax.jacrev(lambda a: lifted(a)[0])(_TALL), jax.jacrev(function)(_TALL), rtol=1e-4, atol=1e-5
  )


def test_failed_cholesky_is_nan_as_in_jax():
  bad = -_A
  exported = jax.export.export(jax.jit(jnp.linalg.cholesky))(jax.ShapeDtypeStruct(bad.shape, bad.dtype))
  got = lift(Module.from_exported(exported), gradient="primal")(bad)[0]
  np.testing.assert_array_equal(got, jnp.linalg.cholesky(bad))
  assert np.isnan(got).any()


_OF_OPEN_SIZES = {
  "svd": (lambda x: lax.linalg.svd(x, compute_uv=False, full_matrices=False), "n, 3", _TALL),
  "eig": (lambda x: lax.linalg.eig(x, compute_left_eigenvectors=False), "n, n", _A),
  "schur": (lax.linalg.schur, "n, n", _A),
  "tridiagonal_solve": (lambda x: lax.linalg.tridiagonal_solve(x, x + 5, x, x[:, None]), "n", _BAND),
}


@pytest.mark.parametrize("name", list(_OF_OPEN_SIZES))
def test_results_that_jax_does_not_return_have_the_open_sizes(name):
  function, sizes, x = _OF_OPEN_SIZES[name]
  dims = jax.export.symbolic_shape(sizes, constraints=["n >= 4"])
  exported = jax.export.export(jax.jit(function))(jax.ShapeDtypeStruct(dims, x.dtype))
  found = jax.jit(lift(Module.from_exported(exported)))(x)
  for result, expected in zip(found, jax.tree.leaves(exported.call(x)), strict=True):
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)
