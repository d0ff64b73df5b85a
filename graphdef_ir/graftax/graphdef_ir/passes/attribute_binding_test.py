"""Binding function attributes."""

import pytest

from graftax.graphdef_ir.attributes import AttrPlaceholder, FunctionRef
from graftax.graphdef_ir.dtypes import DType
from graftax.graphdef_ir.errors import MissingAttributeError
from graftax.graphdef_ir.graph import Function, Node, Parameter, Result, TensorRef
from graftax.graphdef_ir.passes.attribute_binding import bind_attributes

_T = AttrPlaceholder("T")
_GENERIC = Function(
  "f",
  (Parameter("x", DType.INVALID, type_attr="T"),),
  (Result("y", TensorRef("y"), DType.INVALID, type_attr="T"),),
  (
    Node("y", "Neg", (TensorRef("x"),), attrs={"T": _T, "k": 1}),
    Node("z", "PartitionedCall", attrs={"Tin": (_T, DType.BOOL), "f": FunctionRef("g", {"S": _T})}),
    Node("n", "NoOp"),
  ),
)


def test_placeholders_are_replaced_at_every_depth():
  bound = bind_attributes(_GENERIC, {"T": DType.HALF, "unused": 1})
  assert bound.parameters[0].dtype == bound.results[0].dtype == DType.HALF
  assert bound.parameters[0].type_attr is None
  assert bound.node("y").attrs == {"T": DType.HALF, "k": 1}
  assert bound.node("z").attrs == {"Tin": (DType.HALF, DType.BOOL), "f": FunctionRef("g", {"S": DType.HALF})}
  assert bound.node("n") is _GENERIC.node("n")


def test_a_placeholder_can_be_bound_to_another():
  renamed = bind_attributes(_GENERIC, {"T": AttrPlaceholder("U")})
  assert renamed.parameters[0].type_attr == "U"
  assert bind_attributes(renamed, {"U": DType.HALF}) == bind_attributes(_GENERIC, {"T": DType.HALF})


def test_a_function_without_placeholders_is_returned_as_it_is():
  bound = bind_attributes(_GENERIC, {"T": DType.HALF})
  assert bind_attributes(bound, {}) is bound


def test_missing_values_are_named():
  with pytest.raises(
    MissingAttributeError, match=r"function 'f': attribute 'T' has no value; the call has the attributes \['S'\]"
  ):
    bind_attributes(_GENERIC, {"S": 1})
  with pytest.raises(MissingAttributeError, match="attribute 'T' is 3; expected an element type"):
    bind_attributes(_GENERIC, {"T": 3})
