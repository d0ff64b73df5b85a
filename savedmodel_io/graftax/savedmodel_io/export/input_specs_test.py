"""Input signatures without TensorFlow."""

import inspect

import jax
import numpy as np
import pytest

from graftax.savedmodel_io import ServingConfig, TensorSpecWithDefault, remove_signature_defaults
from graftax.savedmodel_io.errors import SaveInputError
from graftax.savedmodel_io.export.input_specs import checked_signature, default_values, named_specs

_SPEC = jax.ShapeDtypeStruct(jax.export.symbolic_shape("batch, 2"), np.float32)


def test_defaults_have_the_dtype_of_the_spec():
  spec = TensorSpecWithDefault(_SPEC, [[1, 2]])
  np.testing.assert_array_equal(spec.default_val, np.array([[1, 2]], np.float32), strict=True)
  assert not spec.is_primary


@pytest.mark.parametrize(
  ("default", "message"),
  [
    (None, "is None; use the spec itself"),
    ([1.0, 2.0], r"is not compatible with it: it has the shape \[2\]"),
    ([[1.0, 2.0, 3.0]], r"it has the shape \[1, 3\]"),
    ([["a", "b"]], "cannot become float32"),
  ],
)
def test_defaults_that_do_not_fit_raise(default, message):
  with pytest.raises(SaveInputError, match=message):
    TensorSpecWithDefault(_SPEC, default)


@pytest.mark.parametrize(
  ("default", "dtype", "message"),
  [
    (2.5, np.int32, r"int32 does not hold float64 2\.5"),
    (np.int64(300), np.int8, "int8 does not hold int64 300"),
    (300, np.int8, "cannot become int8: Python integer 300 out of bounds"),
    (2, np.bool_, "bool does not hold int64 2"),
    (1e300, np.float32, r"1e\+300 is beyond the range of float32"),
    (np.complex64(1j), np.float32, "float32 does not hold complex64"),
  ],
)
def test_defaults_whose_value_would_change_raise(default, dtype, message):
  with pytest.raises(SaveInputError, match=message):
    TensorSpecWithDefault(jax.ShapeDtypeStruct((), dtype), default)


def test_defaults_may_be_rounded_infinite_and_text():
  def default(value, dtype):
    return TensorSpecWithDefault(jax.ShapeDtypeStruct((), dtype), value).default_val

  assert default(0.1, np.float32) == np.float32(0.1)
  assert default(np.inf, jax.numpy.bfloat16) == np.inf
  assert default(3.0, np.int32) == 3
  assert default("text", np.object_) == "text"


def test_defaults_of_something_else_than_a_spec_raise():
  with pytest.raises(SaveInputError, match="tensor_spec is 3; expected a spec"):
    TensorSpecWithDefault(3, 1)


def test_signature_without_defaults_keeps_its_nesting():
  signature = [_SPEC, {"a": TensorSpecWithDefault(_SPEC, np.ones((1, 2)))}]
  assert remove_signature_defaults(signature) == [_SPEC, {"a": _SPEC}]


def test_default_values_are_nested_like_the_arguments():
  spec = TensorSpecWithDefault(_SPEC, np.ones((1, 2)))
  empty, nested = default_values([_SPEC, {"a": spec, "b": [spec]}], "here")
  assert empty is inspect.Parameter.empty
  np.testing.assert_array_equal(nested["b"][0], [[1, 1]])


def test_a_part_of_an_argument_cannot_have_defaults():
  spec = TensorSpecWithDefault(_SPEC, np.ones((1, 2)))
  with pytest.raises(SaveInputError, match="here: input 0 has defaults for 1 of 2 arrays"):
    default_values([{"a": spec, "b": _SPEC}], "here")


def test_inputs_with_defaults_come_last():
  spec = TensorSpecWithDefault(_SPEC, np.ones((1, 2)))
  with pytest.raises(SaveInputError, match="input 1 has no default, but input 0 has one"):
    default_values([spec, _SPEC], "here")


def test_names_of_inputs_are_those_that_tensorflow_gives():
  names = jax.tree.map(lambda spec: spec.name, named_specs([_SPEC, {"a": _SPEC, "b": [_SPEC]}], "here"))
  assert names == ("inputs_0", {"a": "inputs_1_a", "b": ["inputs_1_b_0"]})


def test_two_inputs_of_one_name_raise():
  class Named:
    shape, dtype, name = (2,), np.dtype(np.float32), "x"

  with pytest.raises(SaveInputError, match=r"several inputs are named \['x'\]"):
    named_specs([Named(), Named()], "here")


def test_dimensions_are_open_by_none_and_by_symbol():
  class _OpenSpec:
    shape, dtype = (None, 2), np.dtype(np.float32)

  specs = named_specs([_SPEC, _OpenSpec()], "here")
  assert [spec.shape for spec in specs] == [(None, 2), (None, 2)]


@pytest.mark.parametrize(
  ("signature", "message"),
  [
    (_SPEC, "expected a list of specs, one per input"),
    ("x", "input_signature is 'x'"),
    ([{"a": 3}], r"input_signature\[0\]\['a'\] is 3; expected a spec"),
  ],
)
def test_signatures_of_something_else_raise(signature, message):
  with pytest.raises(SaveInputError, match=f"here: .*{message}"):
    checked_signature(signature, "here")


@pytest.mark.parametrize("key", ["", [], ["a", 3], 3])
def test_signature_keys_are_names(key):
  with pytest.raises(SaveInputError, match="signature_key is .*; expected a name, or a list of names"):
    ServingConfig(key).get_signature_keys()


def test_signature_keys_may_be_several():
  assert ServingConfig("a").get_signature_keys() == ["a"]
  assert ServingConfig(["a", "b"]).get_signature_keys() == ["a", "b"]


def test_an_input_signature_is_needed_if_it_is_required():
  assert ServingConfig("a").get_input_signature(required=False) is None
  with pytest.raises(SaveInputError, match="signature 'a': neither the ServingConfig nor its `tf_preprocessor`"):
    ServingConfig("a").get_input_signature()


def test_the_method_is_the_only_one_or_the_one_of_the_key():
  one, two = {"f": abs}, {"f": abs, "g": len}
  assert ServingConfig("a").get_infer_step(one) is abs
  assert ServingConfig("a").get_infer_step(len) is len
  assert ServingConfig("a", method_key="g").get_infer_step(two) is len
  with pytest.raises(SaveInputError, match=r"methods \['f', 'g'\]; choose one"):
    ServingConfig("a").get_infer_step(two)
  with pytest.raises(SaveInputError, match=r"no method 'h'; the methods are \['f', 'g'\]"):
    ServingConfig("a", method_key="h").get_infer_step(two)


def test_bound_functions_call_the_method():
  bound = ServingConfig(["a", "b"]).bind({"f": lambda x, y: x - y})
  assert list(bound) == ["a", "b"]
  assert bound["b"](5, 3) == 2
