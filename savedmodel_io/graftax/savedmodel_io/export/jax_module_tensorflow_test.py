"""`JaxModule` as a `tf.Module`."""

import collections
import gc
import weakref

import flax.core
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tensorflow as tf

from graftax.savedmodel_io.errors import SaveInputError
from graftax.savedmodel_io.export import jax_module
from graftax.savedmodel_io.export.jax_module import JaxModule

_KEY = JaxModule.DEFAULT_METHOD_KEY
_X = np.arange(6, dtype=np.float32).reshape(3, 2)


def _params():
  return {"w": np.array([1, 2], np.float32), "step": np.int32(3)}


def _apply(params, x):
  return jnp.sin(x @ params["w"])


def _loop(params, n):
  """Returns w[0] to the power of n, by a loop whose length JAX cannot differentiate."""
  start = jnp.int32(0), jnp.float32(1)
  return jax.lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] * params["w"][0]), start)[1]


def test_it_is_a_module_of_tensorflow():
  module = JaxModule(_params(), _apply)
  assert isinstance(module, tf.Module)
  assert isinstance(module, JaxModule)
  assert type(module).__name__ == "JaxModule"


def test_subclasses_are_modules_of_tensorflow():
  class Model(JaxModule):
    def __init__(self):
      super().__init__(_params(), _apply)
      self.extra = tf.Variable(1.0)

  model = Model()
  assert isinstance(model, Model)
  assert isinstance(model, tf.Module)
  assert len(model.variables) == 3
  assert type(model) is type(Model())


@pytest.mark.parametrize(("name", "expected"), [(None, "jax_module"), ("model", "model")])
def test_modules_have_names(name, expected):
  assert JaxModule(_params(), _apply, name=name).name == expected


def test_variables_hold_the_parameters_on_the_cpu():
  Pair = collections.namedtuple("Pair", "x y")
  params = {"a": [np.ones(1, np.float32), Pair(jnp.zeros(2, jnp.bfloat16), np.int8(5))], "m/~/l": {"w": 2.0}}
  module = JaxModule(params, lambda params, x: x, trainable=True)
  assert [variable.name for variable in module.variables] == ["a.0:0", "a.1.x:0", "a.1.y:0", "m/_/l.w:0"]
  assert [variable.dtype for variable in module.variables] == [tf.float32, tf.bfloat16, tf.int8, tf.float32]
  assert [variable.name for variable in module.trainable_variables] == ["a.0:0", "a.1.x:0", "m/_/l.w:0"]
  assert all("CPU:0" in variable.device for variable in module.variables)
  np.testing.assert_array_equal(module.variables[2], 5)


@pytest.mark.parametrize(("trainable", "num"), [(None, 0), (False, 0), (True, 2), ({"a": True, "b": False}, 1)])
def test_trainable_variables_are_those_asked_for(trainable, num):
  module = JaxModule({"a": np.ones(2), "b": np.ones(3)}, lambda p, x: x, trainable)
  assert len(module.trainable_variables) == num
  assert len(module.variables) == 2


@pytest.mark.parametrize("jit_compile", [True, False, None])
def test_methods_equal_the_jax_function(jit_compile):
  module = JaxModule(_params(), _apply, jit_compile=jit_compile)
  expected = np.sin(_X @ np.array([1, 2], np.float32))
  np.testing.assert_allclose(module.methods[_KEY](_X), expected, rtol=1e-6)
  np.testing.assert_allclose(module.jax_methods[_KEY](_X), expected, rtol=1e-6)
  assert module.methods[_KEY]._jit_compile is jit_compile


def test_jit_compile_may_differ_between_methods():
  module = JaxModule(_params(), {"a": _apply, "b": _apply}, jit_compile={"a": True, "b": False})
  assert [module.methods[key]._jit_compile for key in "ab"] == [True, False]
  np.testing.assert_allclose(module.methods["a"](_X), module.methods["b"](_X))


