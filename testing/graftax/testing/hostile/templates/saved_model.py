"""SavedModels with functions: every message of saved_model.pb lies in turn."""

import shutil
from collections.abc import Callable
from typing import Any

import numpy as np

from graftax.graphdef_ir import DType, schema
from graftax.testing.hostile.draw import INT32, Draw
from graftax.testing.hostile.grammar.models import object_model, write_object_model
from graftax.testing.hostile.grammar.protos import Shape, add, attr, const, tensor
from graftax.testing.hostile.grammar.readers import use_model
from graftax.testing.hostile.grammar.tables import new_bundle, varint, write_bundle
from graftax.testing.hostile.registry import Attempt, Box, Expectation, attempted

_DTYPES = (
  DType.FLOAT,
  DType.INT32,
  DType.STRING,
  DType.RESOURCE,
  DType.VARIANT,
  DType.BOOL,
  DType.COMPLEX128,
  DType.QINT8,
)
Edit = Callable[[Draw, schema.SavedModel], Any]


def attempt_of(change: Edit, draw: Draw, box: Box, expectation: Expectation = "typed", can_jit: bool = True) -> Attempt:
  """Changes the message of an honest model."""
  model = object_model()
  change(draw, model)
  write_object_model(box.model, model)
  jit = can_jit and draw.chance(0.3)
  return Attempt(lambda: use_model(box.model, jit=jit), expectation)


def _meta(model: schema.SavedModel) -> schema.MetaGraphDef:
  return model.meta_graphs[0]


def _objects(model: schema.SavedModel, kind: str) -> list[Any]:
  return [node for node in _meta(model).object_graph_def.nodes if node.WhichOneof("kind") == kind]


def _functions(model: schema.SavedModel) -> list[schema.FunctionDef]:
  return list(_meta(model).graph_def.library.function)


def _node_of(function: schema.FunctionDef, op: str) -> schema.NodeDef:
  return next(node for node in function.node_def if node.op == op)


def _body(draw: Draw, model: schema.SavedModel) -> schema.FunctionDef:
  """Returns the function `f`, or one of the others."""
  functions = _functions(model)
  main = max(functions, key=lambda f: len(f.node_def))
  return draw.pick(main, *functions)


@attempted("loaded")
def honest(draw: Draw, model: schema.SavedModel) -> None:
  del draw, model


def schema_version(draw: Draw, model: schema.SavedModel) -> None:
  model.saved_model_schema_version = draw.size(1)


def meta_graphs(draw: Draw, model: schema.SavedModel) -> None:
  for _ in range(draw.pick(1, 2, 50)):
    model.meta_graphs.add().CopyFrom(_meta(model))
  for graph in model.meta_graphs:
    graph.meta_info_def.tags.append(draw.name("serve", "train"))
  if draw.chance(0.2):
    del model.meta_graphs[:]


def versions(draw: Draw, model: schema.SavedModel) -> None:
  found = _meta(model).graph_def.versions
  found.producer = draw.size(2200, **INT32)
  found.min_consumer = draw.size(0, **INT32)
  found.bad_consumers.extend([found.producer] * draw.integer(0, 3))


def object_children(draw: Draw, model: schema.SavedModel) -> None:
  nodes = _meta(model).object_graph_def.nodes
  for child in draw.pick(*nodes).children:
    child.node_id = draw.size(child.node_id, 0, len(nodes), **INT32)
    child.local_name = draw.name(child.local_name, "a.b", "a[0]", "0")


def object_cycles(draw: Draw, model: schema.SavedModel) -> None:
  nodes = _meta(model).object_graph_def.nodes
  for _ in range(draw.integer(1, 40)):
    draw.pick(*nodes).children.add(node_id=draw.integer(0, len(nodes) - 1), local_name=draw.name("again", "a", "b"))


def object_depth(draw: Draw, model: schema.SavedModel) -> None:
  nodes = _meta(model).object_graph_def.nodes
  function = next(i for i, node in enumerate(nodes) if node.WhichOneof("kind") == "function")
  parent = nodes[0]
  for _ in range(draw.pick(10, 1000, 20_000)):
    parent.children.add(node_id=len(nodes), local_name="a")
    parent = nodes.add()
    parent.user_object.identifier = "_generic_user_object"
  parent.children.add(node_id=function, local_name="call")


