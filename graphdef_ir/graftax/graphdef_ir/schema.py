"""Protocol buffer messages of graphs, SavedModels and checkpoints, readable without TensorFlow.

The messages have TensorFlow's names, field names and field numbers, so either side can read bytes written by the
other. They are registered as `graftax.schema.*`, so both can be imported into one process.

    >>> graph = GraphDef.FromString(b"\\n\\x08\\n\\x01x\\x12\\x03Abs")
    >>> graph.node[0].name, graph.node[0].op
    ('x', 'Abs')

Source: third_party/schema/graftax/schema/*.proto. `schema.binpb` is its compiled form and `schema.pyi` its types; both
are written by graftax/tools/codegen/compile_schema.py, which explains why there is no `*_pb2.py`.
"""

import enum
import pkgutil

from google.protobuf import (
  any_pb2,  # noqa: F401  importing it registers a file that ours depend on
  descriptor_pb2,
  descriptor_pool,
  message_factory,
  wrappers_pb2,  # noqa: F401  as above
)
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError, Message


def _register(data: bytes) -> dict[str, type]:
  """Adds the compiled files to the default pool, and returns their top-level classes by name."""
  pool = descriptor_pool.Default()
  classes: dict[str, type] = {}
  for file in descriptor_pb2.FileDescriptorSet.FromString(data).file:
    pool.AddSerializedFile(file.SerializeToString())
    descriptor = pool.FindFileByName(file.name)
    for name, message in descriptor.message_types_by_name.items():
      classes[name] = _message_class(message)
    for name, values in descriptor.enum_types_by_name.items():
      classes[name] = enum.IntEnum(name, {value.name: value.number for value in values.values}, module=__name__)
  return classes


def _message_class(descriptor: Descriptor) -> type:
  """Returns a message's class, with nested classes as attributes (the pure-Python protobuf adds none)."""
  message_class: type = message_factory.GetMessageClass(descriptor)
  for nested in descriptor.nested_types:
    if not hasattr(message_class, nested.name):
      setattr(message_class, nested.name, _message_class(nested))
  return message_class


_data = pkgutil.get_data(__package__, "schema.binpb")
if _data is None:
  raise AssertionError("internal: schema.binpb is missing from the installed package graftax.graphdef_ir")
_classes = _register(_data)
globals().update(_classes)

__all__ = ["DecodeError", "Message", *_classes]
