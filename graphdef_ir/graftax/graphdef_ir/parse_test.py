"""Messages to graphs, including malformed messages."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graftax.graphdef_ir import schema
from graftax.graphdef_ir.attributes import AttrPlaceholder, FunctionRef
from graftax.graphdef_ir.budget import Limits
from graftax.graphdef_ir.dtypes import DType
from graftax.graphdef_ir.errors import (
  FunctionResultError,
  GraphError,
  LimitExceededError,
  OutputIndexError,
  ParseError,
  UnsupportedFunctionError,
)
from graftax.graphdef_ir.graph import UNRESOLVED_OUTPUT, Function, NodeOrigin, TensorRef
from graftax.graphdef_ir.graph.library import FunctionLibrary
from graftax.graphdef_ir.graph.text import format_graph
from graftax.graphdef_ir.parse import function_from_proto, graph_from_proto, parse_function, parse_graph, parse_message
from graftax.graphdef_ir.serialize import graph_to_proto
from graftax.graphdef_ir.shapes import PartialShape, TensorSpec
from graftax.graphdef_ir.validation import validate


def _graph_message() -> schema.GraphDef:
  """Returns a graph that splits x into two and adds them, with a function that does the same."""
  graph = schema.GraphDef(versions=schema.VersionDef(producer=1234))
  graph.node.add(name="x", op="Placeholder").attr["dtype"].type = int(DType.FLOAT)
  graph.node.add(name="axis", op="Const").attr["dtype"].type = int(DType.INT32)
  graph.node[1].attr["value"].tensor.dtype = int(DType.INT32)
  _add_split(graph.node.add(name="split", op="Split", input=["axis", "x:0", "^x"], device="/cpu:0"))
  _add_type(graph.node.add(name="y", op="AddV2", input=["split", "split:1"]))
  graph.node[3].experimental_debug_info.original_node_names.append("old_y")
  graph.node[3].experimental_debug_info.original_func_names.append("old_f")
  graph.library.function.append(_function_message())
  return graph


def _function_message() -> schema.FunctionDef:
  function = schema.FunctionDef()
  function.signature.name = "f"
  function.signature.is_stateful = True
  function.signature.input_arg.add(name="x", type=int(DType.FLOAT))
  function.signature.output_arg.add(name="y", type=int(DType.FLOAT))
  function.signature.control_output.append("done")
  function.arg_attr[0].attr["_output_shapes"].list.shape.add().dim.add(size=-1)
  function.attr["_noinline"].b = True
  axis = function.node_def.add(name="axis", op="Const")
  axis.attr["dtype"].type = axis.attr["value"].tensor.dtype = int(DType.INT32)
  _add_split(function.node_def.add(name="split", op="Split", input=["axis:output:0", "x"]))
  _add_type(function.node_def.add(name="sum", op="AddV2", input=["split:output:0", "split:output:1", "^axis"]))
  function.ret["y"] = "sum:z:0"
  function.control_ret["done"] = "sum"
  return function


def _add_split(node: schema.NodeDef) -> None:
  node.attr["num_split"].i = 2
  _add_type(node)


def _add_type(node: schema.NodeDef) -> None:
  node.attr["T"].type = int(DType.FLOAT)


def test_a_graph_is_read():
  graph = parse_graph(_graph_message().SerializeToString())
  assert [node.name for node in graph.nodes] == ["x", "axis", "split", "y"]
  split, y = graph.nodes[2:]
  assert split.inputs == (TensorRef("axis"), TensorRef("x")) and split.control_inputs == ("x",)
  assert split.attrs == {"T": DType.FLOAT, "num_split": 2} and split.device == "/cpu:0" and split.source is None
  assert y.inputs == (TensorRef("split", 0), TensorRef("split", 1))
  assert y.source == NodeOrigin(("old_y",), ("old_f",))
  assert graph.producer == 1234
  validate(graph)


def test_a_function_is_read():
  function = parse_function(_function_message().SerializeToString())
  assert function.name == "f" and function.is_stateful and function.attrs == {"_noinline": True}
  (parameter,) = function.parameters
  assert (parameter.name, parameter.dtype, parameter.shape) == ("x", DType.FLOAT, PartialShape((None,)))
  (result,) = function.results
  assert (result.name, result.ref, result.dtype) == ("y", TensorRef("sum"), DType.FLOAT)
  assert function.control_results == ("sum",)
  assert function.node("sum").inputs == (TensorRef("split", 0), TensorRef("split", 1))
  assert function.node("sum").control_inputs == ("axis",)
  assert function.node("split").inputs == (TensorRef("axis"), TensorRef("x"))


@pytest.mark.parametrize(("producer", "shape"), [(23, PartialShape(None)), (24, PartialShape(()))])
def test_old_placeholders_of_shape_nothing_have_unknown_rank(producer: int, shape: PartialShape):
  node = schema.NodeDef(name="x", op="Placeholder")
  node.attr["shape"].shape.SetInParent()
  graph = schema.GraphDef(node=[node], versions=schema.VersionDef(producer=producer))
  parsed = graph_from_proto(graph)
  assert parsed.node("x").attrs["shape"] == shape
  assert graph_from_proto(graph_to_proto(parsed)) == parsed


def test_before_version_def_existed_the_producer_was_a_plain_number():
  assert graph_from_proto(schema.GraphDef(version=21)).producer == 21


class _Foreign:
  """Imitates a message of TensorFlow's own classes."""

  def __init__(self, data: bytes) -> None:
    self._data = data

  def SerializeToString(self) -> bytes:
    return self._data


