"""Partial shapes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graftax.graphdef_ir import schema
from graftax.graphdef_ir.dtypes import DType
from graftax.graphdef_ir.errors import GraphError, ParseError
from graftax.graphdef_ir.shapes import PartialShape, TensorSpec, shape_from_proto, shape_to_proto

_shapes = st.one_of(
  st.just(PartialShape(None)),
  st.lists(st.none() | st.integers(0, 2**63 - 1), max_size=6).map(lambda dims: PartialShape(tuple(dims))),
)


@given(_shapes)
def test_message_round_trip(shape: PartialShape):
  assert shape_from_proto(shape_to_proto(shape)) == shape


@given(_shapes, _shapes)
def test_compatibility_is_symmetric(a: PartialShape, b: PartialShape):
  assert a.is_compatible_with(b) == b.is_compatible_with(a)
  assert a.is_compatible_with(a)


def test_compatible_shapes_agree_where_both_are_known():
  assert PartialShape((None, 3)).is_compatible_with((2, 3))
  assert PartialShape(None).is_compatible_with((2, 3))
  assert not PartialShape((None, 3)).is_compatible_with((2, 4))
  assert not PartialShape((None, 3)).is_compatible_with((3,))


def test_rank_and_size_when_known():
  assert (PartialShape(None).rank, PartialShape(()).rank, PartialShape((1, None)).rank) == (None, 0, 2)
  assert PartialShape((2, 3)).is_static and not PartialShape((2, None)).is_static and not PartialShape(None).is_static
  assert PartialShape((2, 3)).as_tuple() == (2, 3)
  with pytest.raises(GraphError, match=r"shape \[2, \?\] is not fully known"):
    PartialShape((2, None)).as_tuple()
  with pytest.raises(GraphError, match=r"shape \[unknown rank\] is not fully known"):
    PartialShape(None).as_tuple()


def test_text():
  assert [str(PartialShape(dims)) for dims in (None, (), (None, 3))] == ["[unknown rank]", "[]", "[?, 3]"]
  assert str(TensorSpec(PartialShape.of(None, 3), DType.FLOAT)) == "float32[?, 3]"


def test_sizes_below_minus_one_raise():
  message = schema.TensorShapeProto()
  message.dim.add(size=4)
  message.dim.add(size=-2)
  with pytest.raises(ParseError, match=r"size -2 of dimension 1; expected -1 or more"):
    shape_from_proto(message)
