"""TensorFlow as the oracle: schema, op table, tensor encodings, and graphs of real functions."""

import dataclasses
import operator
import pathlib
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from tensorflow.core.framework import (
  attr_value_pb2,
  graph_pb2,
  op_def_pb2,
  tensor_pb2,
  tensor_slice_pb2,
  types_pb2,
  variable_pb2,
)
from tensorflow.core.protobuf import (
  composite_tensor_variant_pb2,
  fingerprint_pb2,
  saved_model_pb2,
  saved_object_graph_pb2,
  saver_pb2,
  struct_pb2,
  tensor_bundle_pb2,
  trackable_object_graph_pb2,
)
from tensorflow.core.util import saved_tensor_slice_pb2
from tensorflow.python.client import pywrap_tf_session
from tensorflow.python.framework import dtypes as tf_dtypes
from tensorflow.python.framework import function_def_to_graph

from graftax.graphdef_ir import _op_table, inline_calls, prune, schema
from graftax.graphdef_ir.attributes import FunctionRef
from graftax.graphdef_ir.dtypes import DType
from graftax.graphdef_ir.errors import GraphError
from graftax.graphdef_ir.graph import Function, Graph, Node, TensorRef
from graftax.graphdef_ir.graph.library import FunctionLibrary
from graftax.graphdef_ir.graph.traverse import topological_order
from graftax.graphdef_ir.parse import function_from_proto, graph_from_proto, parse_graph
from graftax.graphdef_ir.serialize import graph_to_proto
from graftax.graphdef_ir.shapes import PartialShape
from graftax.graphdef_ir.signatures import OpSignatures, op_signature, signature_from_op_def
from graftax.graphdef_ir.tensors import Tensor
from graftax.graphdef_ir.validation import validate, validate_function

# ---------------------------------------------------------------------------------------------------------------------
# Schema

_TENSORFLOW_FILES = (
  attr_value_pb2,
  composite_tensor_variant_pb2,
  fingerprint_pb2,
  graph_pb2,
  op_def_pb2,
  saved_model_pb2,
  saved_object_graph_pb2,
  saved_tensor_slice_pb2,
  saver_pb2,
  struct_pb2,
  tensor_bundle_pb2,
  tensor_pb2,
  tensor_slice_pb2,
  trackable_object_graph_pb2,
  types_pb2,
  variable_pb2,
)


def _tensorflow_files() -> list[Any]:
  files, pending = {}, [module.DESCRIPTOR for module in _TENSORFLOW_FILES]
  while pending:
    file = pending.pop()
    if file.name not in files:
      files[file.name] = file
      pending.extend(file.dependencies)
  return list(files.values())


_TENSORFLOW_MESSAGES = {m.name: m for file in _tensorflow_files() for m in file.message_types_by_name.values()}
_TENSORFLOW_ENUMS = {e.name: e for file in _tensorflow_files() for e in file.enum_types_by_name.values()}
_MESSAGES = [name for name in schema.__all__ if hasattr(getattr(schema, name), "DESCRIPTOR") and name != "Message"]
# TensorFlow's package has no Python module for these, only the C++ header that protoc wrote.
_CHUNK_HEADER = pathlib.Path(tf.sysconfig.get_include(), "tensorflow/tools/proto_splitter/chunk.pb.h")
_CHUNK_MESSAGES = ("ChunkMetadata", "ChunkInfo", "ChunkedMessage", "ChunkedField", "FieldIndex")


def _describe(field: FieldDescriptor) -> tuple[object, ...]:
  kind = field.message_type or field.enum_type
  type_name = kind.full_name.removeprefix("graftax.schema.").removeprefix("tensorflow.") if kind is not None else None
  oneof = field.containing_oneof is not None
  return field.number, field.type, field.is_repeated, field.is_packed, field.has_presence, oneof, type_name


def _assert_same(ours: Descriptor, theirs: Descriptor) -> None:
  for field in ours.fields:
    assert field.name in theirs.fields_by_name, f"{ours.full_name}.{field.name}"
    assert _describe(field) == _describe(theirs.fields_by_name[field.name]), f"{ours.full_name}.{field.name}"
  for nested in ours.nested_types:
    _assert_same(nested, theirs.nested_types_by_name[nested.name])
  for enum in ours.enum_types:
    assert _values(enum) == _values(theirs.enum_types_by_name[enum.name])


def _values(enum: Any) -> dict[str, int]:
  return {value.name: value.number for value in enum.values}


