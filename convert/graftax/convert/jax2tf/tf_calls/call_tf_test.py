"""`call_tf`: arguments, results and transformations."""

import collections
import dataclasses
import inspect
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tensorflow as tf
from jax.experimental import jax2tf as reference

from graftax.convert import InputError, jax2tf

_X = np.float32([0.3, -0.8, 1.2])


def test_the_signature_is_that_of_jax_with_variables():
  ours = inspect.signature(jax2tf.call_tf).parameters
  theirs = inspect.signature(reference.call_tf).parameters
  assert list(ours) == [*theirs, "variables"]
  assert [ours[name].default for name in ("has_side_effects", "ordered", "call_tf_graph")] == [True, False, False]


def test_importing_it_does_not_import_tensorflow():
  code = (
    "import sys; from graftax.convert import jax2tf; jax2tf.call_tf(abs); "
    "print('tensorflow' in sys.modules, 'graftax.xla_call_module.lifting' in sys.modules)"
  )
  result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
  assert result.stdout.split() == ["False", "False"]


@pytest.mark.parametrize("run", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_pytrees_and_keyword_arguments(run):
  Pair = collections.namedtuple("Pair", ["first", "second"])

  def f(pair, *rest, scale, nothing=None):
    assert nothing is None
    return {"sum": pair.first + pair.second, "rest": [r * scale for r in rest], "none": None, "number": 2.0}

  found = run(jax2tf.call_tf(f))(Pair(_X, 1.0), _X, 2 * _X, scale=3.0)
  assert set(found) == {"sum", "rest", "none", "number"}
  assert found["none"] is None and float(found["number"]) == 2.0
  np.testing.assert_allclose(found["sum"], _X + 1.0)
  np.testing.assert_allclose(found["rest"][1], 6 * _X, rtol=1e-6)
  assert all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(found))