def object_paths_multiply(draw: Draw, model: schema.SavedModel) -> None:
  nodes = _meta(model).object_graph_def.nodes
  function = next(i for i, node in enumerate(nodes) if node.WhichOneof("kind") == "function")
  parent = nodes[0]
  for _ in range(draw.pick(3, 25, 60)):  # two ways from each object to the next
    for name in ("a", "b"):
      parent.children.add(node_id=len(nodes), local_name=name)
    parent = nodes.add()
    parent.user_object.identifier = "_generic_user_object"
  parent.children.add(node_id=function, local_name="call")


def object_kinds(draw: Draw, model: schema.SavedModel) -> None:
  node = draw.pick(*_meta(model).object_graph_def.nodes)
  kind = draw.pick("user_object", "asset", "function", "variable", "bare_concrete_function", "constant", "resource")
  getattr(node, kind).SetInParent()
  if draw.chance(0.3):
    node.captured_tensor.name = draw.name("x:0")


def user_objects(draw: Draw, model: schema.SavedModel) -> None:
  for node in _objects(model, "user_object"):
    node.user_object.identifier = draw.name(
      node.user_object.identifier, "_tf_keras_model", "signature_map", "trackable_list_wrapper"
    )
    node.user_object.metadata = draw.name("", "{", "[[[[" * 50_000, '{"class_name": 1, "config": []}')
    node.user_object.version.producer = draw.size(1, **INT32)


def variables(draw: Draw, model: schema.SavedModel) -> None:
  for node in _objects(model, "variable"):
    variable = node.variable
    variable.dtype = int(draw.lie(DType(variable.dtype), *_DTYPES))
    if draw.chance(0.5):
      variable.shape.CopyFrom(attr(Shape([draw.size(2) for _ in range(draw.integer(0, 3))])).shape)
    variable.shape.unknown_rank = draw.chance(0.2)
    variable.name = draw.name(variable.name)


def shards_of_variables(draw: Draw, model: schema.SavedModel) -> None:
  variable = _objects(model, "variable")[0].variable
  for _ in range(draw.pick(1, 3, 300)):
    variable.experimental_distributed_variable_components.add(dtype=int(draw.pick(*_DTYPES)), name=draw.name("part"))


def slot_variables(draw: Draw, model: schema.SavedModel) -> None:
  nodes = _meta(model).object_graph_def.nodes
  for _ in range(draw.integer(1, 5)):
    draw.pick(*nodes).slot_variables.add(
      original_variable_node_id=draw.size(1, **INT32),
      slot_name=draw.name("m"),
      slot_variable_node_id=draw.size(2, **INT32),
    )


def saveable_objects(draw: Draw, model: schema.SavedModel) -> None:
  node = draw.pick(*_meta(model).object_graph_def.nodes)
  saveable = node.saveable_objects[draw.name("VARIABLE_VALUE")]
  saveable.save_function = draw.size(1, **INT32)
  saveable.restore_function = draw.size(1, **INT32)
  node.registered_saver = draw.name("")


def function_objects(draw: Draw, model: schema.SavedModel) -> None:
  names = list(_meta(model).object_graph_def.concrete_functions)
  for node in _objects(model, "function"):
    del node.function.concrete_functions[:]
    node.function.concrete_functions.extend([draw.name(names[0], *names)] * draw.pick(1, 0, 2, 300))


def bare_functions(draw: Draw, model: schema.SavedModel) -> None:
  node = draw.pick(*_objects(model, "function"))
  names = list(_meta(model).object_graph_def.concrete_functions)
  bare = node.bare_concrete_function
  bare.concrete_function_name = draw.name(names[0])
  bare.argument_keywords.extend([draw.name("x"), draw.name("y")][: draw.integer(0, 2)])
  bare.allowed_positional_arguments = draw.size(1)


