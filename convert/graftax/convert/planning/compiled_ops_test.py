"""Ops without a lowering, compiled by TensorFlow; TensorFlow and closed forms are the oracles."""

import jax
import numpy as np
import pytest
import tensorflow as tf

from graftax.convert import convert, jax2tf, override_config
from graftax.convert.planning import plan, preflight
from graftax.ops_jax import UnsupportedOpError

_X = np.float32([0.5, -1.0, 2.0])


@pytest.fixture
def without(monkeypatch):
  """Takes lowerings away, since TensorFlow compiles few ops that have none."""

  def remove(*ops):
    found = preflight.lowering

    def lowering(op, **options):
      return None if op in ops else found(op, **options)

    for module in (preflight, plan):
      monkeypatch.setattr(module, "lowering", lowering)

  return remove


def _converted(function, *args):
  with override_config("fallback", "tensorflow"):
    return convert(function, *args)


def test_without_the_option_it_is_an_error_that_names_it(without):
  without("Sin")
  with pytest.raises(UnsupportedOpError, match=r"(?s)Sin x1.*fallback='tensorflow'"):
    convert(tf.sin, _X)


def test_the_option_is_not_named_for_ops_that_the_compiler_does_not_have():
  with pytest.raises(UnsupportedOpError, match="(?s)IsotonicRegression x1.*compiler does not have it") as caught:
    convert(tf.function(lambda x: tf.nn.isotonic_regression(x)[0], autograph=False), _X[None])
  assert "fallback=" not in str(caught.value)
  assert "run_head_with='tensorflow'" in str(caught.value)


def test_only_the_op_is_compiled(without):
  without("Sin")
  v = tf.Variable([1.0, 2.0, 3.0], name="v")

  def f(x):
    v.assign_add([1.0, 1.0, 1.0])
    return tf.cos(tf.sin(x) * v)

  fn, params = _converted(f, _X)
  result, new = jax.jit(fn)(params, _X)
  np.testing.assert_allclose(result, np.cos(np.sin(_X) * [2, 3, 4]), rtol=1e-6)
  np.testing.assert_array_equal(new["v"], [2, 3, 4])
  jaxpr = str(jax.make_jaxpr(fn)(params, _X))
  assert " cos " in jaxpr and " sin " in jaxpr and "callback" not in jaxpr


def test_all_transformations_apply(without):
  without("Sin", "MatMul")

  def f(x):
    return tf.linalg.matmul(tf.sin(x), x, transpose_b=True)

  x = np.random.default_rng(0).normal(size=(2, 3)).astype(np.float32)
  fn, _ = _converted(f, x)
  ours, theirs = (lambda x: fn({}, x)[0]), (lambda x: jax.numpy.sin(x) @ x.T)
  np.testing.assert_allclose(jax.jit(ours)(x), f(x), rtol=1e-5)
  np.testing.assert_allclose(jax.vmap(ours)(np.stack([x, 2 * x])), np.stack([f(x), f(2 * x)]), rtol=1e-5, atol=1e-6)
  for transform in (jax.jacfwd, jax.jacrev, lambda f: jax.hessian(lambda x: f(x).sum())):
    np.testing.assert_allclose(jax.jit(transform(ours))(x), transform(theirs)(x), rtol=1e-4, atol=1e-5)


def test_known_inputs_and_lists_are_passed(without):
  without("ConcatV2", "Cumsum", "SplitV", "Split")

  def f(x, y):
    a, b = tf.split(tf.concat([x, y, tf.constant([[7.0, 8.0]])], 0), 2, axis=1)
    return tf.cumsum(a, axis=0, reverse=True), b

  x, y = np.float32([[1, 2], [3, 4]]), np.float32([[5, 6]])
  fn, _ = _converted(f, x, y)
  for found, expected in zip(jax.jit(fn)({}, x, y)[0], f(x, y), strict=True):
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("x64", [False, True])
def test_64_bit_types_are_narrowed_as_jax_does(without, x64):
  without("Sin", "AddV2")
  with jax.enable_x64(x64):
    fn, _ = _converted(lambda x, n: (tf.sin(x), n + 1), tf.TensorSpec([3], tf.float64), tf.TensorSpec([], tf.int64))
    sine, number = jax.jit(fn)({}, _X.astype(np.float64), np.int64(4))[0]
    assert (sine.dtype, number.dtype) == ((np.float64, np.int64) if x64 else (np.float32, np.int32))
    np.testing.assert_allclose(sine, np.sin(_X.astype(np.float64)), rtol=1e-12 if x64 else 1e-6)
    assert int(number) == 5


