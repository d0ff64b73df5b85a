"""Functions with host ops (strings, prints, assertions) on which the result does not depend."""

from graftax.testing.harness.conversion_case import Collector, integers, normal

define = Collector("strings_stripped")

_ALL = ("value", "jit", "grad", "vmap")


@define(normal(4, 3), checks=_ALL)
def prints(tf, x):
  tf.print("sum", tf.reduce_sum(x), output_stream="file:///dev/null")
  return tf.sin(x)


@define(normal(4, 3), checks=_ALL)
def assertions(tf, x):
  tf.debugging.assert_rank(x, 2)
  tf.debugging.assert_less(tf.reduce_max(x), 100.0, message="too large")
  with tf.control_dependencies([tf.debugging.assert_all_finite(x, "not finite")]):
    return x * 2.0


@define(normal(4, 3), checks=_ALL)
def formatted_message(tf, x):
  message = tf.strings.format("mean {}", tf.reduce_mean(x))
  tf.print(message, output_stream="file:///dev/null")
  return x + 1.0


@define(normal(4, 3), checks=("value", "jit"))
def checked_numerics(tf, x):
  return tf.debugging.check_numerics(tf.exp(x), "exp")


@define(normal(4, 3), checks=("value", "jit", "grad"))
def summaries(tf):
  writer = tf.summary.create_noop_writer()

  def f(x):
    with writer.as_default(step=0):
      tf.summary.write("mean", tf.reduce_mean(x))
    return x**2

  return f


@define(integers(4, high=3), checks=("value", "jit"))
def assertion_in_a_loop(tf, x):
  total = 0
  for i in tf.range(4):
    tf.debugging.assert_non_negative(x[i])
    total += x[i] * i
  return total


@define(normal(3), checks=("value", "jit", "grad"))
def ensured_shapes(tf, x):
  x = tf.ensure_shape(x, [3])
  x.set_shape([3])
  return tf.debugging.assert_type(x, tf.float32) or tf.identity(x) * 2.0
