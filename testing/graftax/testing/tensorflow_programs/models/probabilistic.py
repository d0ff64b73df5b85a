"""Distributions, filters and samplers."""

from graftax.testing.harness.conversion_case import Collector, integers, normal, uniform
from graftax.testing.tensorflow_programs.layers import with_layers

define = Collector("probabilistic", with_layers)

_LOOSE = (1e-4, 1e-5)


@define(normal(3, 4), normal(3), checks=("jit", "batch", "grad", "param_grad"), tolerance=_LOOSE)
def mixture_density_network(tf, layers, x, y):
  hidden = layers.dense("hidden", x, 16, tf.tanh)
  logits, means, raw = tf.split(layers.dense("out", hidden, 15), 3, -1)
  scales = tf.nn.softplus(raw) + 1e-3
  each = -0.5 * ((y[:, None] - means) / scales) ** 2 - tf.math.log(scales) - 0.919
  return tf.reduce_logsumexp(tf.nn.log_softmax(logits) + each, -1)


@define(
  uniform(3, low=0.5, high=4.0),
  uniform(3, low=0.5, high=4.0, seed=1),
  checks=("jit", "batch", "grad"),
  tolerance=_LOOSE,
)
def special_distributions(tf):
  def densities(a, b):
    gamma = a * tf.math.log(b) - tf.math.lgamma(a) + (a - 1.0) * tf.math.log(2.0) - 2.0 * b
    beta = tf.math.lbeta(tf.stack([a, b], -1))
    student = tf.math.lgamma((a + 1.0) / 2.0) - tf.math.lgamma(a / 2.0) - (a + 1.0) / 2.0 * tf.math.log1p(b**2 / a)
    return gamma, beta, student, tf.math.betainc(a, b, tf.fill(tf.shape(a), 0.3)), tf.math.digamma(a)

  return tf.function(densities)


@define(normal(2, 6, 2), checks=("jit", "batch", "grad", "param_grad"), tolerance=(1e-3, 1e-4))
def kalman_filter(tf, layers, observed):
  step = 0.9 * tf.eye(3) + 0.1 * layers.weight("step", 3, 3)
  project = layers.weight("project", 2, 3)
  batch = tf.shape(observed)[0]
  mean, covariance = tf.zeros([batch, 3]), tf.eye(3, batch_shape=[batch])
  means = tf.TensorArray(tf.float32, 6)
  for i in tf.range(6):
    mean, covariance = mean @ tf.transpose(step), step @ covariance @ tf.transpose(step) + 0.1 * tf.eye(3)
    spread = project @ covariance @ tf.transpose(project) + 0.2 * tf.eye(2)
    gain = tf.linalg.matrix_transpose(tf.linalg.cholesky_solve(tf.linalg.cholesky(spread), project @ covariance))
    mean += tf.linalg.matvec(gain, observed[:, i] - tf.linalg.matvec(project, mean))
    covariance -= gain @ project @ covariance
    means = means.write(i, mean)
  return tf.transpose(means.stack(), [1, 0, 2]), covariance


@define(normal(6, 2), normal(4, 2, seed=2), checks=("jit", "grad"), tolerance=(1e-3, 1e-4))
def gaussian_process(tf, layers, known, asked):
  kernel = lambda a, b: tf.exp(-0.5 * tf.reduce_sum((a[:, None] - b[None]) ** 2, -1))  # noqa: E731
  factor = tf.linalg.cholesky(kernel(known, known) + 0.1 * tf.eye(6))
  solved = tf.linalg.triangular_solve(factor, kernel(known, asked))
  values = layers.dense("values", known, 1)
  mean = tf.matmul(solved, tf.linalg.triangular_solve(factor, values), transpose_a=True)
  return mean[:, 0], 1.0 - tf.reduce_sum(solved**2, 0), tf.linalg.logdet(factor)


@define(normal(3, 5), integers(2, high=99), checks=("jit", "batch"), tolerance=_LOOSE, batched=(0,))
def hamiltonian_monte_carlo(tf):
  def sample(start, seed):
    energy = lambda x: tf.reduce_sum(0.25 * x**4 - x**2, -1)  # noqa: E731

    def force(x):
      with tf.GradientTape() as tape:
        tape.watch(x)
        value = energy(x)
      return tape.gradient(value, x)

    x = start
    for i in tf.range(3):
      momentum = tf.random.stateless_normal(tf.shape(x), seed + i)
      new, p = x, momentum - 0.05 * force(x)
      for _ in tf.range(4):
        new += 0.1 * p
        p -= 0.1 * force(new)
      p += 0.05 * force(new)
      before = energy(x) + 0.5 * tf.reduce_sum(momentum**2, -1)
      ratio = before - energy(new) - 0.5 * tf.reduce_sum(p**2, -1)
      u = tf.random.stateless_uniform(tf.shape(ratio), seed + 100 + i)
      x = tf.where((tf.math.log(u) < ratio)[:, None], new, x)
    return x

  return tf.function(sample)


@define(normal(2, 5, 3), integers(2, low=2, high=6), checks=("jit", "batch", "grad", "param_grad"), tolerance=_LOOSE)
def conditional_random_field(tf, layers, unary, lengths):
  transitions = layers.weight("transitions", 3, 3)
  alpha = unary[:, 0]
  best, back = unary[:, 0], tf.TensorArray(tf.int32, 4)
  for i in tf.range(1, 5):
    is_live = (i < lengths)[:, None]
    new = tf.reduce_logsumexp(alpha[:, :, None] + transitions, 1) + unary[:, i]
    alpha = tf.where(is_live, new, alpha)
    scores = best[:, :, None] + transitions
    back = back.write(i - 1, tf.argmax(scores, 1, output_type=tf.int32))
    best = tf.where(is_live, tf.reduce_max(scores, 1) + unary[:, i], best)
  return tf.reduce_logsumexp(alpha, -1), tf.reduce_max(best, -1), back.stack()[-1]
