"""Conditionals and loops in functional form."""

import numpy as np

from graftax.testing.harness.conversion_case import Collector, integers, normal

define = Collector("control_flow")

_ALL = ("value", "jit", "grad", "vmap")
_X = normal(4, 3)


@define(_X, checks=_ALL)
def if_else(tf, x):
  if tf.reduce_sum(x) > 0.5:
    return tf.sin(x)
  return x * 2.0


@define(_X, checks=_ALL)
def elif_chain(tf, x):
  total = tf.reduce_sum(x)
  if total > 3.0:
    y = x
  elif total > -3.0:
    y = x * 2.0
  else:
    y = -x
  return y * total


@define(integers(low=-2, high=6), _X, checks=_ALL)
def switch_case(tf, i, x):
  return tf.switch_case(i, [lambda: x, lambda: tf.exp(x), lambda: x[::-1]])


@define(_X, checks=(*_ALL, "second_order"))
def counted_while(tf, x):
  return tf.while_loop(lambda i, y: i < 5, lambda i, y: (i + 1, tf.sin(y) + tf.cast(i, tf.float32)), [0, x])[1]


@define(np.float32(1.5), checks=("value", "jit", "vmap"))
def newton_until_converged(tf, a):
  y = a
  while tf.abs(y * y - a) > 1e-5:
    y = 0.5 * (y + a / y)
  return y


@define(_X, checks=_ALL)
def for_over_rows(tf, x):
  total = tf.zeros([3])
  for row in x:
    total = total * 0.5 + tf.tanh(row)
  return total


@define(_X, checks=_ALL)
def nested_loops_of_changing_length(tf, x):
  total = tf.zeros([3])
  for i in tf.range(4):
    for j in tf.range(i):
      total += x[j] * tf.cast(i - j, tf.float32)
  return total


@define(_X, checks=_ALL)
def break_and_continue(tf, x):
  total = tf.zeros([3])
  for i in tf.range(10):
    if i % 2 == 1:
      continue
    if i > 6:
      break
    total += x[i // 2] ** 2
  return total


@define(_X, checks=_ALL)
def cond_in_loop_on_data(tf, x):
  y = x
  for _ in tf.range(5):
    if tf.reduce_sum(y) > 0.0:
      y = y * 0.5 - 0.1
    else:
      y = tf.sin(y) + 0.3
  return y


@define(_X, checks=_ALL)
def loop_in_cond(tf, x):
  if x[0, 0] > -5.0:
    y = x
    for _ in tf.range(3):
      y = tf.tanh(y) + x
  else:
    y = -x
  return y


@define(_X, checks=_ALL)
def early_returns(tf, x):
  if x[0, 0] > 100.0:
    return x
  y = tf.sin(x)
  if tf.reduce_sum(y) > -100.0:
    return y * 2.0
  return y


@define(_X, checks=_ALL)
def functions_as_branches(tf):
  @tf.function
  def double(x):
    return x * 2.0

  @tf.function
  def square(x):
    return x * x

  return tf.function(lambda x: tf.cond(x[0, 0] > x[1, 1], lambda: double(x), lambda: square(x)) + double(x))


@define(_X, integers(high=4), checks=("value", "jit", "vmap"))
def loop_with_traced_bound(tf, x, n):
  y = x
  i = 0
  while i < n:
    y = y * 1.5
    i += 1
  return y, i


@define(normal(5, 3), checks=("value", "jit", "grad", "batch"))
def loop_over_the_batch_size(tf, x):
  total = tf.zeros([3])
  for i in tf.range(tf.shape(x)[0]):
    total += x[i] / tf.cast(i + 1, tf.float32)
  return total
