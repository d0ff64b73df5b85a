"""`ordered` and `call_tf_graph` of `call_tf`, and meshes of several devices."""

import subprocess
import sys

import jax
import numpy as np
import pytest
import tensorflow as tf

from graftax.convert import jax2tf

_X = np.float32([0.3, -0.8, 1.2])


def test_ordered_calls_write_variables_in_the_order_of_the_program():
  v = tf.Variable(1.0)
  double = jax2tf.call_tf(lambda: v.assign(v * 2.0), ordered=True)
  increment = jax2tf.call_tf(lambda: v.assign_add(1.0), ordered=True)
  assert [float(f()) for f in (double, increment, double)] == [2.0, 3.0, 6.0]


def test_ordered_calls_are_transformed_as_others():
  f = jax2tf.call_tf(lambda x: tf.sin(x) * x, has_side_effects=True, ordered=True)
  expected = np.cos(_X) * _X + np.sin(_X)
  np.testing.assert_allclose(jax.jit(jax.vmap(jax.grad(f)))(_X), expected, rtol=1e-6)
  np.testing.assert_allclose(jax.lax.map(f, _X), np.sin(_X) * _X, rtol=1e-6)


@pytest.mark.parametrize("ordered", [False, True])
def test_call_tf_graph_converted_twice(ordered):
  v = tf.Variable(2.0)
  f = jax2tf.call_tf(tf.function(lambda x: tf.sin(x) * v), call_tf_graph=True, ordered=ordered)
  once = jax2tf.convert(lambda x: f(x) + 1.0)
  twice = jax2tf.convert(jax2tf.call_tf(once, call_tf_graph=True, ordered=ordered))
  for value in (2.0, 3.0):
    v.assign(value)
    for function in (once, twice, tf.function(twice, autograph=False)):
      with tf.GradientTape() as tape:
        y = function(_X)
      np.testing.assert_allclose(y, np.sin(_X) * value + 1.0, rtol=1e-6)
      np.testing.assert_allclose(tape.gradient(y, v), np.sin(_X).sum(), rtol=1e-5)


def test_keyword_arguments_are_traced_once_whatever_their_order():
  traces = []

  def f(x, *, a, b):
    traces.append(1)
    return x * a - b

  g = jax2tf.call_tf(f)
  np.testing.assert_allclose(jax.vmap(lambda x: g(x, a=2.0, b=1.0))(_X), 2 * _X - 1, rtol=1e-6)
  np.testing.assert_allclose(jax.vmap(lambda x: g(x, b=1.0, a=2.0))(_X), 2 * _X - 1, rtol=1e-6)
  np.testing.assert_allclose(jax.grad(lambda a: g(_X, b=1.0, a=a).sum())(2.0), _X.sum(), rtol=1e-6)
  assert len(traces) == 2  # of shapes () and (3,)


_EIGHT_DEVICES = """
import jax, numpy as np, tensorflow as tf
from jax.sharding import NamedSharding, PartitionSpec
from graftax.convert import jax2tf
v = tf.Variable(np.float32(2.0))
f = jax2tf.call_tf(lambda x: tf.sin(x) * v)
mesh = jax.make_mesh((8,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
spec = PartitionSpec("d")
g = jax.jit(jax.shard_map(f, mesh=mesh, in_specs=spec, out_specs=spec))
x = jax.device_put(np.linspace(-1, 1, 64, dtype=np.float32).reshape(16, 4), NamedSharding(mesh, spec))
for value in (2.0, 3.0):
  v.assign(value)
  y = g(x)
  assert len(y.sharding.device_set) == 8
  np.testing.assert_allclose(y, np.sin(x) * value, rtol=1e-5, atol=1e-6)
  np.testing.assert_allclose(jax.grad(lambda x: g(x).sum())(x), np.cos(x) * value, rtol=1e-5, atol=1e-6)
  np.testing.assert_allclose(f(x), np.sin(x) * value, rtol=1e-5, atol=1e-6)
print("done")
"""


@pytest.mark.slow
def test_shard_map_over_eight_devices(monkeypatch):
  monkeypatch.setenv("XLA_FLAGS", "--xla_force_host_platform_device_count=8")
  result = subprocess.run([sys.executable, "-c", _EIGHT_DEVICES], capture_output=True, text=True)
  assert result.stdout.strip() == "done", result.stderr