@pytest.mark.parametrize("name", [name for name in _MESSAGES if name not in _CHUNK_MESSAGES])
def test_fields_have_tensorflows_numbers_and_types(name: str):
  _assert_same(getattr(schema, name).DESCRIPTOR, _TENSORFLOW_MESSAGES[name])


def _numbers_in_header(cpp_name: str) -> dict[str, int]:
  """Returns the numbers of a message's fields by their names without underscores, in lower case."""
  body = _CHUNK_HEADER.read_text().split(f"class PROTOBUF_EXPORT {cpp_name} final", 1)[1]
  body = body.split("class PROTOBUF_EXPORT ", 1)[0]
  return {name.lower(): int(number) for name, number in re.findall(r"k(\w+)FieldNumber = (\d+)", body)}


@pytest.mark.parametrize("name", [*_CHUNK_MESSAGES, "FieldIndex.MapKey"])
def test_fields_of_chunked_models_have_tensorflows_numbers(name: str):
  ours = operator.attrgetter(name)(schema).DESCRIPTOR.fields
  theirs = _numbers_in_header(name.replace(".", "_"))
  assert ours and {field.name.replace("_", ""): field.number for field in ours}.items() <= theirs.items()


@pytest.mark.parametrize("name", ["DataType", "VariableSynchronization", "VariableAggregation"])
def test_enums_have_tensorflows_values(name: str):
  assert {value.name: value.value for value in getattr(schema, name)} == _values(_TENSORFLOW_ENUMS[name])


# ---------------------------------------------------------------------------------------------------------------------
# Op table


def _registered_ops() -> schema.OpList:
  return schema.OpList.FromString(pywrap_tf_session.TF_GetBuffer(pywrap_tf_session.TF_GetAllOpList()))


def test_the_table_equals_the_registry():
  if f"TensorFlow {tf.__version__} " not in _op_table.source():
    pytest.skip(f"the table was not generated from TensorFlow {tf.__version__}")
  ops = _registered_ops().op
  assert {op.name for op in ops} <= set(OpSignatures())
  differing = [op.name for op in ops if op_signature(op.name) != signature_from_op_def(op)]
  assert differing == []
  assert set(OpSignatures()) - {op.name for op in ops} == set()


# ---------------------------------------------------------------------------------------------------------------------
# Element types and tensors

_VALUE_TYPES = [d for d in DType if not d.is_ref and d not in (DType.INVALID, DType.RESOURCE, DType.VARIANT)]
# TensorFlow encodes these as raw bytes only, from two elements on when writing and from one when reading.
_ONLY_AS_BYTES = {DType.FLOAT8_E4M3FNUZ, DType.FLOAT8_E4M3B11FNUZ, DType.FLOAT8_E5M2FNUZ}


def _cases(min_size_as_bytes: int) -> list[tuple[DType, tuple[int, ...]]]:
  shapes = [(), (1,), (3,), (2, 0), (2, 3)]
  return [
    (dtype, shape)
    for dtype in _VALUE_TYPES
    for shape in shapes
    if dtype not in _ONLY_AS_BYTES or np.prod(shape) >= min_size_as_bytes
  ]


@pytest.mark.parametrize("dtype", [d for d in DType if d != DType.INVALID])
def test_element_types_have_tensorflows_names_and_numpy_types(dtype: DType):
  theirs = tf_dtypes.as_dtype(int(dtype))
  assert dtype.tf_name == theirs.name
  if dtype.base in _VALUE_TYPES and not dtype.base.name.startswith(("QINT", "QUINT")):
    assert dtype.numpy == np.dtype(theirs.as_numpy_dtype)


def _sample(dtype: DType, shape: tuple[int, ...]) -> np.ndarray:
  size = int(np.prod(shape))
  if dtype == DType.STRING:
    return np.array([b"a\0", b"", "é".encode()] * size, object)[:size].reshape(shape)
  return (np.arange(size) % 2).astype(dtype.numpy).reshape(shape)


def _tensorflow_array(dtype: DType, array: np.ndarray) -> np.ndarray:
  """Returns the array in TensorFlow's element type, which is structured for quantized types."""
  return array.view(tf_dtypes.as_dtype(int(dtype)).as_numpy_dtype) if dtype.name.startswith("Q") else array