@pytest.mark.parametrize("run", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_types_registered_as_pytrees_are_arguments_and_results(run):
  @jax.tree_util.register_dataclass
  @dataclasses.dataclass
  class Point:
    x: object
    y: object

  found = run(jax2tf.call_tf(lambda p: Point(p.y, p.x * 2)))(Point(_X, 3.0))
  assert isinstance(found, Point) and float(found.x) == 3.0
  np.testing.assert_allclose(found.y, 2 * _X)


@pytest.mark.parametrize("run", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_64_bit_types_are_narrowed_as_jax_does(run):
  found = run(jax2tf.call_tf(lambda x, n: (x * 2, tf.cast(n, tf.int64) + 1)))(np.float64([0.1, 0.2]), 3)
  assert [leaf.dtype for leaf in found] == [np.float32, np.int32]
  with jax.enable_x64(True):
    found = run(jax2tf.call_tf(lambda x, n: (x * 2, tf.cast(n, tf.int64) + 1)))(np.float64([0.1, 0.2]), 3)
    assert [leaf.dtype for leaf in found] == [np.float64, np.int64]
    np.testing.assert_array_equal(found[0], np.float64([0.2, 0.4]))


@pytest.mark.parametrize("dtype", [jnp.bfloat16, np.float16, np.complex64, np.bool_, np.uint8, np.int16])
def test_dtypes_pass_through(dtype):
  x = jnp.array([[0, 1], [1, 1]], dtype)
  for run in (lambda f: f, jax.jit):
    found = run(jax2tf.call_tf(tf.transpose))(x)
    assert found.dtype == x.dtype
    np.testing.assert_array_equal(np.asarray(found), np.asarray(x).T)


def test_python_control_flow_on_tensors_goes_through_autograph():
  def f(x):
    y = x
    for _ in tf.range(3):
      if tf.reduce_sum(y) > 1.0:
        y = y * 0.5
      else:
        y = y + x
    return y

  np.testing.assert_allclose(jax.jit(jax2tf.call_tf(f))(_X), f(tf.constant(_X)).numpy(), rtol=1e-6)


def test_concrete_arguments_inside_of_jit_are_not_evaluated_while_tracing():
  v = tf.Variable(1.0)
  f = jax.jit(lambda: jax2tf.call_tf(lambda x: x * v)(_X))
  np.testing.assert_allclose(f(), _X)
  v.assign(2.0)
  np.testing.assert_allclose(f(), 2 * _X)


def test_eager_derivatives_use_custom_gradients():
  @tf.custom_gradient
  def half(x):
    return x * x, lambda dy: dy * 0.5

  f = jax2tf.call_tf(half)
  np.testing.assert_allclose(jax.grad(lambda x: f(x).sum())(_X), np.full(3, 0.5, np.float32))
  np.testing.assert_allclose(jax.jvp(f, (_X,), (2 * _X,))[1], _X)
  np.testing.assert_allclose(jax.vmap(f)(_X), _X * _X, rtol=1e-6)


def test_shard_map():
  v = tf.Variable(2.0)
  mesh = jax.make_mesh((1,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
  spec = jax.sharding.PartitionSpec("d")
  f = jax.jit(jax.shard_map(jax2tf.call_tf(lambda x: tf.sin(x) * v), mesh=mesh, in_specs=spec, out_specs=spec))
  np.testing.assert_allclose(f(_X), 2 * np.sin(_X), rtol=1e-6)
  np.testing.assert_allclose(jax.grad(lambda x: f(x).sum())(_X), 2 * np.cos(_X), rtol=1e-6)


def test_nothing_opaque_is_in_the_jaxpr():
  text = str(jax.make_jaxpr(jax2tf.call_tf(lambda x: tf.sin(tf.cos(x))))(_X))
  assert "sin" in text and "cos" in text
  # JAX 0.12 prints the name of the compiled function, which is `call`.
  assert "call" not in text.replace("name=call", "") and "custom" not in text


def test_a_function_is_traced_once_for_each_shape():
  traces = []

  def f(x):
    traces.append(x.shape)
    return x + 1

  g = jax2tf.call_tf(f)
  for _ in range(3):
    jax.grad(lambda x: g(x).sum())(_X)
    jax.vmap(g)(np.stack([_X, _X]))
  assert len(traces) == 1
  jax.jit(g)(np.float32([1]))
  assert len(traces) == 2


def test_symbolic_shapes():
  f = jax2tf.call_tf(lambda x: tf.reshape(x, [-1, 2]) * tf.cast(tf.shape(x)[0], tf.float32))
  shape = jax.export.symbolic_shape("b, 4")
  exported = jax.export.export(jax.jit(f))(jax.ShapeDtypeStruct(shape, np.float32))
  assert str(exported.out_avals[0].shape) == "(2*b, 2)"
  x = np.arange(12, dtype=np.float32).reshape(3, 4)
  np.testing.assert_allclose(exported.call(x), x.reshape(-1, 2) * 3)


def test_declared_results_with_symbolic_shapes():
  def declared(x):
    spec = jax.ShapeDtypeStruct((x.shape[0], 2 * x.shape[1]), x.dtype)
    return jax2tf.call_tf(lambda x: tf.concat([x, x], 1), output_shape_dtype=spec)(x)

  converted = jax2tf.convert(declared, polymorphic_shapes="b, n")
  f = tf.function(converted, autograph=False, input_signature=[tf.TensorSpec([None, None])])
  assert f(tf.ones([2, 3])).shape == (2, 6)
  shape = jax.export.symbolic_shape("b, n")
  exported = jax.export.export(jax.jit(declared))(jax.ShapeDtypeStruct(shape, np.float32))
  assert exported.call(np.ones([2, 3], np.float32)).shape == (2, 6)


def test_a_declared_symbolic_shape_that_is_wrong_is_an_error():
  def declared(x):
    spec = jax.ShapeDtypeStruct((x.shape[0] + 1,), x.dtype)
    return jax2tf.call_tf(tf.sin, output_shape_dtype=spec)(x)

  with pytest.raises(InputError, match=r"result 0 is float32\[b\], but output_shape_dtype declares float32\[b \+ 1\]"):
    jax.export.export(jax.jit(declared))(jax.ShapeDtypeStruct(jax.export.symbolic_shape("b"), np.float32))


@pytest.mark.parametrize("tf_function", [False, True])
def test_a_round_trip_through_tensorflow_and_back(tf_function):
  def sine(x):
    return jnp.sin(x) * 2

  there = jax2tf.convert(sine)
  back = jax2tf.call_tf(tf.function(there, autograph=False) if tf_function else there)
  for f in (back, jax.jit(back)):
    np.testing.assert_allclose(f(_X), sine(_X), rtol=1e-6)
  np.testing.assert_allclose(jax.jit(jax.jacfwd(back))(_X), jax.jacfwd(sine)(_X), rtol=1e-6, atol=1e-7)
  again = jax2tf.convert(lambda x: back(x) + 1)
  np.testing.assert_allclose(again(_X), sine(_X) + 1, rtol=1e-6)


def test_integers_that_decide_shapes_are_known_if_the_caller_knows_them():
  f = jax2tf.call_tf(lambda x, shape: tf.reshape(x, shape))
  assert jax.jit(lambda x: f(x, np.int32([3, 1])))(_X).shape == (3, 1)
  assert jax.jit(lambda x: f(x, (1, 3, 1)))(_X).shape == (1, 3, 1)


def test_tensors_and_variables_are_arguments():
  f = jax2tf.call_tf(lambda x, y: x * y)
  np.testing.assert_allclose(f(tf.constant(_X), tf.Variable(2.0)), 2 * _X)


def test_call_tf_inside_of_a_tf_function_runs_eagerly():
  found = []

  @tf.function(autograph=False)
  def f():
    found.append(jax2tf.call_tf(lambda x: x + 1)(_X))
    return tf.constant(0)

  f()
  np.testing.assert_allclose(found[0], _X + 1)


def test_functions_that_compute_gradients_with_a_tape():
  def f(x):
    with tf.GradientTape() as tape:
      tape.watch(x)
      y = x * x * x
    return tape.gradient(y, x)

  g = jax2tf.call_tf(f)
  in_graph = []

  @tf.function(autograph=False)
  def around():
    in_graph.append(g(_X))
    return jax2tf.convert(lambda x: g(x) * 1.0)(_X)

  for found in (g(_X), jax.jit(g)(_X), around(), in_graph[0]):
    np.testing.assert_allclose(found, 3 * _X * _X, rtol=1e-6)


def test_effects_in_eager_calls():
  seen = []

  def f(x):
    seen.append(tf.py_function(lambda y: y.numpy().sum(), [x], tf.float32))
    return x

  jax2tf.call_tf(f)(_X)
  np.testing.assert_allclose(seen[0], _X.sum())


def test_a_pure_function_without_uses_is_removed():
  f = jax2tf.call_tf(lambda x: tf.linalg.expm(x), has_side_effects=True)
  text = jax.jit(lambda x: (f(x), x + 1)[1]).lower(np.eye(3, dtype=np.float32)).compile().as_text()
  assert "while" not in text
