"""Programs of mctx."""

from graftax.testing.jax_libraries.program import Programs, drawn


def programs() -> Programs:
  import jax
  import jax.numpy as jnp
  import mctx

  logits, value = drawn(2, 3), drawn(2, seed=1)

  def model(params, key, action, embedding):
    out = mctx.RecurrentFnOutput(
      reward=embedding, discount=jnp.full(2, 0.9), prior_logits=params * (1 + action[:, None]), value=embedding * 0.5
    )
    return out, embedding * 0.9

  def search(policy, **options):
    def function(logits, value):
      root = mctx.RootFnOutput(prior_logits=logits, value=value, embedding=value)
      out = policy(logits, jax.random.key(0), root, model, num_simulations=4, **options)
      return out.action_weights, out.search_tree.node_values

    return function

  return {
    "muzero": (search(mctx.muzero_policy, dirichlet_fraction=0.0), logits, value),
    "gumbel": (search(mctx.gumbel_muzero_policy, gumbel_scale=0.0), logits, value),
  }
