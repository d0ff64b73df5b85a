"""Programs of orthax."""

from graftax.testing.jax_libraries.program import Programs, drawn


def programs() -> Programs:
  import jax.numpy as jnp
  import orthax

  c, x = drawn(5), drawn(7, seed=1)

  return {
    "chebyshev": (lambda c, x: orthax.chebyshev.chebval(x, c), c, x),
    "chebyshev_derivative": (lambda c, x: orthax.chebyshev.chebval(x, orthax.chebyshev.chebder(c)), c, x),
    "legendre_fit": (lambda x, c: orthax.legendre.legfit(x[:5], c, 2), x, c),
    "legendre_integral": (lambda c: orthax.legendre.legint(c), c),
    "hermite": (lambda c, x: orthax.hermite.hermval(x, c), c, x),
    "hermite_e": (lambda c: orthax.hermite_e.hermemul(c, c), c),
    "laguerre": (lambda c, x: orthax.laguerre.lagvander(x, 3) @ c[:4], c, x),
    "polynomial_roots": (lambda c: jnp.abs(orthax.polynomial.polyroots(c)).sum(), c),
    "polynomial_division": (lambda c, x: orthax.polynomial.polydiv(x, c), c, x),
    "gauss": (lambda c: orthax.legendre.legval(orthax.legendre.leggauss(4)[0], c), c),
  }
