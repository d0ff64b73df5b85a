from typing import Any

import pytest

from graftax.graphdef_ir import schema
from graftax.savedmodel_io.errors import DamagedSavedModelError
from graftax.savedmodel_io.objects.function_spec import decode_function_spec

_Value = schema.StructuredValue


def _encode(value: Any) -> schema.StructuredValue:
  match value:
    case None:
      return _Value(none_value=schema.NoneValue())
    case bool():
      return _Value(bool_value=value)
    case int():
      return _Value(int64_value=value)
    case str():
      return _Value(string_value=value)
    case list():
      return _Value(list_value=schema.ListValue(values=map(_encode, value)))
    case tuple():
      return _Value(tuple_value=schema.TupleValue(values=map(_encode, value)))
    case dict():
      return _Value(dict_value=schema.DictValue(fields={k: _encode(v) for k, v in value.items()}))
  raise TypeError(value)


def _spec(is_method: bool = False, **fields: Any) -> schema.FunctionSpec:
  full = {"args": [], "varargs": None, "varkw": None, "defaults": None, "kwonlyargs": [], "kwonlydefaults": None}
  full.update(fields)
  pairs = [schema.PairValue(key=key, value=_encode(value)) for key, value in full.items()]
  named = schema.NamedTupleValue(name="FullArgSpec", values=pairs)
  return schema.FunctionSpec(fullargspec=_Value(named_tuple_value=named), is_method=is_method)


@pytest.mark.parametrize(
  ("fields", "signature"),
  [
    ({}, "()"),
    ({"args": ["x", "training"], "defaults": (False,)}, "(x, training=False)"),
    ({"args": ["x"], "varargs": "rest", "varkw": "options"}, "(x, *rest, **options)"),
    ({"args": ["x"], "kwonlyargs": ["a", "b"], "kwonlydefaults": {"b": 2}}, "(x, *, a, b=2)"),
    ({"args": ["self", "x"], "is_method": True}, "(x)"),
    ({"args": ["self", "x"], "defaults": (1, 2), "is_method": True}, "(x=2)"),
  ],
)
def test_a_spec_is_the_python_signature_without_self(fields, signature):
  assert str(decode_function_spec(_spec(**fields)).signature) == signature


def test_compilation_is_a_choice_of_three():
  spec = _spec()
  assert decode_function_spec(spec).jit_compile is None
  spec.jit_compile = schema.FunctionSpec.ON
  assert decode_function_spec(spec).jit_compile is True


def test_names_that_are_no_parameters_are_an_error():
  with pytest.raises(DamagedSavedModelError, match="not a Python signature.*'a b'"):
    _ = decode_function_spec(_spec(args=["a b"])).signature


def test_a_record_of_something_else_is_an_error():
  with pytest.raises(DamagedSavedModelError, match="lacks .*'args'"):
    decode_function_spec(schema.FunctionSpec(fullargspec=_encode({"args": []})))


@pytest.mark.parametrize(
  "fields", [{"args": [1]}, {"args": 5}, {"kwonlyargs": "x"}, {"defaults": 3}, {"kwonlydefaults": [1]}]
)
def test_fields_of_another_type_are_an_error(fields):
  with pytest.raises(DamagedSavedModelError, match="a function spec has"):
    decode_function_spec(_spec(**fields))
