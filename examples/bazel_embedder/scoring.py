"""A JAX program with a part that arrived as StableHLO."""

import jax
import jax.numpy as jnp

from graftax.xla_call_module import Module, lift

_SCORE = """
module @score {
  func.func public @main(%x: tensor<3xf32>) -> tensor<f32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %square = stablehlo.multiply %x, %x : tensor<3xf32>
    %sum = stablehlo.reduce(%square init: %zero) applies stablehlo.add across dimensions = [0]
        : (tensor<3xf32>, tensor<f32>) -> tensor<f32>
    return %sum : tensor<f32>
  }
}
"""


def score_gradients(rows: jax.Array) -> jax.Array:
  """Returns the gradient of the score of each row, `[n, 3]`."""
  score = lift(Module.from_text(_SCORE))
  return jax.vmap(jax.grad(lambda x: score(x)[0]))(jnp.asarray(rows))
