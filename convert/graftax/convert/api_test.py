"""Conversion of live TensorFlow functions, with TensorFlow as the oracle."""

import collections
import pickle
import re
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tensorflow as tf

import graftax.convert as gc

X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)


class Mlp(tf.Module):
  """Two dense layers; the second is frozen, and both weights carry the same name."""

  def __init__(self):
    super().__init__()
    self.w = tf.Variable(tf.reshape(tf.range(12.0), [3, 4]) / 10, name="w")
    self.b = tf.Variable(tf.ones([4]), name="b")
    self.w2 = tf.Variable(tf.ones([4, 2]), name="w", trainable=False)

  @tf.function
  def __call__(self, x):
    return tf.nn.softmax(tf.tanh(x @ self.w + self.b) @ self.w2)


def test_values_and_parameter_gradients_equal_tensorflows():
  model = Mlp()
  fn, params = gc.convert(model.__call__, X)
  (outputs, new_params) = jax.jit(fn)(params, X)
  np.testing.assert_allclose(outputs, model(X), rtol=1e-6)
  assert list(params) == ["w", "b", "w_1"]
  assert new_params.keys() == params.keys()

  gradient = jax.grad(lambda p: (fn(p, X)[0] ** 2)[:, 0].sum())(params)
  with tf.GradientTape() as tape:
    loss = tf.reduce_sum((model(X) ** 2)[:, 0])
  for name, expected in zip(["w", "b"], tape.gradient(loss, [model.w, model.b]), strict=True):
    np.testing.assert_allclose(gradient[name], expected, rtol=1e-5, atol=1e-7)


def test_parameters_know_their_variable_and_survive_pickle():
  model = Mlp()
  _, params = gc.convert(model.__call__, X)
  assert [(p.name, p.trainable) for p in params.values()] == [("w:0", True), ("b:0", True), ("w:0", False)]
  again = pickle.loads(pickle.dumps(params))
  assert [(p.name, p.trainable) for p in again.values()] == [("w:0", True), ("b:0", True), ("w:0", False)]
  assert type(params["w"] + 1) is np.ndarray


@pytest.mark.parametrize("transform", [jax.jit, lambda f: f, lambda f: jax.vmap(f, in_axes=0)])
def test_pure_functions_convert_without_parameters(transform):
  fn = gc.convert_functional(tf.function(lambda x: tf.sin(tf.cos(x)) * 2.0), X)
  with gc.override_config("strict_shape_check", False):
    np.testing.assert_allclose(transform(fn)(X), np.sin(np.cos(X)) * 2, rtol=1e-6)


def test_nested_structures_go_in_and_come_out():
  Pair = collections.namedtuple("Pair", "first second")

  @tf.function
  def tf_fn(batch, scale=2.0, *, extra=None, flag=True):
    result = batch["x"] * scale + batch["pair"].second
    return {"out": (result, None), "pair": Pair(result + 1.0, batch["pair"].first), "flag": flag}

  batch = {"x": X, "pair": Pair(np.float32(3), np.float32(4))}
  fn = gc.convert_functional(tf_fn, batch)
  got = fn(batch)
  expected = tf_fn(batch)
  assert got["out"][1] is None
  np.testing.assert_allclose(got["out"][0], expected["out"][0])
  assert isinstance(got["pair"], Pair)
  np.testing.assert_allclose(got["pair"].second, 3.0)
  assert str(fn.signature) == "(batch, scale=2.0, *, extra=None, flag=True)"
  assert "({x: float32[2, 3], pair: (float32[], float32[])}, 2.0, " in repr(fn)
  assert "flag=True) -> {out: (float32[2, 3], None), " in repr(fn)


def test_nested_function_calls_share_variables():
  variable = tf.Variable(3.0, name="v")

  @tf.function
  def inner(x):
    return x * variable

  @tf.function
  def outer(x):
    return inner(x) + inner(x + 1.0)

  fn, params = gc.convert(outer, np.float32(2))
  assert list(params) == ["v"]
  np.testing.assert_allclose(fn(params, 2.0)[0], outer(2.0))


def test_assignments_come_back_as_new_parameters_in_order():
  counter = tf.Variable(1.0, name="counter")

  @tf.function
  def tf_fn(x):
    counter.assign_add(x)
    seen = counter.read_value()
    counter.assign(seen * 10.0)
    return seen

  fn, params = gc.convert(tf_fn, np.float32(2))
  outputs, new_params = jax.jit(fn)(params, 2.0)
  np.testing.assert_allclose(outputs, 3.0)
  np.testing.assert_allclose(new_params["counter"], 30.0)
  np.testing.assert_allclose(params["counter"], 1.0)


def test_side_effects_on_the_host_are_dropped_with_their_strings():
  @tf.function
  def tf_fn(x):
    tf.print("value", x, tf.strings.join(["a", tf.strings.as_string(x[0, 0])]))
    tf.debugging.assert_positive(x + 10.0, message="no")
    return x + 1.0

  np.testing.assert_allclose(gc.convert_functional(tf_fn, X)(X), X + 1)


