"""Modules for compilers that read StableHLO and have no custom calls."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.lax import linalg

from graftax.xla_call_module import LiftError, Module, VersionError, lift, mlir
from graftax.xla_call_module.exporting import Target, export_call_module


def _module(function, *arrays, version=None):
  specs = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in arrays]
  return export_call_module(function, specs, target=Target.compiler(version), platforms=("cpu",))


def _results(function, *arrays):
  data = _module(function, *arrays).attributes["module"]
  text = mlir.to_text(data)
  assert "stablehlo.cholesky" not in text
  assert "stablehlo.triangular_solve" not in text
  return lift(Module.from_bytes(data))(*arrays)


def _draw(dtype):
  random = np.random.default_rng(0)
  values = random.standard_normal((2, 5, 5)) + (1j * random.standard_normal((2, 5, 5)) if dtype[0] == "c" else 0)
  return values.astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_cholesky_decompositions_are_loops(dtype):
  a = _draw(dtype)
  positive = a @ a.conj().mT + 2 * np.eye(5, dtype=dtype)
  positive[1, 3, 3] = -9
  (found,) = _results(lambda x: [linalg.cholesky(x, symmetrize_input=False)], positive)
  np.testing.assert_allclose(found[0], np.linalg.cholesky(positive[0]), rtol=1e-5, atol=1e-5)
  assert np.isnan(found[1][np.tril_indices(5)]).all()  # as JAX returns for a matrix that is not positive definite
  assert found.dtype == dtype


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("left_side", [False, True])
def test_triangular_systems_are_loops(dtype, lower, left_side):
  a, b = _draw(dtype) + 4 * np.eye(5, dtype=dtype), _draw(dtype)[:, :3] + 1

  def solve(a, b):
    options = {"left_side": left_side, "lower": lower}
    return [
      linalg.triangular_solve(a, b, **options),
      linalg.triangular_solve(a, b, **options, transpose_a=True),
      linalg.triangular_solve(a, b, **options, transpose_a=True, conjugate_a=True),
      linalg.triangular_solve(a, b, **options, conjugate_a=True, unit_diagonal=True),
    ]

  b = b.mT.copy() if left_side else b
  for found, expected in zip(_results(solve, a, b), solve(a, b), strict=True):
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)


def test_a_custom_call_is_refused_by_name():
  with pytest.raises(LiftError, match="custom call 'Qr'.*which StableHLO .* does not have on cpu"):
    _module(lambda x: list(jnp.linalg.qr(x)), np.ones((3, 3), np.float32))


def test_modules_have_the_version_that_is_asked_for_or_an_old_one_and_no_source_files():
  def function(x):
    return [jax.nn.softmax(x)]

  x = np.ones((2, 3), np.float32)
  newest = ".".join(map(str, mlir.current_version()))
  for version in ("1.1.0", newest):
    module = _module(function, x, version=version)
    assert module.target.stablehlo_text == version
    assert f"StableHLO_v{version}".encode() in module.attributes["module"]
  oldest = _module(function, x)
  assert oldest.target.stablehlo_text == "0.17.7"
  assert not oldest.target.has_custom_calls
  assert b"compilers_test" not in oldest.attributes["module"]
  for version in ("99.0.0", "0.1.0"):
    with pytest.raises(VersionError, match=f"StableHLO {version} cannot be written: the installed jaxlib writes"):
      Target.compiler(version)
