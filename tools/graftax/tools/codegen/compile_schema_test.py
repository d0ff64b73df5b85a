"""The schema compiler: its stub, and that the checked-in files are what it writes."""

import pytest
from google.protobuf import descriptor_pb2

from graftax.tools.codegen.compile_schema import main, make_stub

_FILE = """
name: "graftax/schema/x.proto"
package: "graftax.schema"
enum_type { name: "Color" value { name: "RED" number: 0 } }
message_type {
  name: "Box"
  field { name: "label" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL }
  field { name: "inner" number: 2 type: TYPE_MESSAGE type_name: ".graftax.schema.Box" label: LABEL_REPEATED }
  field { name: "sizes" number: 3 type: TYPE_INT64 label: LABEL_REPEATED }
  field { name: "named" number: 4 type: TYPE_MESSAGE type_name: ".graftax.schema.Box.NamedEntry" label: LABEL_REPEATED }
  field { name: "any" number: 5 type: TYPE_MESSAGE type_name: ".google.protobuf.Any" label: LABEL_OPTIONAL }
  nested_type {
    name: "NamedEntry"
    field { name: "key" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL }
    field { name: "value" number: 2 type: TYPE_MESSAGE type_name: ".graftax.schema.Box" label: LABEL_OPTIONAL }
    options { map_entry: true }
  }
}
"""


def test_the_stub_tells_the_types_of_fields():
  from google.protobuf import text_format

  files = descriptor_pb2.FileDescriptorSet(file=[text_format.Parse(_FILE, descriptor_pb2.FileDescriptorProto())])
  stub = make_stub(files)
  compile(stub, "schema.pyi", "exec")
  body = stub[stub.index("class Color") :]
  assert "class Color(enum.IntEnum):\n  RED = 0\n" in body
  for line in (
    "  label: str",
    "  def inner(self) -> RepeatedMessages[Box]: ...",
    "  def sizes(self) -> RepeatedScalars[int]: ...",
    "  def named(self) -> MessageMap[str, Box]: ...",
    "  def any(self) -> Any: ...",
  ):
    assert f"{line}\n" in body
  assert "NamedEntry" not in body


def test_the_checked_in_files_are_current():
  pytest.importorskip("grpc_tools")
  assert main(["--check"]) == 0
