"""Programs of coordax."""

from graftax.testing.jax_libraries.program import Programs, drawn


def programs() -> Programs:
  import coordax as cx
  import jax.numpy as jnp

  x = drawn(4, 3)

  def field(x):
    return cx.field(x, "t", "u")

  return {
    "mean": (lambda x: cx.cmap(jnp.mean)(field(x).untag("t")).data, x),
    "product": (lambda x: cx.cmap(jnp.vdot)(field(x).untag("t"), field(x).untag("t")).data, x),
  }