@pytest.mark.parametrize(("dtype", "shape"), _cases(min_size_as_bytes=2))
def test_tensors_that_tensorflow_wrote(dtype: DType, shape: tuple[int, ...]):
  array = _sample(dtype, shape)
  written = tf.make_tensor_proto(_tensorflow_array(dtype, array), dtype=int(dtype), shape=shape)
  tensor = Tensor.from_proto(schema.TensorProto.FromString(written.SerializeToString()))
  assert (tensor.dtype, tensor.shape) == (dtype, shape)
  assert tensor.numpy().tolist() == array.tolist()


@pytest.mark.parametrize(("dtype", "shape"), _cases(min_size_as_bytes=1))
def test_tensors_that_tensorflow_reads(dtype: DType, shape: tuple[int, ...]):
  array = _sample(dtype, shape)
  written = Tensor.from_numpy(array, dtype).to_proto().SerializeToString()
  read = tf.make_ndarray(tensor_pb2.TensorProto.FromString(written))
  assert read.shape == shape
  assert (read.astype(dtype.numpy) if read.dtype.fields is None else read.view(dtype.numpy)).tolist() == array.tolist()


@pytest.mark.parametrize(
  ("dtype", "fields"),
  [
    (DType.FLOAT, {"float_val": [1, 2]}),
    (DType.DOUBLE, {"double_val": [1, 2]}),
    (DType.INT32, {"int_val": [1, -2]}),
    (DType.UINT8, {"int_val": [1, 255]}),
    (DType.INT8, {"int_val": [1, -128]}),
    (DType.UINT16, {"int_val": [1, 65535]}),
    (DType.INT16, {"int_val": [1, -2]}),
    (DType.INT64, {"int64_val": [1, -(2**62)]}),
    (DType.UINT32, {"uint32_val": [1, 2**32 - 1]}),
    (DType.UINT64, {"uint64_val": [1, 2**64 - 1]}),
    (DType.BOOL, {"bool_val": [False, True]}),
    (DType.HALF, {"half_val": [0x3C00, 0xC000]}),
    (DType.BFLOAT16, {"half_val": [0x3F80, 0xC000]}),
    (DType.COMPLEX64, {"scomplex_val": [1, 2, 3, 4]}),
    (DType.COMPLEX128, {"dcomplex_val": [1, 2, 3, 4]}),
    (DType.STRING, {"string_val": [b"a", b"b\0"]}),
  ],
)
@pytest.mark.parametrize("num_values", ["all", "one", "none"])
@pytest.mark.parametrize("shape", [(4,), (2, 2)])
def test_short_value_lists_mean_what_they_mean_to_the_runtime(
  dtype: DType, fields: dict[str, list[Any]], num_values: str, shape: tuple[int, ...]
):
  (name, values), per_element = *fields.items(), 2 if "complex" in next(iter(fields)) else 1
  values = {"all": values, "one": values[:per_element], "none": []}[num_values]
  message = schema.TensorProto(dtype=int(dtype), **{name: values})
  for size in shape:
    message.tensor_shape.dim.add(size=size)
  runtime = tf.io.parse_tensor(message.SerializeToString(), tf_dtypes.as_dtype(int(dtype))).numpy()
  np.testing.assert_array_equal(Tensor.from_proto(message).numpy(), runtime)


# ---------------------------------------------------------------------------------------------------------------------
# Graphs

_MATRIX = tf.TensorSpec([None, 4], tf.float32)


def _lists(x: tf.Tensor) -> Any:
  a, b = tf.split(x, 2, axis=1)
  first, *rest = tf.unstack(tf.concat([a, b, a], axis=1), num=6, axis=1)
  values, indices = tf.math.top_k(tf.add_n(rest), k=1)
  q, r = tf.linalg.qr(tf.reshape(x[:1], [2, 2]))
  return {"first": first, "top": (values, indices), "qr": [r, q], "s": tf.linalg.svd(q)[1]}


def _nested_calls(x: tf.Tensor) -> tf.Tensor:
  @tf.function
  def inner(y: tf.Tensor, n: int) -> tf.Tensor:
    return y if n == 0 else inner(y * 2.0, n - 1) + tf.split(y, 2, axis=1)[1][:, :1]

  return inner(x, 3)