def bound_inputs(draw: Draw, model: schema.SavedModel) -> None:
  nodes = len(_meta(model).object_graph_def.nodes)
  for concrete in _meta(model).object_graph_def.concrete_functions.values():
    for i, node in enumerate(concrete.bound_inputs):
      concrete.bound_inputs[i] = draw.size(node, 0, nodes, nodes - 1, **INT32)
    concrete.bound_inputs.extend([draw.integer(0, nodes)] * draw.pick(0, 1, 500))


def _structure(draw: Draw, depth: int) -> schema.StructuredValue:
  """Draws a structured value; each of its kinds can be false."""
  value = schema.StructuredValue()
  kinds = ["tensor_spec_value", "none_value", "float64_value", "int64_value", "string_value", "bool_value"]
  kinds += ["tensor_shape_value", "tensor_dtype_value", "type_spec_value", "bounded_tensor_spec_value", "list_value"]
  kinds += ["tuple_value", "dict_value", "named_tuple_value", "tensor_value", "numpy_value"]
  kind = draw.pick(*(kinds if depth else kinds[:10]))
  if kind in ("list_value", "tuple_value"):
    listed: Any = getattr(value, kind)
    listed.values.extend(_structure(draw, depth - 1) for _ in range(draw.integer(0, 3)))
  elif kind == "dict_value":
    value.dict_value.fields[draw.name("x")].CopyFrom(_structure(draw, depth - 1))
  elif kind == "named_tuple_value":
    value.named_tuple_value.name = draw.name("Pair", "import", "__init__")
    for _ in range(draw.integer(0, 3)):
      value.named_tuple_value.values.add(key=draw.name("a", "class", "_x"), value=_structure(draw, depth - 1))
  elif kind == "type_spec_value":
    spec = value.type_spec_value
    spec.type_spec_class = draw.integer(0, 14)
    spec.type_spec_class_name = draw.name("os.system", "RaggedTensorSpec")
    spec.num_flat_components = draw.size(2, **INT32)
    spec.type_state.CopyFrom(
      _structure(draw, depth - 1 if depth else 0) if draw.chance(0.8) else schema.StructuredValue()
    )
  elif kind in ("tensor_spec_value", "bounded_tensor_spec_value"):
    spec = getattr(value, kind)
    spec.name, spec.dtype = draw.name("x"), draw.pick(1, 0, 3, 7, 20, 21, 99, 101)
    spec.shape.CopyFrom(attr(Shape([draw.size(2) for _ in range(draw.integer(0, 2))])).shape)
  elif kind in ("tensor_value", "numpy_value"):
    getattr(value, kind).CopyFrom(_tensor(draw))
  elif kind == "tensor_shape_value":
    value.tensor_shape_value.CopyFrom(attr(Shape([draw.size(2)])).shape)
  elif kind == "tensor_dtype_value":
    value.tensor_dtype_value = draw.pick(1, 0, 99, 101, 23)
  elif kind == "string_value":
    value.string_value = draw.name("x")
  else:
    getattr(value, kind).SetInParent() if kind == "none_value" else setattr(value, kind, draw.pick(1, 0))
  return value


@attempted(can_jit=False)  # results may be structures of text
def structured_signature(draw: Draw, model: schema.SavedModel) -> None:
  for concrete in _meta(model).object_graph_def.concrete_functions.values():
    if draw.chance(0.7):
      concrete.canonicalized_input_signature.CopyFrom(_structure(draw, 3))
    if draw.chance(0.5):
      concrete.output_signature.CopyFrom(_structure(draw, 3))


@attempted(can_jit=False)  # results may be structures of text
def structure_depth(draw: Draw, model: schema.SavedModel) -> None:
  value = schema.StructuredValue(string_value="x")
  for _ in range(draw.pick(5, 30, 45)):
    outer = schema.StructuredValue()
    inner: Any = draw.pick(outer.tuple_value, outer.list_value)
    inner.values.add().CopyFrom(value)
    value = outer
  for concrete in _meta(model).object_graph_def.concrete_functions.values():
    concrete.output_signature.CopyFrom(value)


@attempted(can_jit=False)  # results may be structures of text
def function_spec(draw: Draw, model: schema.SavedModel) -> None:
  for node in _objects(model, "function"):
    spec = node.function.function_spec
    spec.is_method = draw.chance(0.5)
    spec.jit_compile = draw.pick(0, 1, 2)
    draw.pick(spec.fullargspec, spec.input_signature).CopyFrom(_structure(draw, 3))


