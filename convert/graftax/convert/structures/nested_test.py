import collections
import inspect

import jax
import numpy as np
import pytest

from graftax.convert import InputError, InputStructure, MissingInputError, OutputStructure, keyword_structure
from graftax.convert.structures.nested import flatten_call
from graftax.graphdef_ir import DType, PartialShape, TensorSpec

SCALAR = TensorSpec(PartialShape(()), DType.FLOAT)
VECTOR = TensorSpec(PartialShape((None,)), DType.FLOAT)
Pair = collections.namedtuple("Pair", "left right")


def _flatten(structure, *args, strict_shape=True, strict_dtype=False, **kwargs):
  return flatten_call(
    structure, args, kwargs, function="f", strict_shape_check=strict_shape, strict_dtype_check=strict_dtype
  )


def _structure(function, *args, **kwargs):
  return InputStructure(args, kwargs, inspect.signature(function))


def test_dicts_are_flattened_by_sorted_key_and_keywords_by_name():
  structure = _structure(lambda x, *, b, a: None, {"z": SCALAR, "y": Pair(SCALAR, SCALAR)}, a=SCALAR, b=SCALAR)
  assert _flatten(structure, {"z": 3, "y": Pair(1, 2)}, b=5, a=4) == [1, 2, 3, 4, 5]


def test_positional_and_keyword_spelling_are_the_same_call():
  structure = _structure(lambda x, y: None, SCALAR, SCALAR)
  assert _flatten(structure, y=2, x=1) == _flatten(structure, 1, 2) == [1, 2]


def test_varargs_and_varkw_are_flattened_as_tensorflow_does():
  structure = _structure(lambda x, *xs, **kw: None, SCALAR, SCALAR, SCALAR, q=SCALAR)
  assert _flatten(structure, 1, 2, 3, q=4) == [1, 2, 3, 4]


def test_a_fixed_value_that_is_left_out_is_the_one_of_the_conversion():
  structure = _structure(lambda x, flag=True, *, sizes=(1, 2): None, SCALAR, False, sizes=(3, 4))
  assert _flatten(structure, 1) == _flatten(structure, x=1, flag=False) == _flatten(structure, 1, sizes=(3, 4)) == [1]
  with pytest.raises(InputError, match=r"'flag': got True.*fixed value False"):
    _flatten(structure, 1, True)


def test_a_fixed_value_among_other_keywords_may_be_left_out():
  structure = _structure(lambda *args, **kwargs: None, SCALAR, training=True)
  assert _flatten(structure, 1) == _flatten(structure, 1, training=True) == [1]
  with pytest.raises(InputError, match=r"'training': got False.*fixed value True"):
    _flatten(structure, 1, training=False)
  with pytest.raises(InputError, match="missing arguments"):
    _flatten(structure, training=True)


def test_fixed_python_values_are_not_inputs_and_may_not_change():
  structure = _structure(lambda x, flag=True, mode=None: None, SCALAR, True, None)
  assert _flatten(structure, 1) == [1]
  with pytest.raises(InputError, match=r"'flag': got False.*fixed value True"):
    _flatten(structure, 1, flag=False)


@pytest.mark.parametrize(
  ("args", "message"),
  [
    (({"a": 1},), r"argument 'x' is nested differently.*: missing \['x.b'\]; 'x' has the unknown keys \['a'\]"),
    ((np.zeros((2, 2), np.float32),), r"'x'.*got shape \[2, 2\].*\[\?\]"),
    (("text",), r"'x'.*got 'text'"),
  ],
)
def test_wrong_arguments_are_named(args, message):
  spec = VECTOR if not isinstance(args[0], dict) else {"b": VECTOR}
  with pytest.raises(InputError, match=message):
    _flatten(_structure(lambda x: None, spec), *args)


def test_a_missing_argument_is_a_missing_input_error():
  with pytest.raises(MissingInputError, match=r"'y'"):
    _flatten(_structure(lambda x, y: None, SCALAR, SCALAR), 1)


