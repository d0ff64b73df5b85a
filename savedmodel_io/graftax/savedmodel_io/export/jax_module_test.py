"""`JaxModule` without TensorFlow: arguments, names, updates and errors."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from graftax.savedmodel_io.errors import SaveInputError, VariableValueError
from graftax.savedmodel_io.export import jax_module
from graftax.savedmodel_io.export.jax_module import JaxModule
from graftax.savedmodel_io.export.module_parameters import module_parameters

_KEY = JaxModule.DEFAULT_METHOD_KEY
_X = np.arange(6, dtype=np.float32).reshape(3, 2)


@pytest.fixture(autouse=True)
def without_tensorflow(monkeypatch):
  """Other tests of the same process may have imported it."""
  monkeypatch.setattr(jax_module, "imported_tensorflow", lambda: None)


def _params():
  return {"w": np.ones(2, np.float32), "step": np.int32(3)}


def _apply(params, x):
  return x @ params["w"]


class _Opaque:
  """A pytree node whose keys have no names."""

  def __init__(self, *values):
    self.values = values


class _NamelessKey:
  pass


class _Dict(dict):
  """A container that is not a dict for JAX."""


jax.tree_util.register_pytree_with_keys(
  _Dict,
  lambda node: ([(jax.tree_util.DictKey(key), node[key]) for key in sorted(node)], tuple(sorted(node))),
  lambda keys, values: _Dict(zip(keys, values, strict=True)),
)


jax.tree_util.register_pytree_with_keys(
  _Opaque, lambda node: ([(_NamelessKey(), v) for v in node.values], None), lambda _, values: _Opaque(*values)
)


def test_making_a_module_does_not_import_tensorflow():
  code = (
    "import sys, numpy as np; from graftax.savedmodel_io import JaxModule; "
    "JaxModule({'w': np.ones(2)}, lambda p, x: x); sys.exit('tensorflow' in sys.modules)"
  )
  subprocess.run([sys.executable, "-c", code], check=True)


def test_a_single_function_has_the_default_key():
  module = JaxModule(_params(), _apply)
  assert _KEY == "jax_module_default_method"
  assert list(module.jax_methods) == [_KEY]
  np.testing.assert_array_equal(module.jax_methods[_KEY](_X), _X.sum(1))


def test_a_mapping_of_functions_keeps_its_keys():
  module = JaxModule(_params(), {"once": _apply, "twice": lambda params, x: 2 * _apply(params, x)})
  assert list(module.jax_methods) == ["once", "twice"]
  np.testing.assert_array_equal(module.jax_methods["twice"](_X), 2 * _X.sum(1))


def test_maps_hold_what_each_method_was_made_with():
  functions = {"add": lambda params, x: x + params, "sub": lambda params, x: x - params}
  shapes = {"add": None, "sub": "b, ..."}
  constraints = {"add": None, "sub": {"polymorphic_constraints": ("b >= 2",)}}
  module = JaxModule(np.float32(1), functions, input_polymorphic_shape=shapes, jax2tf_kwargs=constraints)
  assert module.apply_fn_map == functions
  assert module.input_polymorphic_shape_map == shapes
  assert module.jax2tf_kwargs_map == {
    "add": {"with_gradient": False},
    "sub": {"with_gradient": False, "polymorphic_constraints": ("b >= 2",)},
  }


def test_methods_take_several_inputs_and_inputs_by_name():
  module = JaxModule(_params(), lambda params, x, y: _apply(params, x) - y)
  np.testing.assert_array_equal(module.jax_methods[_KEY](_X, y=np.float32(1)), _X.sum(1) - 1)


@pytest.mark.parametrize(
  ("trainable", "expected"),
  [
    (None, (False, False)),
    (False, (False, False)),
    (True, (False, True)),  # "step" is an integer
    ({"w": True, "step": False}, (False, True)),
    ({"w": False, "step": False}, (False, False)),
  ],
)
def test_trainable_is_none_a_bool_or_a_tree(trainable, expected):
  module = JaxModule(_params(), _apply, trainable)
  assert module._parameters.names == ("step", "w")
  assert module._parameters.trainable == expected
  assert module.with_gradient == any(expected)


def test_a_bool_of_trainable_applies_to_a_part():
  parameters = module_parameters({"a": [np.ones(1), np.ones(1)], "b": np.ones(1)}, {"a": True, "b": False})
  assert parameters.trainable == (True, True, False)


def test_variables_are_named_by_dotted_paths():
  params = {"dense": [{"kernel": np.ones(1)}, {"kernel": np.ones(1)}], "mlp/~/linear": {"w": np.ones(1)}}
  assert module_parameters(params, None).names == ("dense.0.kernel", "dense.1.kernel", "mlp/_/linear.w")


def test_two_variables_never_have_one_name():
  names = module_parameters(
    {"a": {"b": np.ones(1)}, "a.b": np.ones(1), "c d": np.ones(1), "c~d": np.ones(1)}, None
  ).names
  assert len(set(names)) == 4


def test_keys_without_names_give_numbered_variables_and_a_warning():
  with pytest.warns(UserWarning, match="jax_param_0.*register_pytree_with_keys") as caught:
    module = JaxModule([_Opaque(np.ones(1), np.zeros(1))], lambda params, x: x * params[0].values[0])
  assert module._parameters.names == ("jax_param_0", "jax_param_1")
  assert caught[0].filename == __file__
  np.testing.assert_array_equal(module.jax_methods[_KEY](2.0), [2])


def test_custom_containers_are_not_wrapped_again():
  params = _Dict(a=_Dict(b=np.ones(1, np.float32)))
  module = JaxModule(params, lambda params, x: isinstance(params["a"], _Dict))
  assert module.model_params is params
  assert module.jax_methods[_KEY](0)
  assert jax.tree.structure(module._parameters.structure.rebuilt([1])) == jax.tree.structure(params)


def test_keys_of_random_numbers_are_parameters():
  module = JaxModule({"key": jax.random.key(7)}, lambda params, x: x + jax.random.uniform(params["key"], (2,)))
  (bits,) = module._parameters.values
  assert bits.dtype == np.uint32
  np.testing.assert_array_equal(module.jax_methods[_KEY](1.0), 1 + jax.random.uniform(jax.random.key(7), (2,)))


def test_updates_reach_methods_obtained_before():
  module = JaxModule(_params(), _apply)
  before = module.jax_methods[_KEY]
  module.update_variables({"w": np.full(2, 2, np.float32), "step": np.int32(4)})
  np.testing.assert_array_equal(before(_X), 2 * _X.sum(1))
  np.testing.assert_array_equal(module.jax_methods[_KEY](_X), 2 * _X.sum(1))
  assert module.model_params["step"] == 4


@pytest.mark.parametrize(
  ("params", "message"),
  [
    ({"w": np.ones(2, np.float32)}, r"made with: params lacks the keys \['step'\]"),
    (_Dict(_params()), "made with: params is a _Dict; expected a dict"),
    ({**_params(), "w": np.ones(3, np.float32)}, r"parameter 'w' is float32\[3\]; expected float32\[2\]"),
    ({**_params(), "w": np.ones(2, np.float64)}, r"parameter 'w' is float64\[2\]; expected float32\[2\]"),
    ({**_params(), "w": "text"}, "a parameter is 'text' of type str; expected an array"),
    ({**_params(), "step": np.float32(1)}, r"parameter 'step' is float32\[\]; expected int32\[\]"),
  ],
)
def test_updates_of_other_trees_shapes_and_dtypes_are_refused(params, message):
  module = JaxModule(_params(), _apply)
  with pytest.raises(VariableValueError, match=message):
    module.update_variables(params)
  np.testing.assert_array_equal(module.jax_methods[_KEY](_X), _X.sum(1))


_TWO = {"a": _apply, "b": _apply}


@pytest.mark.parametrize(
  ("arguments", "message"),
  [
    ({"apply_fn": 3}, "apply_fn is 3; expected a function"),
    ({"apply_fn": {}}, "apply_fn is {}"),
    ({"apply_fn": {1: _apply}}, "apply_fn has the key 1"),
    ({"apply_fn": {"a": 3}}, "method 'a' is 3; expected a function"),
    ({"apply_fn": _TWO, "input_polymorphic_shape": {"a": None}}, r"`input_polymorphic_shape` must have the keys of"),
    (
      {"apply_fn": _TWO, "input_polymorphic_shape": "b, ..."},
      r"keys of `apply_fn`, which are \['a', 'b'\].*'b, \.\.\.'",
    ),
    ({"apply_fn": _TWO, "jax2tf_kwargs": {"with_gradient": False}}, "`jax2tf_kwargs` must have the keys"),
    ({"apply_fn": _TWO, "jit_compile": {"a": True}}, "`jit_compile` must have the keys"),
    ({"jit_compile": "yes"}, "jit_compile is 'yes'; expected a bool"),
    ({"jax2tf_kwargs": 3}, "jax2tf_kwargs is 3; expected a dict"),
    ({"jax2tf_kwargs": {"polymorphic_shapes": None}}, "use `input_polymorphic_shape` instead"),
    ({"jax2tf_kwargs": {"gradients": 1}}, r"the options \['gradients'\]; expected some of"),
    ({"jax2tf_kwargs": {"with_gradient": True}}, "does not contain trainable parameters"),
    ({"jax2tf_kwargs": {"with_gradient": False}, "trainable": True}, "contains trainable parameters"),
    ({"trainable": {"w": True}}, r"structure of params: trainable lacks the keys \['step'\]"),
    ({"trainable": "all"}, "trainable holds 'all'"),
    ({"params": {"w": "text"}}, "'w'.* is 'text' of type str; expected an array"),
    ({"params": {"w": jax.ShapeDtypeStruct((2,), np.float32)}}, "only a shape and a dtype"),
    ({"pspecs": {"w": jax.P(), "step": jax.P()}}, "JaxModule is not created within a DTensor export context"),
    (
      {"allow_multi_axis_sharding_conslidation": True, "allow_multi_axis_sharding_consolidation": False},
      "are the same argument; pass one of them",
    ),
  ],
)
def test_contradicting_arguments_raise(arguments, message):
  with pytest.raises(SaveInputError, match=message):
    JaxModule(**{"params": _params(), "apply_fn": _apply, **arguments})


@pytest.mark.parametrize("options", [None, {"a": None, "b": {}}, {"a": {"gradient_order": 1}, "b": None}])
def test_options_of_several_methods_are_none_or_a_mapping(options):
  module = JaxModule(_params(), _TWO, jax2tf_kwargs=options)
  assert all(method.options["with_gradient"] is False for method in module._methods_by_key.values())


@pytest.mark.parametrize("spelling", ["conslidation", "consolidation"])
@pytest.mark.parametrize("value", [True, False, None])
def test_both_spellings_of_the_flag_are_accepted(spelling, value):
  module = JaxModule(_params(), _apply, **{f"allow_multi_axis_sharding_{spelling}": value})
  assert module._sharding is None


def test_a_traced_parameter_is_refused():
  with pytest.raises(SaveInputError, match="outside of jit"):
    jax.jit(lambda w: JaxModule({"w": w}, _apply).model_params)(jnp.ones(2))
