"""Programs of flowjax."""

from graftax.testing.jax_libraries.program import Programs, drawn


def programs() -> Programs:
  import jax
  import jax.numpy as jnp
  from flowjax import bijections, distributions, flows
  from flowjax.bijections import RationalQuadraticSpline

  x = drawn(3, 2)

  def density(make):
    flow = make()
    return lambda x: flow.log_prob(x)

  base = distributions.Normal(jnp.zeros(2))
  key = jax.random.key(0)

  return {
    "maf": (density(lambda: flows.masked_autoregressive_flow(key, base_dist=base, flow_layers=2, nn_width=4)), x),
    "coupling": (density(lambda: flows.coupling_flow(key, base_dist=base, flow_layers=2, nn_width=4)), x),
    "spline_flow": (
      density(
        lambda: flows.coupling_flow(
          key, base_dist=base, flow_layers=2, nn_width=4, transformer=RationalQuadraticSpline(knots=4, interval=2)
        )
      ),
      x,
    ),
    "planar": (density(lambda: flows.planar_flow(key, base_dist=base, flow_layers=2, negative_slope=0.1)), x),
    "triangular": (density(lambda: flows.triangular_spline_flow(key, base_dist=base, flow_layers=1)), x),
    "student": (lambda x: distributions.StudentT(jnp.ones(2) * 3).log_prob(x), x),
    "affine": (lambda x: jax.vmap(bijections.Affine(jnp.ones(2), jnp.ones(2) * 2).transform)(x), x),
    "tanh": (lambda x: jax.vmap(bijections.Tanh((2,)).inverse)(x), x),
  }