def _control_flow(x: tf.Tensor) -> Any:
  total = tf.reduce_sum(x)
  if total > 0:
    y = x + 1.0
  else:
    y, _ = tf.unique(tf.reshape(x, [-1]))
    y = tf.reshape(y, [-1, 4])
  rows = tf.TensorArray(tf.float32, size=0, dynamic_size=True)
  for i in tf.range(tf.shape(y)[0]):
    if tf.reduce_any(y[i] < 0.0):
      break
    rows = rows.write(i, y[i] * total)
  return rows.stack(), tf.map_fn(lambda row: row * 2, x), tf.switch_case(tf.rank(x) - 2, [lambda: x, lambda: -x])


def _variables_and_effects(x: tf.Tensor) -> tf.Tensor:
  _VARIABLE.assign_add(tf.reduce_sum(x, axis=0))
  tf.print("x", tf.shape(x))
  tf.debugging.assert_greater(tf.size(x), 0)
  return _VARIABLE * x + tf.random.uniform([])


def _custom_gradient(x: tf.Tensor) -> tf.Tensor:
  @tf.custom_gradient
  def twice(y: tf.Tensor) -> Any:
    return y * 2.0, lambda dy: dy * 3.0

  with tf.GradientTape() as tape:
    tape.watch(x)
    z = twice(x)
  return tape.gradient(z, x) + tf.nn.silu(x)


def _strings_and_ragged(x: tf.Tensor) -> Any:
  words = tf.strings.split(tf.strings.as_string(tf.reshape(x, [-1])), ".")
  return words.flat_values, words.row_splits, tf.sparse.from_dense(x).indices


_VARIABLE = tf.Variable(tf.ones([4]))
_FUNCTIONS = [
  _lists,
  _nested_calls,
  _control_flow,
  _variables_and_effects,
  _custom_gradient,
  _strings_and_ragged,
]


def _trace(function: Callable[[tf.Tensor], Any]) -> Any:
  return tf.function(function).get_concrete_function(_MATRIX)


@pytest.mark.parametrize("function", _FUNCTIONS)
def test_graphs_of_traced_functions_are_valid(function: Callable[[tf.Tensor], Any]):
  graph = graph_from_proto(_trace(function).graph.as_graph_def(add_shapes=True))
  validate(graph)
  for name in graph.library:
    validate_function(graph.library[name], graph.library)


@pytest.mark.parametrize("function", _FUNCTIONS)
def test_inputs_of_function_bodies_are_those_that_tensorflow_sees(function: Callable[[tf.Tensor], Any]):
  concrete = _trace(function)
  library = graph_from_proto(concrete.graph.as_graph_def()).library
  for function_def in [concrete.function_def, *concrete.graph.as_graph_def().library.function]:
    _assert_same_refs(function_from_proto(function_def, library), function_def)


def _assert_same_refs(ours: Function, function_def: Any) -> None:
  theirs, flat_names = function_def_to_graph.function_def_to_graph_def(function_def)
  nodes = {node.name: node for node in theirs.node}
  assert {node.name for node in ours.nodes} | {parameter.name for parameter in ours.parameters} == set(nodes)
  for node in ours.nodes:
    spelled = [name for name in nodes[node.name].input if not name.startswith("^")]
    assert list(node.inputs) == [TensorRef.parse(name) for name in spelled], node.name
  for result in ours.results:
    assert result.ref == TensorRef.parse(flat_names[function_def.ret[result.name]])


def _run(graph: Graph, feeds: dict[str, Any], fetches: list[str]) -> list[Any]:
  message = graph_pb2.GraphDef.FromString(graph_to_proto(graph).SerializeToString())
  with tf.Graph().as_default(), tf.compat.v1.Session() as session:
    tf.import_graph_def(message, name="")
    return session.run(fetches, {f"{name}:0": value for name, value in feeds.items()})


def _as_graph(function: Function, library: FunctionLibrary) -> Graph:
  """Returns a graph that runs a function's body, with placeholders for its parameters."""
  placeholders = tuple(
    Node(parameter.name, "Placeholder", attrs={"dtype": parameter.dtype, "shape": parameter.shape})
    for parameter in function.parameters
  )
  return Graph((*placeholders, *function.nodes), library, producer=tf.version.GRAPH_DEF_VERSION)


