"""Op signatures: the table and what is computed from it. tensorflow_test.py compares the table with the registry."""

import pickle

import pytest

from graftax.graphdef_ir import schema
from graftax.graphdef_ir.attributes import AttrPlaceholder
from graftax.graphdef_ir.dtypes import DType
from graftax.graphdef_ir.errors import (
  AttributeValueError,
  MissingAttributeError,
  ParseError,
  UnboundAttributeError,
  UnknownOpError,
)
from graftax.graphdef_ir.shapes import PartialShape
from graftax.graphdef_ir.signatures import OpArg, OpAttr, OpSignature, OpSignatures, op_signature, signature_from_op_def


def test_every_line_of_the_table_can_be_read():
  signatures = OpSignatures()
  assert len(signatures) > 1900
  for name in signatures:
    assert signatures[name].name == name


def test_arguments_of_every_kind():
  assert op_signature("ConcatV2").inputs == (
    OpArg("values", type_attr="T", number_attr="N"),
    OpArg("axis", type_attr="Tidx"),
  )
  assert op_signature("If").inputs[1] == OpArg("input", type_list_attr="Tin")
  assert op_signature("Split").inputs[0] == OpArg("split_dim", dtype=DType.INT32)
  assert op_signature("Assign").inputs[0] == OpArg("ref", type_attr="T", is_ref=True)
  assert [arg.is_list for arg in op_signature("ConcatV2").inputs] == [True, False]


def test_attributes_of_every_kind():
  conv = op_signature("Conv2D").attrs
  assert conv["padding"] == OpAttr("padding", "string", allowed=(b"SAME", b"VALID", b"EXPLICIT"))
  assert conv["dilations"] == OpAttr("dilations", "list(int)", default=(1, 1, 1, 1))
  assert conv["use_cudnn_on_gpu"].default is True
  assert op_signature("Split").attrs["num_split"] == OpAttr("num_split", "int", minimum=1)
  assert op_signature("Placeholder").attrs["shape"].default == PartialShape(None)
  assert op_signature("ImageSummary").attrs["bad_color"].default is not None


def test_marks():
  assert op_signature("RandomUniform").is_stateful and not op_signature("Neg").is_stateful
  assert op_signature("Mul").is_commutative and not op_signature("Sub").is_commutative


def test_an_unknown_op_suggests_similar_names():
  with pytest.raises(UnknownOpError, match=r"op 'MatMull' has no known signature. Did you mean MatMul"):
    op_signature("MatMull")
  with pytest.raises(UnknownOpError, match="Pass the op's OpDef"):
    OpSignatures()["???"]


def test_sizes_follow_the_attributes():
  assert op_signature("ConcatV2").input_sizes({"N": 3}) == (3, 1)
  assert op_signature("Split").output_sizes({"num_split": 5}) == (5,)
  assert op_signature("If").output_sizes({"Tout": (DType.FLOAT, DType.INT32)}) == (2,)
  assert op_signature("Neg").output_sizes({}) == (1,)


def test_types_follow_the_attributes():
  assert op_signature("If").input_types({"Tcond": DType.BOOL, "Tin": (DType.FLOAT,)}) == (DType.BOOL, DType.FLOAT)
  assert op_signature("Split").output_types({"num_split": 2, "T": DType.HALF}) == (DType.HALF, DType.HALF)
  assert op_signature("Assign").output_types({"T": DType.FLOAT_REF}) == (DType.FLOAT,)


def test_defaults_fill_in():
  assert op_signature("ArgMax").output_types({"T": DType.FLOAT}) == (DType.INT64,)
  filled = op_signature("MatMul").with_defaults({"T": DType.FLOAT, "transpose_a": True})
  assert (filled["transpose_a"], filled["transpose_b"]) == (True, False)


def test_offsets_count_flat():
  attrs = {"Tin": (), "Tout": (DType.FLOAT,) * 3}
  assert op_signature("If").output_offsets(attrs) == {"output": (0, 3)}
  assert op_signature("Svd").output_offsets({}) == {"s": (0, 1), "u": (1, 1), "v": (2, 1)}


def test_a_missing_attribute_is_named():
  with pytest.raises(MissingAttributeError, match="Split: attribute 'num_split' is missing"):
    op_signature("Split").output_sizes({})


@pytest.mark.parametrize("size", [-1, 2**40, b"3", ()])
def test_a_length_must_be_one(size: object):
  with pytest.raises(AttributeValueError, match=r"Split: attribute 'num_split' is .*; expected the number of tensors"):
    op_signature("Split").output_sizes({"num_split": size})  # type: ignore[dict-item]


def test_an_element_type_must_be_one():
  with pytest.raises(AttributeValueError, match="Neg: attribute 'T' is 3; expected an element type"):
    op_signature("Neg").input_types({"T": 3})


def test_a_placeholder_is_not_a_value_yet():
  with pytest.raises(UnboundAttributeError, match=r"Split: attribute 'num_split' is the placeholder \$n"):
    op_signature("Split").output_sizes({"num_split": AttrPlaceholder("n")})


def test_a_large_length_costs_nothing():
  assert len(op_signature("Split").output_types({"num_split": 1 << 20, "T": DType.FLOAT})) == 1 << 20


def _op_list() -> schema.OpList:
  mine = schema.OpDef(name="MyOp", is_stateful=True)
  mine.input_arg.add(name="x", type_attr="T")
  mine.output_arg.add(name="y", type=int(DType.INT32))
  mine.attr.add(name="T", type="type", default_value=schema.AttrValue(type=int(DType.FLOAT)))
  mine.attr.add(name="k", type="int", has_minimum=True, minimum=2)
  return schema.OpList(op=[mine, schema.OpDef(name="Neg")])


def test_extra_ops_are_added_but_do_not_replace_the_table():
  signatures = OpSignatures.from_op_list(_op_list())
  assert signatures["MyOp"] == OpSignature(
    "MyOp",
    inputs=(OpArg("x", type_attr="T"),),
    outputs=(OpArg("y", dtype=DType.INT32),),
    attrs={"T": OpAttr("T", "type", default=DType.FLOAT), "k": OpAttr("k", "int", minimum=2)},
    is_stateful=True,
  )
  assert len(signatures["Neg"].inputs) == 1
  assert "MyOp" in signatures and "MyOp" not in OpSignatures()
  assert signatures.get("Nope") is None
  assert len(signatures) == len(OpSignatures()) + 1


def test_signatures_can_be_pickled():
  assert pickle.loads(pickle.dumps(OpSignatures.from_op_list(_op_list())))["MyOp"].is_stateful
  assert pickle.loads(pickle.dumps(op_signature("Conv2D"))) == op_signature("Conv2D")


def test_malformed_declarations_raise():
  untyped = schema.OpDef(name="Bad")
  untyped.input_arg.add(name="x")
  with pytest.raises(ParseError, match="signature of 'Bad': argument 'x' has no type"):
    signature_from_op_def(untyped)
  unknown = schema.OpDef(name="Bad")
  unknown.output_arg.add(name="y", type=77)
  with pytest.raises(ParseError, match="signature of 'Bad': argument 'y': dtype number 77 is unknown"):
    signature_from_op_def(unknown)
