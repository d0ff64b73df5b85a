"""Programs of distrax."""

from graftax.testing.jax_libraries.program import Programs, drawn


def programs() -> Programs:
  import distrax
  import jax
  import jax.numpy as jnp

  x = drawn(6)
  key = jax.random.key_data(jax.random.key(0))

  def normal(x):
    d = distrax.Normal(x[0], x[1])
    return d.log_prob(x), d.entropy(), d.kl_divergence(distrax.Normal(0.0, 1.0))

  return {
    "normal": (normal, x),
    "gamma": (lambda x: distrax.Gamma(x[0] + 1, x[1]).log_prob(x), x),
    "beta": (lambda x: distrax.Beta(x[0] + 1, x[1] + 1).log_prob(x), x),
    "categorical": (lambda x: (distrax.Categorical(logits=x).entropy(), distrax.Categorical(logits=x).log_prob(2)), x),
    "categorical_sample": (lambda x, k: distrax.Categorical(logits=x).sample(seed=jax.random.wrap_key_data(k)), x, key),
    "mixture": (
      lambda x: distrax.MixtureSameFamily(distrax.Categorical(logits=x[:3]), distrax.Normal(x[3:], 1.0)).log_prob(x[0]),
      x,
    ),
    "mvn": (lambda x: distrax.MultivariateNormalTri(x[:2], x[2:].reshape(2, 2) + jnp.eye(2)).log_prob(x[:2] * 2), x),
    "spline": (
      lambda x: distrax.RationalQuadraticSpline(
        jnp.linspace(0, 1, 13), range_min=0.0, range_max=1.0
      ).forward_and_log_det(x),
      x,
    ),
    "masked_coupling": (
      lambda x: distrax.MaskedCoupling(
        jnp.arange(6) % 2 == 0, lambda y: jnp.stack([y, y]), lambda p: distrax.ScalarAffine(p[0], jnp.exp(p[1]))
      ).forward_and_log_det(x)[0],
      x,
    ),
    "tanh_normal": (lambda x: distrax.Transformed(distrax.Normal(x[0], x[1]), distrax.Tanh()).log_prob(x / 2), x),
    "hmm": (
      lambda x: distrax.HMM(
        distrax.Categorical(probs=jnp.array([0.4, 0.6])),
        distrax.Categorical(probs=jnp.array([[0.9, 0.1], [0.2, 0.8]])),
        distrax.Normal(x[:2], jnp.ones(2)),
      ).forward(x)[0],
      x,
    ),
    "gumbel_sample": (
      lambda x, k: distrax.Gumbel(x, 1.0).sample(seed=jax.random.wrap_key_data(k), sample_shape=3),
      x,
      key,
    ),
  }