@attempted(can_jit=False)  # results may be structures of text
def fullargspec(draw: Draw, model: schema.SavedModel) -> None:
  for node in _objects(model, "function"):
    spec = node.function.function_spec.fullargspec.named_tuple_value
    for pair in spec.values:
      if draw.chance(0.4):
        pair.value.CopyFrom(_structure(draw, 2))
      pair.key = draw.name(pair.key, "args", "varargs", "defaults")
    if spec.values and draw.chance(0.3):
      del spec.values[draw.integer(0, len(spec.values) - 1) :]


def signature_def(draw: Draw, model: schema.SavedModel) -> None:
  signature = _meta(model).signature_def["serving_default"]
  for infos in (signature.inputs, signature.outputs):
    for info in infos.values():
      info.name = draw.name(info.name, "x", "serving_default_x:1", "StatefulPartitionedCall:99")
      info.dtype = int(draw.lie(DType(info.dtype), *_DTYPES))
      info.tensor_shape.CopyFrom(attr(Shape([draw.size(2) for _ in range(draw.integer(0, 3))])).shape)
  if draw.chance(0.3):
    signature.inputs[draw.name("y")].name = draw.name("y:0")


def composite_signature(draw: Draw, model: schema.SavedModel) -> None:
  info = next(iter(_meta(model).signature_def["serving_default"].inputs.values()))
  if draw.chance(0.5):
    for name in ("values_tensor_name", "indices_tensor_name", "dense_shape_tensor_name"):
      setattr(info.coo_sparse, name, draw.name("serving_default_x:0"))
  else:
    info.composite_tensor.type_spec.type_spec_class = draw.integer(0, 14)
    info.composite_tensor.type_spec.type_state.CopyFrom(_structure(draw, 2))
    for _ in range(draw.pick(0, 1, 3, 200)):
      info.composite_tensor.components.add(name=draw.name("serving_default_x:0"))


def signature_defaults(draw: Draw, model: schema.SavedModel) -> None:
  _meta(model).signature_def["serving_default"].defaults[draw.name("x", "y")].CopyFrom(_tensor(draw))


def _tensor(draw: Draw) -> schema.TensorProto:
  """Draws a tensor whose shape, dtype and values do not fit together."""
  proto = tensor(np.ones((2, 2), np.float32))
  for dim in proto.tensor_shape.dim:
    dim.size = draw.size(2)
  proto.dtype = draw.lie(1, 0, 2, 7, 10, 18, 20, 21, 23, 25, 99, 101, (1 << 31) - 1)
  proto.tensor_content = draw.lie(proto.tensor_content, b"", b"\0", bytes(17))
  if draw.chance(0.3):
    values: Any = draw.pick(proto.float_val, proto.double_val, proto.int_val)
    values.extend([1] * draw.integer(0, 5))
  if draw.chance(0.2):
    proto.string_val.append(b"x" * draw.integer(0, 9))
  if draw.chance(0.1):
    proto.tensor_shape.unknown_rank = True
  return proto


def constants(draw: Draw, model: schema.SavedModel) -> None:
  for node in _body(draw, model).node_def:
    if node.op == "Const":
      node.attr["value"].tensor.CopyFrom(_tensor(draw))


def splat_constants(draw: Draw, model: schema.SavedModel) -> None:
  function = max(_functions(model), key=lambda f: len(f.node_def))
  for node in function.node_def:
    if node.op == "Const":  # one value for all elements
      proto = schema.TensorProto(dtype=1, float_val=[1.0])
      proto.tensor_shape.CopyFrom(attr(Shape([draw.size(2), draw.size(1, 1 << 30)])).shape)
      node.attr["value"].tensor.CopyFrom(proto)


def rank_of_constants(draw: Draw, model: schema.SavedModel) -> None:
  function = max(_functions(model), key=lambda f: len(f.node_def))
  for node in function.node_def:
    if node.op == "Const":
      shape = Shape([1] * draw.pick(4, 33, 65, 255, 3000))
      node.attr["value"].tensor.tensor_shape.CopyFrom(attr(shape).shape)


