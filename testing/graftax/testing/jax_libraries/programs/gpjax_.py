"""Programs of gpjax."""

from graftax.testing.jax_libraries.program import Programs, drawn


def programs() -> Programs:
  import gpjax as gpx

  x, y = drawn(6, 1), drawn(6, 1, seed=1)

  def kernel(make):
    return lambda x: make().gram(x).to_dense() if hasattr(make().gram(x), "to_dense") else make().gram(x).as_matrix()

  def posterior(x, y):
    prior = gpx.gps.Prior(mean_function=gpx.mean_functions.Constant(), kernel=gpx.kernels.RBF())
    data = gpx.Dataset(x, y)
    return gpx.objectives.conjugate_mll(prior * gpx.likelihoods.Gaussian(), data)

  def predicted(x, y):
    prior = gpx.gps.Prior(mean_function=gpx.mean_functions.Zero(), kernel=gpx.kernels.Matern52())
    latent = (prior * gpx.likelihoods.Gaussian()).predict(x + 0.1, train_data=gpx.Dataset(x, y))
    return latent.mean

  def cross(make):
    return lambda x, y: make().cross_covariance(x, y)

  return {
    "mll": (posterior, x, y),
    "prediction": (predicted, x, y),
    "rbf": (cross(gpx.kernels.RBF), x, y),
    "matern32": (cross(gpx.kernels.Matern32), x, y),
    "periodic": (cross(gpx.kernels.Periodic), x, y),
    "rational_quadratic": (cross(gpx.kernels.RationalQuadratic), x, y),
    "polynomial": (cross(gpx.kernels.Polynomial), x, y),
    "white_sum": (cross(lambda: gpx.kernels.RBF() + gpx.kernels.Linear()), x, y),
  }
