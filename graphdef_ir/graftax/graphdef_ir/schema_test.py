"""The compiled schema: what it contains, and that it is up to date with its sources."""

import re

import pytest

from graftax.graphdef_ir import schema


def test_every_name_in_all_is_a_class():
  assert len(schema.__all__) > 60
  assert all(isinstance(getattr(schema, name), type) for name in schema.__all__)


def test_stub_declares_exactly_the_public_names():
  stub = schema.__file__.removesuffix(".py") + ".pyi"
  with open(stub, encoding="utf-8") as file:
    declared = set(re.findall(r"^class (\w+)", file.read(), re.MULTILINE))
  assert declared == {*schema.__all__, "RepeatedScalars", "RepeatedMessages", "MessageMap"}


def test_messages_use_our_package_so_that_tensorflow_can_be_imported_too():
  assert schema.GraphDef.DESCRIPTOR.full_name == "graftax.schema.GraphDef"
  assert schema.GraphDef.DESCRIPTOR.file.name == "graftax/schema/graph.proto"


def test_fields_we_do_not_declare_survive_a_round_trip():
  full_type = b"\x3a\x02\x08\x01"  # NodeDef.experimental_type = 7, which the schema leaves out
  node = schema.NodeDef.FromString(b"\x0a\x01x" + full_type)
  assert node.name == "x"
  assert full_type in node.SerializeToString()


def test_well_known_types_are_the_standard_classes():
  saved_object = schema.SavedObject()
  saved_object.serialized_user_proto.Pack(schema.VersionDef(producer=3))
  unpacked = schema.VersionDef()
  assert saved_object.serialized_user_proto.Unpack(unpacked)
  assert unpacked.producer == 3


def test_nested_enum_values_are_attributes_of_their_message():
  assert schema.SaverDef.V2 == 2
  assert schema.VariableAggregation.VARIABLE_AGGREGATION_SUM == 1
  assert schema.DataType.DT_FLOAT == 1


def test_compiled_files_match_the_proto_sources():
  pytest.importorskip("grpc_tools")
  compile_schema = pytest.importorskip("graftax.tools.codegen.compile_schema")
  assert compile_schema.main(["--check"]) == 0