def test_it_is_compiled_once_for_each_shape(without, monkeypatch):
  from graftax.convert.planning import compiled_ops

  without("Sin")
  calls = []
  compiled_hlo = compiled_ops._compiled_hlo
  monkeypatch.setattr(compiled_ops, "_compiled_hlo", lambda *args: calls.append(1) or compiled_hlo(*args))
  fn, _ = _converted(tf.sin, tf.TensorSpec([None]))
  calls.clear()
  for size in (3, 3, 2, 3):
    np.testing.assert_allclose(fn({}, _X[:size])[0], np.sin(_X[:size]), rtol=1e-6)
  assert len(calls) == 2


def test_inside_of_loops_and_branches(without):
  without("Sin")

  def f(x):
    y = tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, tf.sin(y) + y), (0, x))[1]
    return tf.cond(tf.reduce_sum(x) > 0.0, lambda: tf.sin(y), lambda: y)

  fn, _ = _converted(f, _X)
  np.testing.assert_allclose(jax.jit(fn)({}, _X)[0], f(tf.constant(_X)), rtol=1e-6)


def test_custom_gradients_around_it_are_kept(without):
  without("Sin")

  @tf.custom_gradient
  def f(x):
    return tf.sin(x), lambda dy: dy * 5.0

  g = jax2tf.call_tf(f)
  np.testing.assert_allclose(jax.jit(g)(_X), np.sin(_X), rtol=1e-6)
  np.testing.assert_allclose(jax.grad(lambda x: g(x).sum())(_X), np.full(3, 5.0), rtol=1e-6)


def test_call_tf_reads_variables_around_it(without):
  without("Sin")
  v = tf.Variable([1.0, 2.0, 3.0])
  f = jax.jit(jax2tf.call_tf(lambda x: tf.sin(x) * v))
  np.testing.assert_allclose(f(_X), np.sin(_X) * [1, 2, 3], rtol=1e-6)
  v.assign([0.0, 1.0, 0.0])
  np.testing.assert_allclose(f(_X), np.sin(_X) * [0, 1, 0], rtol=1e-6)


def test_ops_that_tensorflow_does_not_compile_are_one_error_with_reasons():
  def f(x):
    numbers = tf.strings.to_number(tf.strings.as_string(x))
    return tf.numpy_function(np.sin, [x], tf.float32) + numbers

  with pytest.raises(
    UnsupportedOpError,
    match=r"(?s)AsString x1.*it: its inputs or results are of type string.*PyFunc x1.*it has side effects or state",
  ):
    _converted(f, _X)


def test_what_the_compiler_refuses_is_an_error_with_its_reason(without):
  without("Cumsum")
  fn, _ = _converted(lambda x, axis: tf.cumsum(x, axis), _X, tf.TensorSpec([], tf.int32))
  np.testing.assert_allclose(fn({}, _X, np.int32(0))[0], np.cumsum(_X), rtol=1e-6)
  with pytest.raises(UnsupportedOpError, match="Cumsum has no JAX lowering, and TensorFlow does not compile it here"):
    jax.jit(fn)({}, _X, np.int32(0))


def _exported(function, spec):
  shape = jax.export.symbolic_shape(spec)
  return jax.export.export(jax.jit(function))(jax.ShapeDtypeStruct(shape, np.float32))


def test_symbolic_shapes_are_an_error_that_says_what_to_pass(without):
  without("Sin")
  with pytest.raises(UnsupportedOpError, match=r"(?s)Sin .*symbolic shapes \[b, 3\].*jax.vmap of the function for one"):
    _exported(jax2tf.call_tf(tf.sin), "b, 3")


def test_a_symbolic_batch_works_with_vmap(without):
  without("Sin")
  f = jax.vmap(jax2tf.call_tf(lambda x: tf.sin(x) * tf.reduce_sum(x)))
  x = np.stack([_X, 2 * _X])
  expected = np.sin(x) * x.sum(1, keepdims=True)
  np.testing.assert_allclose(_exported(f, "b, 3").call(x), expected, rtol=1e-5)
  in_tensorflow = tf.function(jax2tf.convert(f, polymorphic_shapes="b, ..."), autograph=False)
  np.testing.assert_allclose(in_tensorflow(x), expected, rtol=1e-5)


def test_unknown_values_of_the_option_are_errors():
  with (
    pytest.raises(ValueError, match="Option 'fallback' is None or 'tensorflow'; got 'jax'"),
    override_config("fallback", "jax"),
  ):
    pass