def test_gradients_are_those_of_jax():
  module = JaxModule(_params(), _apply, trainable={"w": True, "step": False})
  (variable,) = module.trainable_variables
  with tf.GradientTape() as tape:
    loss = tf.reduce_sum(module.methods[_KEY](_X))
  expected = jax.grad(lambda w: _apply({"w": w}, _X).sum())(jnp.array([1, 2], jnp.float32))
  np.testing.assert_allclose(tape.gradient(loss, variable), expected, rtol=1e-5)


def test_modules_without_trainable_parameters_have_no_gradients():
  module = JaxModule(_params(), _apply)
  x = tf.constant(_X)
  with tf.GradientTape() as tape, pytest.raises(LookupError, match="disabled"):
    tape.watch(x)
    tape.gradient(module.methods[_KEY](x), x)


def test_loops_of_unknown_length_are_differentiated():
  module = JaxModule({"w": np.array([2], np.float32)}, _loop, trainable=True)
  with tf.GradientTape() as tape:
    power = module.methods[_KEY](np.int32(5))
  assert power == 32
  np.testing.assert_allclose(tape.gradient(power, module.variables[0]), [80])


def test_polymorphic_shapes_keep_dimensions_open():
  module = JaxModule(_params(), _apply, input_polymorphic_shape="b, ...")

  @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32)], autograph=False)
  def predict(x):
    return module.methods[_KEY](x)

  for size in (1, 3):
    np.testing.assert_allclose(predict(_X[:size]), module.jax_methods[_KEY](_X[:size]), rtol=1e-6)
  (trace,) = predict._list_all_concrete_functions()
  assert trace.structured_outputs.shape.as_list() == [None]


def test_unknown_sizes_without_specification_are_open():
  module = JaxModule(_params(), lambda params, x, rest: (_apply(params, x), rest["a"] * 2, rest["b"] + x[:, 0]))
  method = module.methods[_KEY]
  rest = {"a": tf.TensorSpec((None, None, 3)), "b": tf.TensorSpec((None,))}
  concrete = method.get_concrete_function(tf.TensorSpec((None, 2)), rest)
  for size in (1, 3):
    a, b = tf.ones((size, 5, 3)), tf.range(float(size))
    first, second, third = concrete(tf.constant(_X[:size]), {"a": a, "b": b})
    np.testing.assert_allclose(first, _apply(_params(), _X[:size]), rtol=1e-6)
    np.testing.assert_array_equal(second, a * 2)
    np.testing.assert_array_equal(third, b + _X[:size, 0])


def test_each_method_has_its_own_polymorphic_shape():
  shapes = {"one": "b, _", "two": [{"x": "b, _"}, "b"]}
  functions = {"one": _apply, "two": lambda params, batch, y: _apply(params, batch["x"]) + y}
  module = JaxModule(_params(), functions, input_polymorphic_shape=shapes)
  specs = [{"x": tf.TensorSpec([None, 2])}, tf.TensorSpec([None])]
  found = module.methods["two"].get_concrete_function(*specs)
  assert found.structured_outputs.shape.as_list() == [None]
  np.testing.assert_allclose(module.methods["two"]({"x": _X}, _X[:, 0]), module.methods["one"](_X) + _X[:, 0])


def test_constraints_of_dimensions_are_options():
  def apply(params, x):
    return _apply(params, x) if x.shape[0] >= 2 else x.sum()

  options = {"polymorphic_constraints": ["b >= 2"]}
  module = JaxModule(_params(), apply, input_polymorphic_shape="b, _", jax2tf_kwargs=options)
  found = module.methods[_KEY].get_concrete_function(tf.TensorSpec([None, 2]))
  np.testing.assert_allclose(found(tf.constant(_X)), module.jax_methods[_KEY](_X), rtol=1e-6)


def test_several_inputs_need_as_many_specifications():
  module = JaxModule(_params(), lambda params, x, y: x, input_polymorphic_shape=["b", "b", "b"])
  with pytest.raises(SaveInputError, match=r"called with 2 inputs, .*\['b', 'b', 'b'\]; expected None, one text"):
    module.methods[_KEY](_X, _X)


