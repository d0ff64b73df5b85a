"""Functions that read and assign variables."""

import numpy as np

from graftax.testing.harness.conversion_case import Collector, integers, normal

define = Collector("state")

_STATE = ("value", "jit", "state")


@define(normal(3), checks=_STATE)
def counter(tf):
  calls = tf.Variable(0, name="calls")

  def f(x):
    calls.assign_add(1)
    return x * tf.cast(calls, tf.float32)

  return f


@define(normal(4, 3), checks=_STATE)
def moving_average(tf):
  mean = tf.Variable(tf.zeros([3]), trainable=False, name="mean")

  def f(x):
    mean.assign(0.9 * mean + 0.1 * tf.reduce_mean(x, 0))
    return x - mean

  return f


@define(normal(3), checks=_STATE)
def read_before_and_after_assignment(tf):
  v = tf.Variable([1.0, 2.0, 3.0], name="v")

  def f(x):
    before = v * 1.0
    v.assign(x)
    return before, v + before

  return f


@define(integers(2, high=4), normal(2, 3), checks=_STATE)
def scatter_updates(tf):
  table = tf.Variable(tf.ones([4, 3]), name="table")

  def f(i, x):
    table.scatter_nd_add(i[:, None], x)
    table.scatter_update(tf.IndexedSlices(x[:1] * 2.0, i[:1]))
    return tf.reduce_sum(table, 1)

  return f


@define(normal(), normal(2), checks=_STATE)
def assignment_in_a_branch(tf):
  v = tf.Variable([1.0, 1.0], name="v")

  def f(c, x):
    if c > 0.0:
      v.assign_add(x)
    else:
      v.assign(-x)
    return v.read_value() * 2.0

  return f


@define(normal(2), checks=_STATE)
def assignment_in_a_loop(tf):
  v = tf.Variable([0.5, 0.5], name="v")

  def f(x):
    for i in tf.range(4):
      v.assign(v * x + tf.cast(i, tf.float32))
    return v + 1.0

  return f


@define(normal(2, 3), checks=(*_STATE, "grad", "param_grad"))
def module_with_nested_modules(tf):
  class Linear(tf.Module):
    def __init__(self, width, name):
      super().__init__(name)
      self.w = tf.Variable(normal(3, width, seed=1), name="w")
      self.b = tf.Variable(tf.zeros([width]), name="b")
      self.uses = tf.Variable(0.0, trainable=False, name="uses")

    def __call__(self, x):
      self.uses.assign_add(1.0)
      return x @ self.w + self.b

  class Net(tf.Module):
    def __init__(self):
      super().__init__("net")
      self.layers = [Linear(3, "first"), Linear(3, "second")]

    def __call__(self, x):
      for layer in self.layers:
        x = tf.tanh(layer(x))
      return x

  net = Net()
  return tf.function(lambda x: net(x))


@define(normal(3), checks=_STATE)
def two_variables_swapped(tf):
  a, b = tf.Variable([1.0, 2.0, 3.0], name="same"), tf.Variable([4.0, 5.0, 6.0], name="same")

  def f(x):
    old = a.read_value()
    a.assign(b)
    b.assign(old + x)
    return a - b

  return f


@define(np.float32(0.3), normal(2, 2), checks=_STATE)
def variables_in_functions_that_call_each_other(tf):
  v = tf.Variable(1.0, name="v")

  @tf.function
  def inner(x):
    v.assign(v * 2.0)
    return x * v

  @tf.function
  def outer(c, x):
    y = inner(x) + inner(x * c)
    v.assign_sub(0.5)
    return y

  return outer