def test_foreign_messages_are_read_too():
  assert graph_from_proto(_Foreign(_graph_message().SerializeToString())) == graph_from_proto(_graph_message())
  assert function_from_proto(_Foreign(_function_message().SerializeToString())).name == "f"


def test_variables_behind_resources_are_described():
  message = _function_message()
  message.signature.input_arg[0].type = int(DType.RESOURCE)
  recorded = message.signature.input_arg[0].handle_data.add(dtype=int(DType.HALF))
  recorded.shape.dim.add(size=3)
  expected = TensorSpec(PartialShape((3,)), DType.HALF)
  assert function_from_proto(message).parameters[0].handle_spec == expected
  del message.signature.input_arg[0].handle_data[:]
  assert function_from_proto(message).parameters[0].handle_spec is None
  message.arg_attr[0].attr["_handle_dtypes"].list.type.append(int(DType.HALF))
  message.arg_attr[0].attr["_handle_shapes"].list.shape.add().dim.add(size=3)
  assert function_from_proto(message).parameters[0].handle_spec == expected


def test_calls_by_name_use_the_signature_of_the_function():
  library = schema.FunctionDefLibrary(function=[_function_message(), _function_message()])
  library.function[1].signature.name = "g"
  outer = library.function[1]
  del outer.node_def[:]
  outer.node_def.add(name="call", op="f", input=["x"])
  outer.ret["y"] = "call:y:0"
  del outer.control_ret["done"]
  graph = graph_from_proto(schema.GraphDef(library=library))
  assert graph.library["g"].results[0].ref == TensorRef("call")
  assert function_from_proto(outer, graph.library).results[0].ref == TensorRef("call")
  assert function_from_proto(outer).results[0].ref == TensorRef("call", UNRESOLVED_OUTPUT)


def test_unknown_ops_do_not_stop_parsing():
  message = _function_message()
  message.node_def[1].op = "SplitOfTheFuture"
  function = function_from_proto(message)
  assert function.node("sum").inputs == (TensorRef("split", UNRESOLVED_OUTPUT),) * 2


def test_extra_ops_make_them_known():
  message = _function_message()
  message.node_def[1].op = "SplitOfTheFuture"
  op = schema.OpDef(name="SplitOfTheFuture")
  op.output_arg.add(name="first", type=int(DType.FLOAT))
  op.output_arg.add(name="output", type=int(DType.FLOAT), number_attr="num_split")
  op.attr.add(name="num_split", type="int")
  for extra in (schema.OpList(op=[op]), schema.OpList(op=[op]).SerializeToString()):
    function = function_from_proto(message, extra_ops=extra)
    assert function.node("sum").inputs == (TensorRef("split", 1), TensorRef("split", 2))


def test_a_list_output_without_index_stands_for_all_of_it():
  message = _function_message()
  del message.node_def[2].input[:]
  message.node_def[2].input.append("split:output")
  assert function_from_proto(message).node("sum").inputs == (TensorRef("split", 0), TensorRef("split", 1))


def test_lengths_that_are_attributes_of_the_function_stay_unresolved():
  message = _function_message()
  message.node_def[1].attr["num_split"].placeholder = "n"
  function = function_from_proto(message)
  assert function.node("split").attrs["num_split"] == AttrPlaceholder("n")
  assert function.node("sum").inputs[0].index == UNRESOLVED_OUTPUT