def node_inputs(draw: Draw, model: schema.SavedModel) -> None:
  function = _body(draw, model)
  names = [node.name for node in function.node_def]
  node = draw.pick(*function.node_def)
  for i, name in enumerate(node.input):
    node.input[i] = draw.name(name, *(f"{n}:z:0" for n in names), f"{name}:0", "w_read:value:7")
  node.input.extend(["x"] * draw.pick(0, 1, 3))


def node_names(draw: Draw, model: schema.SavedModel) -> None:
  function = _body(draw, model)
  for node in function.node_def:
    node.name = draw.name(node.name, "x", "add", "call")


@attempted("refused")
def nodes_of_one_name(draw: Draw, model: schema.SavedModel) -> None:
  function = max(_functions(model), key=lambda f: len(f.node_def))
  twin = _node_of(function, draw.pick("Mul", "AddV2", "Const"))
  copy = function.node_def.add()
  copy.CopyFrom(twin)
  copy.attr["value"].tensor.CopyFrom(tensor(np.float32(5))) if copy.op == "Const" else None


@attempted("refused")
def too_many_inputs(draw: Draw, model: schema.SavedModel) -> None:
  function = max(_functions(model), key=lambda f: len(f.node_def))
  node = _node_of(function, draw.pick("Mul", "AddV2"))
  node.input.extend([node.input[0]] * draw.integer(1, 3))


@attempted("refused")
def too_few_inputs(draw: Draw, model: schema.SavedModel) -> None:
  function = max(_functions(model), key=lambda f: len(f.node_def))
  node = _node_of(function, draw.pick("Mul", "AddV2", "ReadVariableOp", "PartitionedCall"))
  del node.input[draw.integer(0, max(0, len(node.input) - 1)) :]


@attempted("refused")
def cycle(draw: Draw, model: schema.SavedModel) -> None:
  function = max(_functions(model), key=lambda f: len(f.node_def))
  node = _node_of(function, "AddV2")
  if draw.chance(0.5):
    node.input.append(f"^{function.node_def[-1].name}")
    node = function.node_def[-1]
  node.input[0] = f"{node.name}:z:0"


def node_attributes(draw: Draw, model: schema.SavedModel) -> None:
  for node in _body(draw, model).node_def:
    for name in sorted(node.attr):
      if draw.chance(0.4):
        node.attr[name].CopyFrom(_attribute(draw))
    if draw.chance(0.1):
      node.attr[draw.name("T", "_output_shapes", "_XlaMustCompile")].CopyFrom(_attribute(draw))


def _attribute(draw: Draw) -> schema.AttrValue:
  value = draw.pick(1, 1.5, b"x", True, DType.FLOAT, Shape((2,)), [1, 2], [b"x"], [DType.INT32], [], Shape((-5,)))
  message = attr(value)
  if draw.chance(0.1):
    message.placeholder = draw.name("T")
  if draw.chance(0.1):
    message.func.name = draw.name("g", "f")
  return message


def missing_attributes(draw: Draw, model: schema.SavedModel) -> None:
  for node in _body(draw, model).node_def:
    for name in sorted(node.attr):
      if draw.chance(0.4):
        del node.attr[name]


def unknown_ops(draw: Draw, model: schema.SavedModel) -> None:
  function = _body(draw, model)
  ops = "PyFunc EagerPyFunc NoSuchOp SaveV2 RestoreV2 WriteFile Placeholder _Arg _Retval Abort".split()
  draw.pick(*function.node_def).op = draw.name("Relu", *ops)


def function_arguments(draw: Draw, model: schema.SavedModel) -> None:
  signature = _body(draw, model).signature
  for argument in [*signature.input_arg, *signature.output_arg]:
    argument.name = draw.name(argument.name)
    argument.type = int(draw.lie(DType(argument.type), *_DTYPES))
    argument.number_attr = draw.name("", "N")
    argument.type_list_attr = draw.name("", "T")
  if draw.chance(0.3):
    del signature.input_arg[draw.integer(0, len(signature.input_arg)) :]


