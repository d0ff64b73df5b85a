"""`tf.custom_gradient` and functions built on it."""

from graftax.testing.harness.conversion_case import Collector, normal

define = Collector("custom_gradient")

_ALL = ("value", "jit", "grad", "vmap", "batch")
_X = normal(4, 3)


@define(_X, checks=_ALL)
def clipped_backward(tf):
  @tf.custom_gradient
  def clip(x):
    return tf.identity(x), lambda dy: tf.clip_by_value(dy, -0.7, 0.7)

  return lambda x: clip(x * 2.0) ** 2


@define(_X, checks=_ALL)
def straight_through(tf):
  @tf.custom_gradient
  def round_(x):
    return tf.round(x), lambda dy: dy

  return lambda x: round_(x * 3.0) * x


@define(_X, checks=(*_ALL, "second_order"))
def stable_log1pexp(tf):
  @tf.custom_gradient
  def log1pexp(x):
    e = tf.exp(x)
    return tf.math.log(1.0 + e), lambda dy: dy * (1.0 - 1.0 / (1.0 + e))

  return lambda x: log1pexp(x) * 2.0


@define(_X, normal(4, 3, seed=1), checks=_ALL)
def several_arguments_and_results(tf):
  @tf.custom_gradient
  def both(a, b):
    return (a * b, a + b), lambda da, db: (da * 2.0 + db, db * b)

  def f(a, b):
    p, s = both(a, b)
    return p * s

  return f


@define(_X, checks=("value", "jit", "grad", "vmap"))
def reversal_in_a_branch(tf):
  @tf.custom_gradient
  def reverse(x):
    return tf.identity(x), lambda dy: -dy

  def f(x):
    if tf.reduce_sum(x) > -100.0:
      y = reverse(x) * x
    else:
      y = x
    return y

  return f


@define(_X, checks=("value", "jit", "grad", "vmap"))
def inside_a_loop(tf):
  @tf.custom_gradient
  def damp(x):
    return x * 1.1, lambda dy: dy * 0.5

  def f(x):
    for _ in tf.range(3):
      x = damp(tf.sin(x))
    return x

  return f


@define(_X, checks=("value", "jit", "grad", "param_grad", "vmap"))
def with_a_variable(tf):
  w = tf.Variable(normal(3, seed=1), name="w")

  @tf.custom_gradient
  def scaled(x):
    def grad(dy, variables=None):
      return dy * w * 2.0, [tf.reduce_sum(dy * x, 0) * 3.0]

    return x * w, grad

  return lambda x: scaled(x) + x


@define(_X, checks=("value", "jit", "grad", "param_grad"))
def recomputed(tf):
  w = tf.Variable(normal(3, 3, seed=1), name="w")

  @tf.recompute_grad
  def block(x):
    return tf.tanh(x @ w)

  return lambda x: block(block(x))
