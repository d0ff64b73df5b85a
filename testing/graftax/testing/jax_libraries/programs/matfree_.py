"""Programs of matfree."""

from graftax.testing.jax_libraries.program import Programs, drawn


def programs() -> Programs:
  import jax
  import jax.numpy as jnp
  from matfree import decomp, funm

  a, v = drawn(5, 5), drawn(5, seed=1)

  def symmetric(a):
    return a @ a.T + jnp.eye(5)

  def trace(a, v):
    return jnp.vdot(v, symmetric(a) @ v)

  def lanczos(a, v):
    run = decomp.tridiag_sym(3)
    return jax.tree.leaves(run(lambda s, p: symmetric(p) @ s, v, a))

  def arnoldi(a, v):
    run = decomp.hessenberg(3, reortho="full")
    return jax.tree.leaves(run(lambda s, p: p @ s, v, a))

  def bidiagonal(a, v):
    return jax.tree.leaves(decomp.bidiag(3)(lambda s, p: p @ s, v, a))

  def logdet(a, v):
    integrand = funm.monte_carlo_funm_sym_logdet(decomp.tridiag_sym(3))
    return integrand(lambda s, p: symmetric(p) @ s, v, a)

  return {
    "quadratic": (trace, a, v),
    "lanczos": (lanczos, a, v),
    "arnoldi": (arnoldi, a, v),
    "bidiagonal": (bidiagonal, a, v),
    "logdet": (logdet, a, v),
  }