def test_dtypes_are_checked_only_on_request():
  structure = _structure(lambda x: None, VECTOR)
  ints = np.zeros(2, np.int32)
  assert _flatten(structure, ints)[0].dtype == np.float32
  assert _flatten(structure, np.zeros(2, np.float16))[0].dtype == np.float16
  with pytest.raises(InputError, match=r"got dtype int32; expected float32"):
    _flatten(structure, ints, strict_dtype=True)


def test_integers_in_numpy_and_python_stay_known_and_take_the_dtype_of_the_signature():
  structure = _structure(lambda shape, x: None, TensorSpec(PartialShape((None,)), DType.INT32), SCALAR)
  shape, x = _flatten(structure, [2, 3], 1)
  assert (type(shape), shape.dtype, x.dtype) == (np.ndarray, np.int32, np.float32)
  assert isinstance(x, jax.Array)
  assert isinstance(_flatten(structure, np.arange(1000), 1)[0], jax.Array)


def test_the_strict_dtype_check_works_on_tracers_and_without_64_bit_types():
  structure = _structure(lambda x: None, TensorSpec(PartialShape((None,)), DType.INT64))
  jax.jit(lambda x: _flatten(structure, x, strict_dtype=True)[0])(np.arange(3))
  with pytest.raises(InputError, match="got dtype float32"):
    jax.jit(lambda x: _flatten(structure, x, strict_dtype=True)[0])(np.ones(3, np.float32))


@pytest.mark.parametrize("given", [np.float32([1.5]), [1.5], np.complex64([1]), jax.numpy.ones(1)])
@pytest.mark.parametrize("dtype", [DType.UINT8, DType.INT64, DType.BOOL])
def test_floats_for_integers_raise(dtype, given):
  structure = _structure(lambda x: None, TensorSpec(PartialShape((None,)), dtype))
  with pytest.raises(InputError, match=r"got \w+\[1\]; expected \w+, and TensorFlow does not convert it.*astype"):
    _flatten(structure, given)


def test_other_kinds_of_numbers_are_converted_only_without_loss():
  def flat(dtype, value):
    return _flatten(_structure(lambda x: None, TensorSpec(PartialShape(None), dtype)), value)[0]

  assert flat(DType.UINT8, np.full((2, 2), 7, np.int32)).dtype == np.uint8
  assert flat(DType.INT32, jax.numpy.ones((2, 2), bool)).dtype == np.int32
  assert flat(DType.FLOAT, np.ones((2, 2), np.uint8)).dtype == np.float32
  assert flat(DType.FLOAT, np.ones((2, 2), np.float16)).dtype == np.float16
  with pytest.raises(InputError, match="0 to 255"):
    flat(DType.UINT8, np.full((2, 2), 256, np.int32))
  with pytest.raises(InputError, match=r"complex64\[\]; expected float32"):
    flat(DType.FLOAT, np.complex64(1j))


def test_results_are_packed_around_fixed_leaves():
  nested = {"out": (SCALAR, None), "pair": Pair(SCALAR, 7)}
  assert OutputStructure(nested).pack([1, 2]) == {"out": (1, None), "pair": Pair(2, 7)}


@pytest.mark.parametrize(
  ("fixed", "given"), [(None, np.ones(3)), (0, np.zeros(1)), (np.dtype("int32"), "int32x"), (1, None)]
)
def test_other_values_than_the_fixed_ones_raise_whatever_they_are(fixed, given):
  structure = _structure(lambda x, option=None: None, SCALAR, fixed)
  assert _flatten(structure, 1, fixed) == [1]
  with pytest.raises(InputError, match="'option'.*fixed value"):
    _flatten(structure, 1, given)


@pytest.mark.parametrize("value", [np.array([300]), np.array([-1]), [1, 300], np.array([1, 256], np.uint16)])
def test_integers_beyond_the_dtype_of_the_signature_raise(value):
  structure = _structure(lambda x: None, TensorSpec(PartialShape((None,)), DType.UINT8))
  assert _flatten(structure, [0, 255])[0].dtype == np.uint8
  with pytest.raises(InputError, match=r"x'?: got u?int\d+ values from .*; expected uint8, which holds 0 to 255"):
    _flatten(structure, value)