def test_generic_parameters_keep_the_name_of_their_type():
  message = _function_message()
  message.signature.input_arg[0].ClearField("type")
  message.signature.input_arg[0].type_attr = "T"
  (parameter,) = function_from_proto(message).parameters
  assert (parameter.dtype, parameter.type_attr) == (DType.INVALID, "T")


def test_functions_as_attributes():
  message = schema.NodeDef(name="call", op="PartitionedCall")
  message.attr["f"].func.name = "f"
  message.attr["f"].func.attr["T"].type = int(DType.FLOAT)
  (node,) = graph_from_proto(schema.GraphDef(node=[message])).nodes
  assert node.attrs["f"] == FunctionRef("f", {"T": DType.FLOAT})


@pytest.mark.parametrize(
  ("text", "error", "expected"),
  [
    ("", ParseError, "input '' is malformed"),
    ("split:output:0:0", ParseError, "is malformed"),
    ("split:output:x", ParseError, "expected an output index"),
    ("split:output:99999999999", ParseError, "expected an output index"),
    ("split:output:2", OutputIndexError, "output 'output' of 'split' has 2 tensors"),
    ("split:z:0", OutputIndexError, r"op 'Split' has no output 'z'; expected one of \['output'\]"),
    ("x:1", OutputIndexError, "parameter 'x' is one tensor"),
  ],
)
def test_wrong_inputs_name_node_and_function(text: str, error: type[GraphError], expected: str):
  message = _function_message()
  message.node_def[2].input[0] = text
  with pytest.raises(error, match=rf"function 'f': node 'sum' \(AddV2\): .*{expected}"):
    function_from_proto(message)


def test_dangling_inputs_are_left_to_validate():
  message = _function_message()
  message.node_def[2].input[0] = "nowhere:z:0"
  message.node_def[2].input[1] = "nowhere"
  assert function_from_proto(message).node("sum").inputs == (TensorRef("nowhere"),) * 2


def test_results_must_name_one_tensor_each():
  message = _function_message()
  message.ret["y"] = "split:output"
  with pytest.raises(FunctionResultError, match=r"function 'f': result 'y' names 2 tensors \('split:output'\)"):
    function_from_proto(message)
  del message.ret["y"]
  with pytest.raises(FunctionResultError, match="function 'f': result 'y' has no tensor"):
    function_from_proto(message)


def test_parameters_of_variable_length_are_unsupported():
  message = _function_message()
  message.signature.input_arg[0].number_attr = "N"
  with pytest.raises(
    UnsupportedFunctionError, match="function 'f': parameter 'x' is a list whose length is attribute 'N'"
  ):
    function_from_proto(message)


def test_a_broken_function_breaks_only_those_who_ask_for_it():
  message = _graph_message()
  message.library.function[0].node_def[0].input.append("")
  graph = graph_from_proto(message)
  with pytest.raises(ParseError, match="function 'f': node 'axis'"):
    graph.library["f"]


def test_broken_values_name_their_node():
  message = _graph_message()
  message.node[3].attr["T"].type = 99
  with pytest.raises(ParseError, match=r"node 'y' \(AddV2\): attribute 'T': dtype number 99 is unknown"):
    graph_from_proto(message)


def test_every_truncation_is_a_parse_error_or_a_smaller_graph():
  data = _graph_message().SerializeToString()
  for size in range(len(data)):
    _parse_everything(data[:size])
  with pytest.raises(ParseError, match=rf"GraphDef: {len(data) - 1} bytes cannot be parsed"):
    parse_graph(data[:-1])


def test_sizes_that_grappler_numbers_are_left_out():
  message = _graph_message()
  shapes = message.node[3].attr["_input_shapes"].list.shape
  shapes.add().dim.add(size=-7)
  shapes.add().dim.add(size=3)
  assert "_input_shapes" not in graph_from_proto(message).nodes[3].attrs
  message.node[3].attr["shape"].shape.dim.add(size=-7)
  with pytest.raises(ParseError, match="'shape'"):
    graph_from_proto(message)


