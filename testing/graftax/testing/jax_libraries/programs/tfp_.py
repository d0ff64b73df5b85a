"""Programs of tensorflow_probability.substrates.jax."""

from graftax.testing.jax_libraries.program import Programs, drawn


def programs() -> Programs:
  import jax
  import jax.numpy as jnp
  from tensorflow_probability.substrates import jax as tfp

  tfd, tfb, x = tfp.distributions, tfp.bijectors, drawn(5)
  key = jax.random.key_data(jax.random.key(0))

  def mcmc(x):
    kernel = tfp.mcmc.HamiltonianMonteCarlo(lambda z: -jnp.sum((z - x) ** 2), 0.1, 3)
    return tfp.mcmc.sample_chain(3, current_state=jnp.zeros(5), kernel=kernel, trace_fn=None, seed=jax.random.key(0))

  return {
    "student": (lambda x: tfd.StudentT(x[0] + 2, 0.0, 1.0).log_prob(x), x),
    "von_mises": (lambda x: tfd.VonMises(0.0, x[0]).log_prob(x), x),
    "dirichlet": (lambda x: tfd.Dirichlet(x + 1).log_prob(x / x.sum()), x),
    "gamma_kl": (lambda x: tfd.kl_divergence(tfd.Gamma(x[0] + 1, x[1]), tfd.Gamma(x[2] + 1, x[3])), x),
    "weibull": (lambda x: tfd.Weibull(x[0] + 1, 1.0).cdf(x), x),
    "skellam": (lambda x: tfd.NegativeBinomial(x[0] + 1, logits=x[1]).log_prob(jnp.arange(5.0)), x),
    "wishart": (lambda x: tfd.WishartTriL(3.0, jnp.eye(2)).log_prob(jnp.eye(2) * (x[0] + 1)), x),
    "gp": (
      lambda x: tfd.GaussianProcess(
        tfp.math.psd_kernels.MaternFiveHalves(), x[:, None], observation_noise_variance=0.1
      ).log_prob(x),
      x,
    ),
    "bijector_chain": (lambda x: tfb.Chain([tfb.Softplus(), tfb.Shift(0.3), tfb.Sigmoid()]).forward(x), x),
    "cholesky": (lambda x: tfb.FillScaleTriL().inverse_log_det_jacobian(tfb.FillScaleTriL().forward(x[:3]), 2), x),
    "stick": (lambda x: tfb.IteratedSigmoidCentered().forward(x), x),
    "lambertw": (lambda x: tfp.math.lambertw(x), x),
    "bessel": (lambda x: tfp.math.bessel_ive(0.5, x), x),
    "ode": (
      lambda x: tfp.math.ode.DormandPrince().solve(lambda t, y: -y * 0.5, 0.0, x, solution_times=[0.5, 1.0]).states,
      x,
    ),
    "hmc": (mcmc, x),
    "bfgs": (
      lambda x: (
        tfp.optimizer.bfgs_minimize(
          jax.value_and_grad(lambda w: jnp.sum((w - x) ** 4 + w**2)), jnp.zeros(5), max_iterations=5
        ).position
      ),
      x,
    ),
    "sample_gamma": (lambda x, k: tfd.Gamma(x + 1, 1.0).sample(seed=jax.random.wrap_key_data(k)), x, key),
  }
