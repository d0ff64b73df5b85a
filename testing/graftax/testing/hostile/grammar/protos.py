"""GraphDefs from Python values."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from graftax.graphdef_ir import DType, schema

__all__ = ["Func", "Nodes", "Shape", "add", "attr", "call", "const", "function", "graph", "loop", "table", "tensor"]

Nodes: TypeAlias = "schema.RepeatedMessages[schema.NodeDef]"
"""The nodes of a graph or of a function."""


class Func(str):
  """The name of a function, as the value of an attribute."""


class Shape(tuple[int, ...]):
  """The value of an attribute of type shape; -1 is an unknown size."""


def attr(value: Any) -> schema.AttrValue:
  """Returns the AttrValue of a Python value; an AttrValue is itself."""
  if isinstance(value, schema.AttrValue):
    return value
  if isinstance(value, list | tuple) and not isinstance(value, Shape):
    return schema.AttrValue(list=_list(value))
  if isinstance(value, np.ndarray | np.generic | schema.TensorProto):
    return schema.AttrValue(tensor=value if isinstance(value, schema.TensorProto) else tensor(value))
  return schema.AttrValue(**{_field(value): _message(value)})


def _list(values: Sequence[Any]) -> schema.AttrValue.ListValue:
  return schema.AttrValue.ListValue(**{_field(values[0]): [_message(v) for v in values]} if values else {})


def _field(value: Any) -> str:
  for kind, field in ((Func, "func"), (Shape, "shape"), (DType, "type"), (bool, "b"), (int, "i"), (float, "f")):
    if isinstance(value, kind):
      return field
  return "s"


def _message(value: Any) -> Any:
  if isinstance(value, Func):
    return schema.NameAttrList(name=str(value))
  if isinstance(value, Shape):
    return schema.TensorShapeProto(dim=[schema.TensorShapeProto.Dim(size=size) for size in value])
  if isinstance(value, DType):
    return int(value)
  return value.encode() if isinstance(value, str) else value


def tensor(value: Any) -> schema.TensorProto:
  """Returns the TensorProto of an array; of an object array one of strings."""
  array = np.asarray(value)
  shape = _message(Shape(array.shape))
  if array.dtype.kind in "OSU":
    texts = [x if isinstance(x, bytes) else str(x).encode() for x in array.ravel().tolist()]
    return schema.TensorProto(dtype=int(DType.STRING), tensor_shape=shape, string_val=texts)
  dtype = int(DType.from_numpy(array.dtype))
  return schema.TensorProto(dtype=dtype, tensor_shape=shape, tensor_content=array.tobytes())


def add(nodes: Nodes, name: str, op: str, *inputs: str, **attrs: Any) -> schema.NodeDef:
  """Appends a node to the nodes of a graph or function, and returns it."""
  node = nodes.add(name=name, op=op, input=list(inputs))
  for key, value in attrs.items():
    node.attr[key].CopyFrom(attr(value))
  return node


def const(nodes: Nodes, name: str, value: Any, **attrs: Any) -> schema.NodeDef:
  """Appends a Const node."""
  proto = value if isinstance(value, schema.TensorProto) else tensor(value)
  return add(nodes, name, "Const", **{"value": proto, "dtype": DType(proto.dtype), **attrs})


def call(nodes: Nodes, name: str, callee: str, *inputs: str, op: str = "PartitionedCall") -> schema.NodeDef:
  """Appends a call of a function from float32 to float32."""
  return add(nodes, name, op, *inputs, f=Func(callee), Tin=[DType.FLOAT], Tout=[DType.FLOAT])


def loop(nodes: Nodes, name: str, op: str, *inputs: str, body: str = "body", **attrs: Any) -> schema.NodeDef:
  """Appends a While whose condition is the function `cond`."""
  return add(nodes, name, op, *inputs, cond=Func("cond"), body=Func(body), parallel_iterations=10, **attrs)


def table(nodes: Nodes, value_dtype: DType = DType.INT64, op: str = "HashTableV2") -> schema.NodeDef:
  """Appends a table of strings."""
  attrs = {"shared_name": b"t", "container": b"", "use_node_name_sharing": False}
  return add(nodes, "table", op, key_dtype=DType.STRING, value_dtype=value_dtype, **attrs)


def graph() -> schema.GraphDef:
  """Returns an empty graph of a TensorFlow of today."""
  return schema.GraphDef(versions=schema.VersionDef(producer=2200))


def function(
  library: schema.FunctionDefLibrary, name: str, inputs: Mapping[str, DType], outputs: Mapping[str, tuple[str, DType]]
) -> schema.FunctionDef:
  """Appends a function without nodes to a library; outputs are `name -> ("node:arg:0", dtype)`."""
  found = library.function.add()
  found.signature.name = name
  for key, dtype in inputs.items():
    found.signature.input_arg.add(name=key, type=int(dtype))
  for key, (ref, dtype) in outputs.items():
    found.signature.output_arg.add(name=key, type=int(dtype))
    found.ret[key] = ref
  return found
