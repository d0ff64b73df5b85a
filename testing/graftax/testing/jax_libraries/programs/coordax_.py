"""Programs of coordax."""

from graftax.testing.jax_libraries.program import Program, drawn

__all__ = ["programs"]


def programs() -> list[Program]:
  """Returns the programs."""
  import coordax as cx
  import jax.numpy as jnp

  x = drawn(4, 3)

  def field(x):
    return cx.field(x, "t", "u")

  found = {
    "mean": (lambda x: cx.cmap(jnp.mean)(field(x).untag("t")).data, x),
    "product": (lambda x: cx.cmap(jnp.vdot)(field(x).untag("t"), field(x).untag("t")).data, x),
  }
  return [Program(name, function, tuple(args)) for name, (function, *args) in found.items()]