@pytest.mark.parametrize("function", [_lists, _nested_calls, _control_flow, _custom_gradient, _strings_and_ragged])
def test_inlined_and_pruned_functions_compute_the_same(function: Callable[[tf.Tensor], Any]):
  concrete = _trace(function)
  x = np.arange(1, 5, dtype=np.float32).reshape(1, 4)
  expected = [np.asarray(value) for value in tf.nest.flatten(concrete(tf.constant(x)))]
  library = graph_from_proto(concrete.graph.as_graph_def()).library
  original = function_from_proto(concrete.function_def, library)
  changed = prune(inline_calls(original, library))
  validate_function(changed, library)
  assert not any(node.op in ("PartitionedCall", "StatefulPartitionedCall") for node in changed.nodes)
  feeds = {changed.parameters[0].name: x}
  fetches = [f"{result.ref.node}:{result.ref.index}" for result in changed.results]
  for value, wanted in zip(_run(_as_graph(changed, library), feeds, fetches), expected, strict=True):
    if value.dtype == object:
      np.testing.assert_array_equal(value, wanted)
    else:
      np.testing.assert_allclose(value, wanted, rtol=1e-6)


@pytest.mark.parametrize("function", _FUNCTIONS)
def test_messages_survive_a_round_trip(function: Callable[[tf.Tensor], Any]):
  graph = graph_from_proto(_trace(function).graph.as_graph_def())
  rewritten = dataclasses.replace(graph, library=graph.library.replace(dict(graph.library)))
  again = graph_from_proto(graph_to_proto(rewritten))
  assert again == graph


def _tf1_graph() -> Any:
  """Returns a graph in the style of TensorFlow 1: reference variables, Switch and Merge and a while loop."""
  with tf.Graph().as_default() as graph:
    tf.compat.v1.disable_control_flow_v2()
    try:
      x = tf.compat.v1.placeholder(tf.float32, [None, 4], name="x")
      variable = tf.compat.v1.get_variable("v", [4], use_resource=False)
      branch = tf.cond(tf.reduce_sum(x) > 0, lambda: x + variable, lambda: x * 2)
      _, total = tf.while_loop(lambda i, t: i < 3, lambda i, t: (i + 1, t + branch), [tf.constant(0), branch])
      tf.identity(total, name="y")
      tf.compat.v1.train.Saver()
    finally:
      tf.compat.v1.enable_control_flow_v2()
  return graph


def test_graphs_of_tensorflow_1_are_valid_and_can_be_cut():
  message = _tf1_graph().as_graph_def()
  graph = graph_from_proto(message)
  validate(graph)
  assert {"Switch", "Merge", "NextIteration", "VariableV2"} <= {node.op for node in graph.nodes}
  assert sorted(node.name for node in topological_order(graph.nodes)) == sorted(node.name for node in graph.nodes)
  function = graph.subgraph(["x:0"], ["y:0"])
  validate_function(function)
  assert not any(node.op == "SaveV2" for node in function.nodes)
  ours, theirs = graph_to_proto(graph), message
  assert {node.name: list(node.input) for node in ours.node} == {
    node.name: [name.removesuffix(":0") for name in node.input] for node in theirs.node
  }


def test_every_kind_of_attribute_is_read_as_tensorflow_wrote_it():
  with tf.Graph().as_default() as graph:
    operation = tf.compat.v1.placeholder(tf.float32, [None, 3], name="p").op
    kinds = {
      "_s": attr_value_pb2.AttrValue(s=b"\xff"),
      "_i": attr_value_pb2.AttrValue(i=-3),
      "_f": attr_value_pb2.AttrValue(f=0.5),
      "_b": attr_value_pb2.AttrValue(b=False),
      "_tensor": attr_value_pb2.AttrValue(tensor=tf.make_tensor_proto([1, 2])),
      "_func": attr_value_pb2.AttrValue(func=attr_value_pb2.NameAttrList(name="f")),
      "_list": attr_value_pb2.AttrValue(list=attr_value_pb2.AttrValue.ListValue(s=[b"a"])),
    }
    for name, value in kinds.items():
      operation._set_attr(name, value)
  (node,) = graph_from_proto(graph.as_graph_def()).nodes
  assert node.attrs == {
    "dtype": DType.FLOAT,
    "shape": PartialShape((None, 3)),
    "_s": b"\xff",
    "_i": -3,
    "_f": 0.5,
    "_b": False,
    "_tensor": Tensor.from_numpy(np.array([1, 2], np.int32)),
    "_func": FunctionRef("f"),
    "_list": (b"a",),
  }


def test_a_damaged_graph_of_tensorflow_is_an_error():
  data = bytearray(_trace(_lists).graph.as_graph_def().SerializeToString())
  with pytest.raises(GraphError):
    validate(parse_graph(bytes(data[: len(data) // 2])))