def test_unsupported_ops_are_all_listed_before_anything_runs():
  @tf.function
  def inner(x):
    return tf.strings.to_number(tf.strings.as_string(x))

  @tf.function
  def tf_fn(x):
    return inner(x) + tf.strings.to_number(tf.strings.upper(tf.strings.as_string(x)))

  with pytest.raises(NotImplementedError, match=r"AsString x2.*StringUpper x1"):
    try:
      gc.convert(tf_fn, np.float32(1))
    except NotImplementedError as e:
      raise NotImplementedError(str(e).replace("\n", " ")) from e


def test_an_error_names_the_parameters_of_wrong_shape():
  model = Mlp()
  fn, params = gc.convert(model.__call__, X)
  name, wrong = "w", np.zeros([7, 3], np.float32)
  for function in (fn, jax.jit(fn), jax.grad(lambda params, x: jnp.sum(fn(params, x)[0]))):
    expected = re.escape(f"'{name}' is [7, 3], expected {list(params[name].shape)}. With them the program fails: ")
    with pytest.raises(gc.ParameterError, match=expected):
      function({**params, name: wrong}, X)


def test_errors_of_wrong_calls_name_the_argument():
  model = Mlp()
  fn, params = gc.convert(model.__call__, X)
  with pytest.raises(gc.InputError, match=r"'x'.*\[5, 3\].*\[2, 3\]"):
    fn(params, np.zeros([5, 3], np.float32))
  with pytest.raises(gc.MissingInputError, match="missing"):
    fn(params)
  with pytest.raises(gc.ParameterError, match=r"called without parameters; expected .*\(params, \.\.\.\)"):
    fn(x=X)
  with pytest.raises(gc.ParameterError, match=r"are missing, \['b'\]. .*are unknown, \['c'\]"):
    fn({"w": params["w"], "w_1": params["w_1"], "c": 1.0}, X)
  with gc.override_config("strict_dtype_check", True), pytest.raises(gc.InputError, match="int32.*float32"):
    fn(params, X.astype(np.int32))


def test_eager_int_input_times_float_constant_stays_float32():
  fn = gc.convert_functional(tf.function(lambda x: x * tf.constant(2.5)), np.float32(1))
  assert fn(np.int32(3)).dtype == jnp.float32


def test_constants_become_bfloat16_by_option():
  tf_fn = tf.function(lambda x: x + tf.constant(3.14, tf.float32))
  with gc.override_config("force_const_float32_to_bfloat16", True):
    fn = gc.convert_functional(tf_fn, X)
  assert fn(jnp.asarray(X, jnp.bfloat16)).dtype == jnp.bfloat16


def test_shapes_stay_known_under_jit():
  @tf.function
  def tf_fn(x):
    shape = tf.shape(x)
    return tf.reshape(x, [shape[0] * shape[1] // 2, 2]) + tf.zeros([shape[1], 2])

  fn = gc.convert_functional(tf_fn, X)
  np.testing.assert_allclose(jax.jit(fn)(X), tf_fn(X))


def test_signature_functions_and_concrete_functions_convert(tmp_path):
  model = Mlp()
  tf.saved_model.save(model, str(tmp_path), signatures=model.__call__.get_concrete_function(tf.TensorSpec([None, 3])))
  restored = tf.saved_model.load(str(tmp_path))
  fn, params = gc.convert(restored.signatures["serving_default"])
  (result,) = jax.jit(fn)(params, x=X)[0].values()
  np.testing.assert_allclose(result, model(X), rtol=1e-6)
  fn, params = gc.convert_from_restored(restored.__call__)
  np.testing.assert_allclose(fn(params, X)[0], model(X), rtol=1e-6)


def test_override_config_is_invisible_to_other_threads():
  seen = []
  with gc.override_config("strict_shape_check", False):
    thread = threading.Thread(target=lambda: seen.append(gc.get_config("strict_shape_check")))
    thread.start()
    thread.join()
  assert seen == [True]
  with pytest.raises(ValueError, match="'strict_shape_chek'"):
    gc.update_config("strict_shape_chek", False)


def test_name_scopes_show_in_the_jaxpr():
  @tf.function
  def tf_fn(x):
    with tf.name_scope("encoder"), tf.name_scope("layer_0"):
      return tf.tanh(x)

  fn = gc.convert_functional(tf_fn, X)
  assert "encoder/layer_0" in jax.jit(fn).lower(X).as_text(debug_info=True)


@pytest.mark.parametrize("dtype", [tf.int32, np.int32, np.dtype("int32"), jnp.int32, "int32"])
def test_dtypes_may_be_arguments(dtype):
  function = tf.function(lambda x, dtype=tf.float32: tf.cast(x, dtype))
  fn, params = gc.convert(function, X, dtype=dtype)
  for options in ({}, {"dtype": dtype}):
    result, _ = fn(params, X * 3, **options)
    np.testing.assert_array_equal(result, function(X * 3, dtype))
    assert result.dtype == np.int32
  for other in (np.int16, np.dtype("int16"), tf.int16, "int16"):
    with pytest.raises(gc.InputError, match="'dtype': got .*fixed value"):
      fn(params, X, dtype=other)


def test_the_function_gets_the_dtype_that_was_passed():
  got = []

  @tf.function
  def function(x, dtypes):
    got.append(dtypes)
    return tf.cast(x, dtypes[0])

  dtypes = (np.int32, np.dtype("float64"), tf.int32)
  gc.convert(function, X, dtypes)
  assert [[type(dtype) for dtype in found] for found in got] == [[type(dtype) for dtype in dtypes]]
