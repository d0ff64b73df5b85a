"""Programs of dynamax."""

from graftax.testing.jax_libraries.program import Programs, drawn


def programs() -> Programs:
  import jax.numpy as jnp
  from dynamax.hidden_markov_model import inference as hmm
  from dynamax.linear_gaussian_ssm import inference as lgssm
  from dynamax.linear_gaussian_ssm import parallel_inference
  from dynamax.nonlinear_gaussian_ssm import ParamsNLGSSM, extended_kalman_filter

  obs, like = drawn(6, 2), drawn(6, 3)
  start, move = jnp.array([0.2, 0.3, 0.5]), jnp.array([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])
  eye = jnp.eye(2)
  linear = lgssm.make_lgssm_params(jnp.zeros(2), eye, 0.9 * eye, 0.1 * eye, eye, 0.2 * eye)
  bent = ParamsNLGSSM(jnp.zeros(2), eye, jnp.sin, 0.1 * eye, jnp.tanh, 0.2 * eye)

  return {
    "hmm_filter": (lambda like: hmm.hmm_filter(start, move, jnp.log(like)).marginal_loglik, like),
    "hmm_smoother": (lambda like: hmm.hmm_smoother(start, move, jnp.log(like)).smoothed_probs, like),
    "viterbi": (lambda like: hmm.hmm_posterior_mode(start, move, jnp.log(like)), like),
    "kalman_filter": (lambda y: lgssm.lgssm_filter(linear, y).filtered_means, obs),
    "kalman_smoother": (lambda y: lgssm.lgssm_smoother(linear, y).smoothed_means, obs),
    "parallel_smoother": (lambda y: parallel_inference.lgssm_smoother(linear, y).smoothed_means, obs),
    "extended": (lambda y: extended_kalman_filter(bent, y).filtered_means, obs),
  }