def test_integers_that_do_not_fit_32_bits_raise_while_64_bit_types_are_off():
  structure = _structure(lambda x: None, TensorSpec(PartialShape((None,)), DType.INT64))
  (small,) = _flatten(structure, np.array([2**31 - 1, -(2**31)]))
  assert small.dtype == np.int64
  with pytest.raises(InputError, match=r"'x'.*from 5 to 1099511627776.*jax_enable_x64"):
    _flatten(structure, np.array([5, 2**40]))
  with jax.enable_x64(True):
    _flatten(structure, np.array([5, 2**40]))


_LAYERS = {"encoder": {"kernel": SCALAR, "bias": SCALAR}, "heads": [SCALAR, SCALAR]}


@pytest.mark.parametrize(
  ("value", "error", "message"),
  [
    ({"encoder": {"kernel": 1}, "heads": [1, 2]}, MissingInputError, r"missing \['params.encoder.bias'\]\.$"),
    ({"heads": [1, 2]}, MissingInputError, r"missing \['params.encoder'\]\.$"),
    (
      {"encoder": {"kernel": 1, "bias": 2, "scale": 3}, "heads": [1, 2]},
      InputError,
      r"'params.encoder' has the unknown keys \['scale'\]; expected \['kernel', 'bias'\]",
    ),
    ({"encoder": {"kernel": 1, "bias": 2}, "heads": [1]}, InputError, r"'params.heads' has 1 elements; expected 2"),
    ({"encoder": 1, "heads": [1, 2]}, InputError, r"'params.encoder' is 1; expected a dict"),
    (3, InputError, r"'params' is 3; expected a dict"),
  ],
)
def test_differences_of_nested_arguments_are_named_by_their_path(value, error, message):
  with pytest.raises(InputError, match=message) as raised:
    _flatten(_structure(lambda params: None, _LAYERS), value)
  assert type(raised.value) is error


def test_names_that_python_does_not_allow_are_passed_by_unpacking():
  structure = keyword_structure({"a:0": SCALAR, "class": SCALAR, "inputs": SCALAR}, {"class": np.float32(5)})
  assert str(structure.signature) == "(*, inputs, **inputs_)"
  assert _flatten(structure, **{"inputs": 3, "a:0": 1}) == [1, 5, 3]
  with pytest.raises(MissingInputError, match=r"missing arguments \['a:0'\]"):
    _flatten(structure, inputs=1)
  with pytest.raises(InputError, match=r"unknown arguments \['b'\]"):
    _flatten(structure, inputs=1, b=2, **{"a:0": 1})


TEXT = TensorSpec(PartialShape((None,)), DType.STRING)


@pytest.mark.parametrize("value", [["a", "é"], [b"a", "é"], np.array(["a", "é"]), np.array([b"a", "é"], object)])
def test_text_is_passed_as_utf8_bytes(value):
  (flat,) = _flatten(_structure(lambda x: None, TEXT), value)
  assert flat.dtype == object
  assert flat.tolist() == [b"a", "é".encode()]


def test_one_string_is_a_scalar():
  (flat,) = _flatten(_structure(lambda x: None, TensorSpec(PartialShape(()), DType.STRING)), "a")
  assert flat.shape == () and flat[()] == b"a"


@pytest.mark.parametrize(
  ("spec", "value", "message"),
  [
    (TEXT, np.zeros(2, np.float32), r"'x': got .*; expected text, as str or bytes, like string\[\?\]"),
    (TEXT, ["a\ud800"], r"'x': 'a\\ud800' is not text that UTF-8 can encode: surrogates not allowed"),
    (TEXT, [["a"]], r"'x': incompatible input shape: got shape \[1, 1\]"),
    (VECTOR, ["a", "b"], r"'x': got \['a', 'b'\] of dtype <U1; expected an array like float32\[\?\]"),
    (VECTOR, np.array([b"a"], object), r"'x': got .*; expected an array like float32\[\?\]"),
    (VECTOR, np.array(["1.25"] * 99), r"'x': got a ndarray of dtype <U4; expected an array like float32\[\?\]"),
  ],
)
def test_text_and_numbers_are_not_mixed(spec, value, message):
  with pytest.raises(InputError, match=message):
    _flatten(_structure(lambda x: None, spec), value)
