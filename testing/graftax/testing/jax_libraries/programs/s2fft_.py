"""Programs of s2fft."""

from graftax.testing.jax_libraries.program import Programs, drawn


def programs() -> Programs:
  import jax.numpy as jnp
  import s2fft

  f = drawn(4, 7)

  def spectrum(f):
    flm = s2fft.forward(f, L=4, method="jax")
    return jnp.abs(flm) ** 2

  def round_trip(f):
    flm = s2fft.forward(f, L=4, method="jax", reality=True)
    return s2fft.inverse(flm, L=4, method="jax", reality=True)

  return {"spectrum": (spectrum, f), "round_trip": (lambda f: jnp.real(round_trip(f)), f)}
