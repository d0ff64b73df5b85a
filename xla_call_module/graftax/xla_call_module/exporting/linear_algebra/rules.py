"""The functions of this room by primitive, as lowering rules."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.lax import linalg

from graftax.xla_call_module import mlir
from graftax.xla_call_module.exporting.linear_algebra import eigh, householder, lu, refusals, solvers, svd

__all__ = ["lowering_rules"]

_ONE_RESULT: dict[Any, Callable[..., Any]] = {
  linalg.cholesky_p: solvers.cholesky,
  linalg.householder_product_p: householder.householder_product,
  linalg.lu_pivots_to_permutation_p: lu.pivots_to_permutation,
  linalg.ormqr_p: householder.ormqr,
  linalg.triangular_solve_p: solvers.triangular_solve,
  linalg.tridiagonal_solve_p: solvers.tridiagonal_solve,
}

_GENERAL = "Eigenvalues of Hermitian matrices (eigh) can be exported."

_SEVERAL_RESULTS: dict[Any, Callable[..., Any]] = {
  linalg.eig_p: refusals.refusal("eig", _GENERAL),
  linalg.eigh_p: eigh.eigh,
  linalg.hessenberg_p: refusals.refusal("hessenberg", _GENERAL),
  linalg.lu_p: lu.lu,
  linalg.qr_p: householder.qr,
  linalg.schur_p: refusals.refusal("schur", f"sqrtm needs it, too. {_GENERAL}"),
  linalg.svd_p: svd.svd,
  linalg.tridiagonal_p: refusals.refusal("tridiagonal", _GENERAL),
}


# In place of the ops of StableHLO that IREE does not compile.
_BY_LOOPS: dict[Any, Callable[..., Any]] = {
  linalg.cholesky_p: solvers.cholesky_by_columns,
  linalg.triangular_solve_p: solvers.triangular_solve_by_rows,
}


@functools.cache
def lowering_rules(*, by_loops: bool = False) -> tuple[tuple[Any, Any], ...]:
  """Returns pairs of a primitive and its lowering rule.

  Args:
    by_loops: write Cholesky decompositions and triangular systems as loops, not as ops of StableHLO.
  """
  functions = _ONE_RESULT | _BY_LOOPS if by_loops else _ONE_RESULT
  one = [(primitive, mlir.lowering_of(function, multiple_results=False)) for primitive, function in functions.items()]
  several = [(primitive, mlir.lowering_of(function)) for primitive, function in _SEVERAL_RESULTS.items()]
  return (*one, *several, (_geqrf(), mlir.lowering_of(householder.geqrf)))


def _geqrf() -> Any:
  """Returns the primitive of raw QR decompositions, which JAX does not list."""
  jaxpr = jax.make_jaxpr(lambda a: jnp.linalg.qr(a, mode="raw"))(jax.ShapeDtypeStruct((2, 2), jnp.float32))
  return _find(jaxpr.jaxpr, "geqrf")


def _find(jaxpr: Any, name: str) -> Any:
  for eqn in jaxpr.eqns:
    if eqn.primitive.name == name:
      return eqn.primitive
    for param in eqn.params.values():
      inner = getattr(param, "jaxpr", param)
      found = _find(inner, name) if hasattr(inner, "eqns") else None
      if found is not None:
        return found
  return None
