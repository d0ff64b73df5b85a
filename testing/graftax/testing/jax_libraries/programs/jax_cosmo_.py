"""Programs of jax_cosmo."""

from graftax.testing.jax_libraries.program import Programs, drawn


def programs() -> Programs:
  import jax.numpy as jnp
  import jax_cosmo as jc

  a, p = drawn(4, low=0.3), drawn(2, low=0.2, high=0.4)

  def cosmology(p):
    return jc.Planck15(Omega_c=p[0], sigma8=p[1] + 0.5)

  return {
    "distance": (lambda p, a: jc.background.radial_comoving_distance(cosmology(p), a), p, a),
    "angular": (lambda p, a: jc.background.angular_diameter_distance(cosmology(p), a), p, a),
    "growth": (lambda p, a: jc.background.growth_factor(cosmology(p), a), p, a),
    "hubble": (lambda p, a: jc.background.H(cosmology(p), a), p, a),
    # JAX compiles second derivatives of the power spectra for more than five minutes.
    "transfer": (lambda p: jc.transfer.Eisenstein_Hu(cosmology(p), jnp.array([0.01, 0.1, 1.0])), p),
    "primordial": (lambda p: jc.power.primordial_matter_power(cosmology(p), jnp.array([0.01, 0.1, 1.0])), p),
  }
