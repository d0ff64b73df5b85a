"""Programs of quax and chex."""

from graftax.testing.jax_libraries.program import Programs, drawn


def programs() -> Programs:
  import chex
  import jax
  import jax.numpy as jnp
  import quax
  from quax.examples import lora

  x, w = drawn(3), drawn(4, 3)

  def low_rank(w, x):
    return quax.quaxify(jnp.matmul)(lora.LoraArray(w, rank=2, key=jax.random.key(0)), x)

  @chex.dataclass
  class Pair:
    left: chex.Array
    right: chex.Array

  return {
    "lora": (low_rank, w, x),
    "dataclass": (lambda x: jax.tree.leaves(jax.tree.map(jnp.sin, Pair(left=x, right=x * 2))), x),
  }