def function_results(draw: Draw, model: schema.SavedModel) -> None:
  function = _body(draw, model)
  for name in sorted(function.ret):
    function.ret[name] = draw.name(function.ret[name], "x", "w", "w:0", "nothing:0", "add:z:1")
  if draw.chance(0.3):
    function.control_ret[draw.name("c")] = draw.name("out", "nothing")
  if draw.chance(0.2):
    function.ret.clear()


@attempted("refused")
def recursive_functions(draw: Draw, model: schema.SavedModel) -> None:
  functions = _functions(model)
  inner = next(f for f in functions if len(f.node_def) == 1)
  call = inner.node_def[0]
  call.op = draw.pick("PartitionedCall", "StatefulPartitionedCall")
  call.ClearField("attr")
  call.attr["f"].func.name = inner.signature.name
  for name in ("Tin", "Tout"):
    call.attr[name].CopyFrom(attr([DType.FLOAT]))
  for key in inner.ret:
    inner.ret[key] = f"{call.name}:output:0"


def functions_call_two_each(draw: Draw, model: schema.SavedModel) -> None:
  library = _meta(model).graph_def.library
  inner = next(f for f in library.function if len(f.node_def) == 1)
  last = inner.signature.name
  op = draw.pick("PartitionedCall", "StatefulPartitionedCall")
  for depth in range(draw.pick(3, 25, 40, 400)):
    outer = library.function.add()
    outer.CopyFrom(inner)
    outer.signature.name = f"level_{depth}"
    outer.ClearField("node_def")
    argument = outer.signature.input_arg[0].name
    for name, source in (("a", argument), ("b", "a:output:0")):
      add(outer.node_def, name, op, source, f=attr(b""), Tin=[DType.FLOAT], Tout=[DType.FLOAT])
      outer.node_def[-1].attr["f"].func.name = last
    for key in outer.ret:
      outer.ret[key] = "b:output:0"
    last = outer.signature.name
  main = max(_functions(model), key=lambda f: len(f.node_def))
  next(n for n in main.node_def if n.op.endswith("PartitionedCall")).attr["f"].func.name = last


@attempted("refused")
def functions_of_one_name(draw: Draw, model: schema.SavedModel) -> None:
  library = _meta(model).graph_def.library
  inner = next(f for f in library.function if len(f.node_def) == 1)
  copy = library.function.add()
  copy.CopyFrom(inner)
  copy.node_def[0].op = draw.pick("Neg", "Exp", "Tanh")


def gradient_functions(draw: Draw, model: schema.SavedModel) -> None:
  names = [f.signature.name for f in _functions(model)]
  for _ in range(draw.integer(1, 3)):
    _meta(model).graph_def.library.gradient.add(
      function_name=draw.name(names[0], *names), gradient_func=draw.name(names[-1], *names)
    )


def function_attributes(draw: Draw, model: schema.SavedModel) -> None:
  function = _body(draw, model)
  for name in ("_XlaMustCompile", "_input_shapes", "api_implements", "forward_function_name", draw.name("shared")):
    if draw.chance(0.5):
      function.attr[name].CopyFrom(_attribute(draw))
  function.arg_attr[draw.integer(0, 5)].attr["_output_shapes"].CopyFrom(_attribute(draw))
  function.resource_arg_unique_id[draw.integer(0, 9)] = draw.integer(0, 3)


def asset_records(draw: Draw, model: schema.SavedModel) -> None:
  for asset in _meta(model).asset_file_def:
    asset.filename = draw.name(asset.filename, "nothing.txt", "variables")
    asset.tensor_info.name = draw.name(asset.tensor_info.name)
  for node in _objects(model, "asset"):
    node.asset.asset_file_def_index = draw.size(0, **INT32)


def function_aliases(draw: Draw, model: schema.SavedModel) -> None:
  for _ in range(draw.integer(1, 3)):
    _meta(model).meta_info_def.function_aliases[draw.name("f")] = draw.name("alias")