def test_inputs_may_be_passed_by_name():
  module = JaxModule(_params(), lambda params, x, y: x - y)
  np.testing.assert_array_equal(module.methods[_KEY](y=_X, x=2 * _X), _X)


def _with_options(params, x, train=False, scale=2.0):
  return x if train else scale * (x @ params["w"])


def _with_named_options(params, x, *, train=False, **others):
  return x if train or others else 2.0 * (x @ params["w"])


@pytest.mark.parametrize("apply_fn", [_with_options, _with_named_options])
def test_options_with_defaults_are_left_to_the_function(apply_fn):
  module = JaxModule(_params(), apply_fn, input_polymorphic_shape="b, ...")
  np.testing.assert_array_equal(module.methods[_KEY](_X), 2 * (_X @ _params()["w"]))


def test_inputs_with_defaults_may_be_given():
  module = JaxModule(_params(), lambda params, x, scale=2.0: scale * (x @ params["w"]))
  np.testing.assert_array_equal(module.methods[_KEY](_X, tf.constant(3.0)), 3 * (_X @ _params()["w"]))


def test_random_keys_are_variables_of_bits():
  params = {"key": jax.random.key(3, impl="rbg")}
  module = JaxModule(params, lambda params, x: x + jax.random.uniform(params["key"], (2,)), trainable=True)
  assert [v.dtype for v in module.variables] == [tf.uint32]
  assert not module.trainable_variables
  np.testing.assert_array_equal(module.methods[_KEY](np.float32(1)), module.jax_methods[_KEY](np.float32(1)))


def test_updates_reach_tensorflow_and_jax():
  module = JaxModule(_params(), _apply)
  before, variables = module.methods[_KEY], module.variables
  module.update_variables({"w": jnp.array([3, 4], jnp.float32), "step": np.int32(5)})
  expected = np.sin(_X @ np.array([3, 4], np.float32))
  np.testing.assert_allclose(before(_X), expected, rtol=1e-5)
  np.testing.assert_allclose(module.jax_methods[_KEY](_X), expected, rtol=1e-5)
  assert module.variables[0] is variables[0]


def test_replaced_parameters_are_released():
  old = jnp.ones((3,), jnp.float32)
  module = JaxModule({"w": old}, lambda params, x: x * params["w"])
  module.methods[_KEY](np.float32(1))
  released = weakref.ref(old)
  del old
  module.update_variables({"w": jnp.zeros((3,), jnp.float32)})
  gc.collect()
  assert released() is None


def test_custom_containers_survive():
  params = flax.core.freeze({"a": {"w": np.ones(2, np.float32)}, "l": [np.ones(1, np.float32), ()]})
  seen = []

  def apply(params, x):
    seen.append(jax.tree.structure(params))
    return x

  module = JaxModule(params, apply)
  module.methods[_KEY](1.0)
  assert set(seen) == {jax.tree.structure(params)}
  assert module.model_params is params
  module.update_variables(jax.tree.map(lambda leaf: leaf + 1, params))


def test_a_module_made_before_tensorflow_was_imported_has_methods(monkeypatch):
  with monkeypatch.context() as context:
    context.setattr(jax_module, "imported_tensorflow", lambda: None)
    module = JaxModule(_params(), _apply)
  assert not isinstance(module, tf.Module)
  np.testing.assert_allclose(module.methods[_KEY](_X), module.jax_methods[_KEY](_X), rtol=1e-6)
  module.update_variables({"w": np.zeros(2, np.float32), "step": np.int32(0)})
  np.testing.assert_array_equal(module.methods[_KEY](_X), np.zeros(3))


def test_tensorflow_saves_the_module(tmp_path):
  module = JaxModule(_params(), _apply, trainable=True)
  signature = module.methods[_KEY].get_concrete_function(tf.TensorSpec([3, 2], name="x"))
  tf.saved_model.save(module, str(tmp_path), signatures=signature)
  loaded = tf.saved_model.load(str(tmp_path))
  (found,) = loaded.signatures["serving_default"](x=tf.constant(_X)).values()
  np.testing.assert_allclose(found, module.jax_methods[_KEY](_X), rtol=1e-6)
