"""Programs of rlax."""

from graftax.testing.jax_libraries.program import Programs, drawn


def programs() -> Programs:
  import jax.numpy as jnp
  import rlax

  x, y, z = drawn(5), drawn(5, seed=1), drawn(5, seed=2)
  logits = drawn(5, 3)
  actions = jnp.array([0, 2, 1, 1, 0])

  return {
    "q_learning": (lambda q, p: rlax.q_learning(q, 1, 0.5, 0.9, p), x, y),
    "double_q": (lambda q, p, s: rlax.double_q_learning(q, 1, 0.5, 0.9, p, s), x, y, z),
    "td_lambda": (lambda v, r: rlax.td_lambda(v, r, jnp.full(5, 0.9), v, 0.8), x, y),
    "gae": (lambda v, r: rlax.truncated_generalized_advantage_estimation(r[:4], jnp.full(4, 0.9), 0.9, v), x, y),
    "vtrace": (lambda v, r: rlax.vtrace(v, v, r, jnp.full(5, 0.9), jnp.ones(5)), x, y),
    "policy_gradient": (lambda t, a: rlax.policy_gradient_loss(t, actions, a, jnp.ones(5)), logits, x),
    "ppo": (lambda r, a: rlax.clipped_surrogate_pg_loss(r, a, 0.2), x, y),
    "quantile": (lambda d: rlax.quantile_q_learning(d, jnp.linspace(0.1, 0.9, 5), 1, 0.5, 0.9, d, d), drawn(5, 3)),
    "categorical_td": (
      lambda t: rlax.categorical_td_learning(jnp.linspace(0, 1, 5), t, 0.5, 0.9, jnp.linspace(0, 1, 5), t * 2),
      x,
    ),
    "retrace": (lambda q, r: rlax.lambda_returns(r, jnp.full(5, 0.9), q, 0.7), x, y),
    "signed_hyperbolic": (lambda v: rlax.signed_hyperbolic(rlax.signed_parabolic(v)), x),
    "entropy": (lambda t: rlax.softmax().entropy(t), logits),
  }
