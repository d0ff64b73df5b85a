"""Gradients in the graph of nested loops and conditionals."""

from graftax.testing.harness.conversion_case import Collector, normal


def _with_gradient(tf, loss, inputs):
  """Returns the loss and its derivatives with respect to all inputs."""
  del inputs

  def f(*xs):
    with tf.GradientTape() as tape:
      for x in xs:
        tape.watch(x)
      y = loss(tf, *xs)
    return y, tape.gradient(y, list(xs))

  return f


define, define_loss = Collector("control_flow_gradients"), Collector("control_flow_gradients", _with_gradient)

_ALL = ("value", "jit", "grad", "vmap")
_X = normal(4, 3)


@define_loss(_X, checks=_ALL)
def conditions_in_a_condition_in_a_loop(tf, x):
  y = x
  for i in tf.range(4):
    if tf.reduce_sum(y) > 0.0:
      y = tf.cond(tf.equal(i % 2, 0), lambda y=y: tf.sin(y) * x, lambda y=y: tf.tanh(y) + tf.exp(-x * x) * y)
    else:
      y = tf.cond(y[0, 0] > 0.1, lambda y=y: tf.exp(-y), lambda y=y: y * y * 0.5 + x)
  return tf.reduce_sum(y * x)


@define_loss(_X, checks=_ALL)
def case_in_a_loop(tf, x):
  y = x
  for i in tf.range(5):
    branches = [
      lambda y=y: tf.sin(y) * x,
      lambda y=y: tf.exp(-y * y),
      lambda y=y: tf.matmul(y, tf.transpose(y) @ x) * 0.1,
    ]
    y = tf.switch_case(i % 3, branches)
  return tf.reduce_sum(y * x)


@define_loss(_X, normal(4), normal(3, 3), checks=_ALL)
def branches_that_keep_different_things(tf, x, v, w):
  y = x
  for _ in tf.range(3):
    if tf.reduce_sum(y) > 0.0:
      s = tf.gather(tf.exp(y), tf.argmax(y, axis=1), axis=1, batch_dims=1)
      y = tf.tanh(y @ w) * s[:, None] + v[:, None]
    else:
      y = y * tf.sigmoid(v)[:, None] + tf.cast(tf.reduce_sum(tf.cast(y, tf.float64) ** 2), tf.float32) * 0.01
  return tf.reduce_sum(y)


@define_loss(_X, checks=_ALL)
def loops_in_both_branches(tf, x):
  y = x
  if tf.reduce_sum(y) > 0.0:
    for _ in tf.range(2):
      y = tf.sin(y) * x
  else:
    for _ in tf.range(3):
      y = tf.exp(-y) * tf.reduce_max(y)
  return tf.reduce_sum(y * x)


@define_loss(_X, checks=_ALL)
def loops_in_both_branches_in_a_loop(tf, x):
  y = x
  for _ in tf.range(3):
    if tf.reduce_sum(y) > 0.0:
      for _ in tf.range(2):
        y = tf.sin(y) * x
    else:
      for _ in tf.range(3):
        y = tf.exp(-y) * tf.reduce_max(y)
  return tf.reduce_sum(y * x)


@define_loss(_X, checks=("value", "jit", "vmap"))
def a_loop_as_long_as_the_counter_of_another(tf, x):
  y = x
  for i in tf.range(4):
    for _ in tf.range(i):
      y = tf.sin(y) * x
  return tf.reduce_sum(y * x)


@define_loss(_X, checks=_ALL)
def a_condition_in_a_loop_in_a_loop(tf, x):
  y = x
  for _ in tf.range(3):
    for _ in tf.range(2):
      if tf.reduce_sum(y) > 0.0:
        y = tf.sin(y) * x
      else:
        y = tf.cos(y) * y
  return tf.reduce_sum(y * x)


@define_loss(_X, checks=_ALL)
def map_fn_and_scan_of_conditions(tf, x):
  rows = tf.map_fn(lambda r: tf.cond(r[0] > 0.0, lambda: tf.exp(r) * r, lambda: tf.sin(r)), x)
  step = lambda a, r: tf.cond(tf.reduce_sum(a) > 0.0, lambda: tf.exp(-r) * a, lambda: tf.sin(r) + a * r)  # noqa: E731
  return tf.reduce_sum(tf.scan(step, rows) * x)


@define(_X, checks=("value", "jit", "grad"))
def second_derivatives_of_a_condition_in_a_loop(tf, x):
  with tf.GradientTape() as outer:
    outer.watch(x)
    with tf.GradientTape() as tape:
      tape.watch(x)
      y = x
      for _ in tf.range(3):
        if tf.reduce_sum(y) > 0.0:
          y = tf.sin(y) * x
        else:
          y = tf.exp(-y) * y
      total = tf.reduce_sum(y)
    squares = tf.reduce_sum(tape.gradient(total, x) ** 2)
  return outer.gradient(squares, x)


@define(_X, checks=_ALL)
def gradients_of_gradient_steps(tf, x):
  with tf.GradientTape() as outer:
    outer.watch(x)
    y = x
    for _ in tf.range(2):
      with tf.GradientTape() as tape:
        tape.watch(y)
        if tf.reduce_sum(y) > 0.0:
          loss = tf.reduce_sum(y**3 * x)
        else:
          loss = tf.reduce_sum(tf.exp(y) * x)
      y = y - 0.1 * tape.gradient(loss, y)
    z = tf.reduce_sum(y * x)
  return outer.gradient(z, x)


@define_loss(_X, checks=_ALL)
def a_tensor_array_read_twice_and_written_in_branches(tf, x):
  rows = tf.TensorArray(tf.float32, size=4, element_shape=[3], clear_after_read=False).unstack(x)
  out = tf.TensorArray(tf.float32, size=3, element_shape=[3])
  y = tf.zeros([3])
  for i in tf.range(3):
    y = tf.tanh(y + rows.read(i)) * rows.read(i + 1)
    out = out.write(i, tf.exp(y) * y) if y[0] > 0.0 else out.write(i, tf.sin(y))
  return tf.reduce_sum(out.stack() * x[:3]) + tf.reduce_sum(rows.read(2))


@define(_X, checks=(*_ALL, "batch", "export"))
def shapes_that_are_open_in_a_condition_in_a_loop(tf, x):
  with tf.GradientTape() as tape:
    tape.watch(x)
    y = x
    for i in tf.range(3):
      b = tf.reduce_mean(y, axis=0)
      if i % 2 == 0:
        y = tf.sin(y) * x + b
      else:
        y = tf.reshape(tf.exp(-y), [tf.shape(y)[0], 3]) * x * b
    total = tf.reduce_sum(y, axis=1)
  return tape.gradient(total, x)


@define(_X, checks=_ALL)
def jacobian_of_a_condition_in_a_loop(tf, x):
  with tf.GradientTape() as tape:
    tape.watch(x)
    y = x
    for i in tf.range(3):
      y = tf.cond(tf.equal(i % 2, 0), lambda y=y: tf.sin(y) * x, lambda y=y: y * y)
    rows = tf.reduce_sum(y, axis=1)
  return tape.jacobian(rows, x, experimental_use_pfor=False)


CASES = [*define_loss.cases, *define.cases]