@pytest.mark.parametrize("in_text_form", [False, True])
def test_a_model_in_place_of_a_graph_is_recognised(in_text_form):
  meta_graph = schema.MetaGraphDef(
    meta_info_def=schema.MetaGraphDef.MetaInfoDef(tags=["serve"], tensorflow_version="2.21.0"),
    graph_def=_graph_message(),
  )
  model = schema.SavedModel(saved_model_schema_version=1, meta_graphs=[meta_graph])
  written = (lambda m: str(m).encode()) if in_text_form else (lambda m: m.SerializeToString())
  with pytest.raises(ParseError, match=r"the data is a SavedModel, .*load its folder with graftax.savedmodel_io.load"):
    parse_graph(written(model))
  with pytest.raises(ParseError, match=r"the data is a MetaGraphDef, as in .meta files"):
    parse_graph(written(meta_graph))


def test_flipped_bytes_never_escape_as_other_errors():
  data = _graph_message().SerializeToString()
  generator = random.Random(0)
  for _ in range(3000):
    damaged = bytearray(data)
    for _ in range(generator.randint(1, 4)):
      damaged[generator.randrange(len(damaged))] = generator.randrange(256)
    _parse_everything(bytes(damaged))


@given(st.binary(max_size=200))
def test_noise_never_escapes_as_other_errors(data: bytes):
  _parse_everything(data)


def _parse_everything(data: bytes) -> None:
  try:
    graph = parse_graph(data)
    for name in graph.library:
      str(graph.library[name])
    format_graph(graph)
    validate(graph)
  except (GraphError, LimitExceededError, UnsupportedFunctionError):
    pass


def test_bottomless_nesting_is_a_parse_error():
  data = b"\x18\x01"  # an AttrValue with i = 1
  assert parse_message(schema.AttrValue, _call_around(data)).func.attr["f"].i == 1
  for _ in range(3000):
    data = _call_around(data)
  with pytest.raises(ParseError, match=r"AttrValue: \d+ bytes cannot be parsed"):
    parse_message(schema.AttrValue, data)


def _call_around(attr_value: bytes) -> bytes:
  """Returns an encoded AttrValue of a function with `attr_value` as its attribute "f"."""
  entry = b"\x0a\x01f" + _field(b"\x12", attr_value)
  return _field(b"\x52", _field(b"\x12", entry))


def _field(tag: bytes, payload: bytes) -> bytes:
  length, size = bytearray(), len(payload)
  while size >= 0x80:
    length.append(size & 0x7F | 0x80)
    size >>= 7
  return tag + bytes([*length, size]) + payload


def test_a_library_with_thousands_of_functions_is_not_parsed_up_front():
  message = schema.GraphDef()
  for index in range(2000):
    function = message.library.function.add()
    function.CopyFrom(_function_message())
    function.signature.name = f"f{index}"
  library = graph_from_proto(message).library
  assert isinstance(library, FunctionLibrary) and len(library) == 2000
  assert isinstance(library["f1999"], Function)


def _constants(values: list[float], size: int, count: int) -> bytes:
  tensor = schema.TensorProto(dtype=1, float_val=values, tensor_shape=schema.TensorShapeProto(dim=[{"size": size}]))
  attrs = {"value": schema.AttrValue(tensor=tensor), "dtype": schema.AttrValue(type=1)}
  nodes = [schema.NodeDef(name=f"c{i}", op="Const", attr=attrs) for i in range(count)]
  return schema.GraphDef(node=nodes).SerializeToString()


def test_constants_of_few_values_are_limited_together():
  data = _constants([1, 2], 1 << 24, 20)
  with pytest.raises(
    LimitExceededError, match=r"Tensor\(float32\[16777216\]\) of few values, .* needs 335544320 bytes"
  ):
    parse_graph(data)
  graph = parse_graph(data, limits=Limits(unpacked_free_bytes=1 << 31))
  assert graph.nodes[0].attrs["value"].numpy()[[0, 1, -1]].tolist() == [1, 2, 2]


def test_one_value_that_is_repeated_takes_no_memory():
  graph = parse_graph(_constants([3], 1 << 28, 100))
  assert graph.nodes[99].attrs["value"].numpy().strides == (0,)


def test_constants_of_few_values_in_functions_are_limited_when_the_function_is_used():
  function = schema.FunctionDef(signature=schema.OpDef(name="f"))
  function.node_def.extend(schema.GraphDef.FromString(_constants([1, 2], 1 << 24, 20)).node)
  graph = parse_graph(schema.GraphDef(library=schema.FunctionDefLibrary(function=[function])).SerializeToString())
  with pytest.raises(LimitExceededError, match="of few values"):
    graph.library["f"]
