"""Programs of jaxopt."""

from graftax.testing.jax_libraries.program import Programs, drawn


def programs() -> Programs:
  import jax.numpy as jnp
  import jaxopt

  a, b = drawn(6, 3), drawn(6, seed=1)

  def loss(w, a, b):
    return jnp.mean((a @ w - b) ** 2) + 0.1 * jnp.sum(w**2)

  def fitted(solver, *more):
    return lambda a, b: solver.run(jnp.zeros(3), *more, a, b).params

  return {
    "gradient_descent": (fitted(jaxopt.GradientDescent(loss, maxiter=20)), a, b),
    "lbfgs": (fitted(jaxopt.LBFGS(loss, maxiter=10)), a, b),
    "bfgs": (fitted(jaxopt.BFGS(loss, maxiter=10)), a, b),
    "nonlinear_cg": (fitted(jaxopt.NonlinearCG(loss, maxiter=10)), a, b),
    "proximal": (
      lambda a, b: (
        jaxopt.ProximalGradient(lambda w, d: loss(w, *d), jaxopt.prox.prox_lasso, maxiter=20)
        .run(jnp.zeros(3), 0.01, (a, b))
        .params
      ),
      a,
      b,
    ),
    "gauss_newton": (
      lambda a, b: jaxopt.GaussNewton(lambda w, a, b: a @ w - b, maxiter=5).run(jnp.zeros(3), a, b).params,
      a,
      b,
    ),
    "levenberg": (
      lambda a, b: jaxopt.LevenbergMarquardt(lambda w, a, b: a @ w - b, maxiter=5).run(jnp.zeros(3), a, b).params,
      a,
      b,
    ),
    "bisection": (
      lambda b: jaxopt.Bisection(lambda x, c: x**3 - c, 0.0, 2.0, maxiter=30, check_bracket=False).run(c=b[0]).params,
      b,
    ),
    "fixed_point": (
      lambda b: jaxopt.FixedPointIteration(lambda x, c: jnp.cos(x) * c, maxiter=30).run(jnp.zeros(6), b).params,
      b,
    ),
    "anderson": (
      lambda b: jaxopt.AndersonAcceleration(lambda x, c: jnp.cos(x) * c, maxiter=10).run(jnp.zeros(6), b).params,
      b,
    ),
    "simplex": (lambda b: jaxopt.projection.projection_simplex(b), b),
    "fenchel": (lambda b: jaxopt.loss.multiclass_sparsemax_loss(1, b), b),
    "isotonic": (lambda b: jaxopt.isotonic.isotonic_l2_pav(b), b),
  }