def stripped_op_list(draw: Draw, model: schema.SavedModel) -> None:
  op = _meta(model).meta_info_def.stripped_op_list.op.add(name=draw.name("Relu", "AddV2", "NoSuchOp"))
  for _ in range(draw.integer(0, 3)):
    op.input_arg.add(
      name=draw.name("x"), type=draw.pick(1, 0, 99), number_attr=draw.name(""), type_attr=draw.name("", "T")
    )
  for _ in range(draw.integer(0, 2)):
    op.attr.add(name=draw.name("T"), type=draw.name("type", "list(type)", "int", "nothing"), minimum=draw.size(0))
  op.output_arg.add(name="y", type_attr=draw.name("T"))


def collections(draw: Draw, model: schema.SavedModel) -> None:
  name = draw.pick(
    *"variables trainable_variables saved_model_main_op legacy_init_op table_initializer saved_model_assets".split()
  )
  collection = _meta(model).collection_def[name]
  kind = draw.pick("node_list", "bytes_list", "int64_list", "any_list")
  if kind == "any_list":
    collection.any_list.value.add(type_url="type.googleapis.com/graftax.schema.SavedModel", value=b"\xff")
  else:
    values = {"node_list": draw.name("x"), "bytes_list": draw.data(9), "int64_list": draw.size(0)}
    getattr(collection, kind).value.append(values[kind])


def placeholder_graph(draw: Draw, model: schema.SavedModel) -> None:
  graph = _meta(model).graph_def
  for node in graph.node:
    node.op = draw.lie(node.op, "NoOp", "Const", "Merge")
  const(graph.node, draw.name("extra"), np.float32(1))


def message_depth(draw: Draw, box: Box) -> Attempt:
  write_object_model(box.model)
  data = b""
  for _ in range(draw.pick(50, 99, 5000)):  # messages in messages, with true lengths
    data = draw.pick(b"\x12", b"\x3a") + varint(len(data)) + data if len(data) < 100_000 else data
  (box.model / "saved_model.pb").write_bytes(b"\x08\x01" + data)
  return Attempt(lambda: use_model(box.model))


def fingerprint(draw: Draw, box: Box) -> Attempt:
  write_object_model(box.model)
  message = schema.FingerprintDef(uuid=draw.name("a"), saved_model_checksum=draw.integer(0, 1 << 60))
  data = message.SerializeToString()
  (box.model / "fingerprint.pb").write_bytes(draw.lie(data, data[:-1], b"\xff" * 9, b"", draw.data(40)))
  return Attempt(lambda: use_model(box.model))


def checkpoint_objects(draw: Draw, box: Box) -> Attempt:
  """The object graph in the checkpoint, which says where the values of variables are."""
  write_object_model(box.model)
  graph = schema.TrackableObjectGraph()
  for i in range(draw.integer(1, 6)):
    node = graph.nodes.add()
    node.children.add(node_id=draw.size(i, 0, **INT32), local_name=draw.name("w", "v", "0"))
    node.attributes.add(
      name=draw.name("VARIABLE_VALUE"),
      full_name=draw.name("w"),
      checkpoint_key=draw.name("w", "w/.ATTRIBUTES/VARIABLE_VALUE"),
    )
    node.slot_variables.add(original_variable_node_id=draw.size(0, **INT32), slot_name=draw.name("m"))
    node.has_checkpoint_values.value = draw.chance(0.5)
  bundle = new_bundle({"w": np.ones((), np.float32), "v": np.ones((), np.float32)})
  bundle.add_string("_CHECKPOINTABLE_OBJECT_GRAPH", graph.SerializeToString()[: draw.size(10_000, 5, low=0)])
  write_bundle(box.model / "variables" / "variables", bundle)
  return Attempt(lambda: use_model(box.model))


def missing_files(draw: Draw, box: Box) -> Attempt:
  write_object_model(box.model)
  name = draw.pick(
    "variables/variables.index",
    "variables/variables.data-00000-of-00001",
    "assets/words.txt",
    "variables",
    "saved_model.pb",
  )
  path = box.model / name
  shutil.rmtree(path) if path.is_dir() else path.unlink()
  if draw.chance(0.3):
    path.mkdir()
  elif draw.chance(0.3):
    path.write_bytes(draw.data(30))
  return Attempt(lambda: use_model(box.model))
