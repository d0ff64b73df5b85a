"""Attribute values."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graftax.graphdef_ir import schema
from graftax.graphdef_ir.attributes import (
  AttrDecoder,
  AttrPlaceholder,
  AttrValue,
  FunctionRef,
  attr_from_proto,
  attr_to_proto,
  attrs_from_proto,
)
from graftax.graphdef_ir.dtypes import DType
from graftax.graphdef_ir.errors import ParseError
from graftax.graphdef_ir.shapes import PartialShape
from graftax.graphdef_ir.tensors import Tensor

_scalars: list[st.SearchStrategy[AttrValue]] = [
  st.binary(max_size=4),
  st.integers(-(2**63), 2**63 - 1),
  st.floats(width=32, allow_nan=False),
  st.booleans(),
  st.sampled_from(DType),
  st.sampled_from([PartialShape(None), PartialShape(()), PartialShape((None, 3))]),
  st.sampled_from([Tensor.from_numpy(np.arange(3)), Tensor.from_numpy(["a"])]),
  st.builds(FunctionRef, st.text(max_size=3), st.just({"T": DType.FLOAT, "k": (1, 2)})),
]
_values = st.one_of(
  *_scalars,
  st.builds(AttrPlaceholder, st.text(max_size=3)),
  *(st.lists(scalar, max_size=3).map(tuple) for scalar in _scalars),
)


@given(_values)
def test_message_round_trip_keeps_value_and_kind(value: AttrValue):
  decoded = attr_from_proto(attr_to_proto(value))
  assert decoded == value
  assert type(decoded) is type(value)
  if isinstance(value, tuple) and isinstance(decoded, tuple):
    assert [type(element) for element in decoded] == [type(element) for element in value]


@given(st.dictionaries(st.text(max_size=3), _values, max_size=4))
def test_the_remembering_decoder_agrees_with_the_plain_one(values: dict[str, AttrValue]):
  node = schema.NodeDef()
  for name, value in values.items():
    node.attr[name].CopyFrom(attr_to_proto(value))
  decoder = AttrDecoder()
  for _ in range(2):
    assert decoder.attrs(node.attr) == attrs_from_proto(node.attr) == values


def test_equal_values_are_decoded_once():
  nodes = [schema.NodeDef() for _ in range(2)]
  for node in nodes:
    node.attr["shape"].shape.dim.add(size=3)
  decoder = AttrDecoder()
  assert decoder.attrs(nodes[0].attr)["shape"] is decoder.attrs(nodes[1].attr)["shape"]


def test_attributes_come_in_name_order():
  node = schema.NodeDef()
  for name in ("b", "c", "a"):
    node.attr[name].i = 1
  assert list(attrs_from_proto(node.attr)) == ["a", "b", "c"]


@pytest.mark.parametrize(
  ("message", "expected"),
  [
    (schema.AttrValue(), "has no value"),
    (schema.AttrValue(type=77), "dtype number 77 is unknown"),
    (schema.AttrValue(list=schema.AttrValue.ListValue(i=[1], b=[True])), r"list mixes \['b', 'i'\]"),
    (schema.AttrValue(list=schema.AttrValue.ListValue(type=[1, 99])), "dtype number 99"),
  ],
)
def test_values_that_make_no_sense_name_their_attribute(message: schema.AttrValue, expected: str):
  node = schema.NodeDef()
  node.attr["broken"].CopyFrom(message)
  for decode in (attrs_from_proto, AttrDecoder().attrs):
    with pytest.raises(ParseError, match=f"attribute 'broken': .*{expected}"):
      decode(node.attr)


def test_a_note_without_a_value_is_left_out():
  node = schema.NodeDef()
  node.attr["_input_shapes"].SetInParent()
  assert attrs_from_proto(node.attr) == AttrDecoder().attrs(node.attr) == {}


def test_an_empty_list_has_no_kind():
  assert attr_from_proto(schema.AttrValue(list=schema.AttrValue.ListValue())) == ()


def test_deeply_nested_functions_raise():
  message = schema.AttrValue()
  innermost = message
  for _ in range(200):
    innermost.func.name = "f"
    innermost = innermost.func.attr["f"]
  innermost.i = 1
  with pytest.raises(ParseError, match="nested more than 32 deep"):
    attr_from_proto(message)


def test_only_attribute_values_can_be_encoded():
  with pytest.raises(TypeError, match="attribute value None of type NoneType"):
    attr_to_proto(None)  # type: ignore[arg-type]


def test_function_refs_can_be_dictionary_keys():
  assert {FunctionRef("f", {"T": DType.FLOAT}): 1}[FunctionRef("f", {"T": DType.FLOAT})] == 1
