"""Gradients in the graph."""

from graftax.testing.harness.conversion_case import SMOOTH, Collector, normal, uniform

define = Collector("gradients")

_NO_BATCH = ("value", "jit", "grad", "vmap", "second_order")


@define(normal(4, 3), checks=SMOOTH)
def tape_of_a_polynomial(tf, x):
  with tf.GradientTape() as tape:
    tape.watch(x)
    y = tf.reduce_sum(x**3 + 2.0 * x)
  return tape.gradient(y, x)


@define(normal(3), checks=_NO_BATCH)
def jacobian(tf, x):
  with tf.GradientTape() as tape:
    tape.watch(x)
    y = tf.stack([tf.sin(x[0]) * x[1], x[2] ** 2, tf.reduce_prod(x)])
  return tape.jacobian(y, x)


@define(normal(4, 3), checks=_NO_BATCH)
def batch_jacobian(tf, x):
  with tf.GradientTape() as tape:
    tape.watch(x)
    y = tf.tanh(x @ tf.constant(normal(3, 2, seed=1)))
  return tape.batch_jacobian(y, x)


@define(normal(3), checks=("value", "jit", "grad", "vmap"))
def hessian(tf, x):
  with tf.GradientTape() as outer:
    outer.watch(x)
    with tf.GradientTape() as inner:
      inner.watch(x)
      y = tf.reduce_sum(tf.sin(x) * x[::-1])
    g = inner.gradient(y, x)
  return outer.jacobian(g, x)


@define(normal(4, 3), normal(4, 3, seed=1), checks=_NO_BATCH)
def jacobian_vector_product(tf, x, v):
  with tf.autodiff.ForwardAccumulator(x, v) as acc:
    y = tf.tanh(x) * x
  return acc.jvp(y)


@define(normal(4, 3), checks=("value", "jit", "grad", "vmap"))
def gradient_penalty(tf):
  w = tf.constant(normal(3, 5, seed=1))

  def f(x):
    with tf.GradientTape() as tape:
      tape.watch(x)
      y = tf.reduce_sum(tf.nn.softplus(x @ w))
    g = tape.gradient(y, x)
    return tf.reduce_mean((tf.norm(g, axis=1) - 1.0) ** 2)

  return f


@define(normal(2, 6, 6, 3), checks=("value", "jit", "grad", "vmap"), tolerance=(1e-4, 1e-5))
def convolution_gradients(tf):
  kernel = tf.constant(normal(3, 3, 3, 4, seed=1))

  def f(x):
    with tf.GradientTape() as tape:
      tape.watch([x, kernel])
      y = tf.reduce_sum(tf.nn.relu(tf.nn.conv2d(x, kernel, 2, "SAME")) ** 2)
    return tape.gradient(y, [x, kernel])

  return f


@define(normal(2, 6, 6, 3), checks=("value", "jit", "vmap"))
def pooling_gradients(tf, x):
  with tf.GradientTape(persistent=True) as tape:
    tape.watch(x)
    y = tf.reduce_sum(tf.nn.max_pool2d(x, 2, 2, "VALID") ** 2)
    z = tf.reduce_sum(tf.nn.avg_pool2d(x, 3, 1, "SAME") ** 2)
  return tape.gradient(y, x) + tape.gradient(z, x)


@define(normal(4, 3), checks=("value", "jit", "grad", "vmap"))
def gradient_through_a_loop(tf, x):
  with tf.GradientTape() as tape:
    tape.watch(x)
    y = x
    for i in tf.range(4):
      y = tf.sin(y) * x + tf.cast(i, tf.float32)
    total = tf.reduce_sum(y)
  return tape.gradient(total, x)


@define(normal(4, 3), checks=("value", "jit", "grad", "vmap"))
def gradient_through_a_condition(tf, x):
  with tf.GradientTape() as tape:
    tape.watch(x)
    y = tf.cond(tf.reduce_sum(x) > 0.0, lambda: tf.exp(x) * x, lambda: tf.cos(x))
    total = tf.reduce_sum(y * x)
  return tape.gradient(total, x)


@define(normal(4, 3), checks=("value", "jit", "grad", "vmap"))
def gradient_through_conditions_in_a_condition(tf, x):
  with tf.GradientTape() as tape:
    tape.watch(x)
    inner = lambda: tf.cond(x[0, 0] > 0.0, lambda: tf.exp(x) * x, lambda: tf.sin(x) * x)  # noqa: E731
    y = tf.cond(tf.reduce_sum(x) > 0.0, inner, lambda: tf.cos(x) ** 2)
    total = tf.reduce_sum(y * x)
  return tape.gradient(total, x)


@define(normal(4, 3), checks=("value", "jit", "grad", "vmap"))
def gradient_through_a_condition_in_a_loop(tf, x):
  with tf.GradientTape() as tape:
    tape.watch(x)
    y = x
    for _ in tf.range(4):
      if tf.reduce_sum(y) > 0.0:
        y = tf.sin(y) * x
      else:
        y = tf.exp(-y)
    total = tf.reduce_sum(y)
  return tape.gradient(total, x)


@define(uniform(4, 3, low=0.2), checks=("value", "jit", "grad", "vmap"))
def stop_gradient(tf, x):
  target = tf.stop_gradient(tf.sqrt(x))
  return (x - target) ** 2


@define(normal(3, 4, 4), checks=("value", "jit", "grad", "vmap"), tolerance=(1e-4, 1e-5))
def linalg_gradients(tf, x):
  with tf.GradientTape() as tape:
    tape.watch(x)
    spd = x @ tf.linalg.matrix_transpose(x) + 4.0 * tf.eye(4)
    y = tf.reduce_sum(tf.linalg.logdet(spd)) + tf.reduce_sum(tf.linalg.inv(spd))
  return tape.gradient(y, x)
