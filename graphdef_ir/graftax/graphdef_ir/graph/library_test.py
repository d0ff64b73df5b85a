"""The lazy function library."""

import copy
import pickle

import pytest

from graftax.graphdef_ir import schema
from graftax.graphdef_ir.dtypes import DType
from graftax.graphdef_ir.errors import DuplicateNameError, MissingFunctionError
from graftax.graphdef_ir.graph import Function, Parameter, Result, TensorRef
from graftax.graphdef_ir.graph.library import FunctionLibrary
from graftax.graphdef_ir.signatures import OpArg


def _message(*names: str) -> schema.FunctionDefLibrary:
  return schema.FunctionDefLibrary(
    function=[schema.FunctionDef(signature=schema.OpDef(name=name)) for name in names],
    gradient=[schema.GradientDef(function_name="f", gradient_func="g")],
    registered_gradients=[schema.RegisteredGradient(gradient_func="g", registered_op_type="CustomGradient-1")],
  )


class _Parser:
  def __init__(self) -> None:
    self.parsed: list[str] = []

  def __call__(self, message: schema.FunctionDef) -> Function:
    self.parsed.append(message.signature.name)
    return Function(message.signature.name, (), (), ())


def test_functions_are_parsed_when_asked_for_and_once():
  parse = _Parser()
  library = FunctionLibrary.from_protos(_message("f", "g"), parse)
  assert list(library) == ["f", "g"] and len(library) == 2 and "f" in library
  assert library.signature("f") is not None
  assert parse.parsed == []
  assert library["f"] is library["f"]
  assert parse.parsed == ["f"]


def test_gradients_are_listed():
  library = FunctionLibrary.from_protos(_message("f", "g"), _Parser())
  assert library.gradient_functions == {"f": "g"}
  assert library.registered_gradients == {"CustomGradient-1": "g"}


def test_replace_adds_and_overrides_but_leaves_the_rest_unparsed():
  parse = _Parser()
  library = FunctionLibrary.from_protos(_message("f", "g"), parse)
  new = Function("f", (Parameter("x", DType.FLOAT),), (), ())
  changed = library.replace({"f": new, "h": new})
  assert changed["f"] is new and list(changed) == ["f", "g", "h"] and len(changed) == 3
  assert parse.parsed == []
  assert library["f"] is not new
  assert changed.gradient_functions == {"f": "g"}
  assert changed.stored_message("f") is None and changed.stored_message("g") is not None


def test_a_missing_function_is_a_key_error_with_a_plain_message():
  library = FunctionLibrary()
  assert library.get("f") is None and library.signature("f") is None
  with pytest.raises(MissingFunctionError) as caught:
    library["f"]
  assert isinstance(caught.value, KeyError)
  assert str(caught.value) == "function 'f' is not in the library of 0 functions."


def test_signature_of_a_function_that_has_no_message():
  function = Function(
    "f", (Parameter("x", DType.FLOAT),), (Result("y", TensorRef("x"), DType.FLOAT),), (), is_stateful=True
  )
  signature = FunctionLibrary({"f": function}).signature("f")
  assert signature is not None and signature.is_stateful
  assert (signature.inputs, signature.outputs) == ((OpArg("x", dtype=DType.FLOAT),), (OpArg("y", dtype=DType.FLOAT),))


def test_two_different_functions_of_one_name_raise():
  message = _message("f", "f")
  assert len(FunctionLibrary.from_protos(message, _Parser())) == 1
  message.function[1].signature.is_stateful = True
  with pytest.raises(DuplicateNameError, match="two different functions are named 'f'"):
    FunctionLibrary.from_protos(message, _Parser())


def test_pickle_and_copy_parse_everything():
  library = FunctionLibrary.from_protos(_message("f", "g"), _Parser())
  for copied in (pickle.loads(pickle.dumps(library)), copy.deepcopy(library)):
    assert copied == library and copied.registered_gradients == library.registered_gradients


class _Late:
  """Makes `first` at once, and `second` if all are asked for."""

  def __init__(self) -> None:
    self.functions = {"first": Function("first", (), (), ())}

  def make_all(self) -> None:
    self.functions["second"] = Function("second", (), (), ())


def test_late_functions_are_made_when_all_are_asked_for():
  library = FunctionLibrary.from_protos(_message("f"), _Parser()).with_late(_Late()).replace({})
  assert library.known() == ("f", "first") and repr(library) == "FunctionLibrary(2 functions)"
  assert "first" in library and library["first"].name == "first" and library.signature("first") is not None
  assert "second" not in library and library.get("second") is None
  assert list(library) == ["f", "first", "second"] and len(library) == 3
  assert library["second"].name == "second"


def test_pickling_makes_late_functions():
  library = FunctionLibrary().with_late(_Late())
  assert list(pickle.loads(pickle.dumps(library))) == ["first", "second"]
