"""Frozen graphs: GraphDefs in a file by themselves, as bytes and as text."""

from collections.abc import Callable
from typing import Any

import numpy as np
from google.protobuf import text_format

from graftax.graphdef_ir import DType, schema
from graftax.testing.hostile.draw import INT32, Draw
from graftax.testing.hostile.grammar.models import object_model
from graftax.testing.hostile.grammar.protos import Func, Shape, add, attr, call, const, function, graph, loop
from graftax.testing.hostile.grammar.readers import use_model
from graftax.testing.hostile.registry import Attempt, Box, Expectation, attempted

_F = DType.FLOAT
Build = Callable[[Draw, schema.GraphDef], None]


def attempt_of(build: Build, draw: Draw, box: Box, expectation: Expectation = "typed") -> Attempt:
  """Changes or extends the graph `out = relu(x @ w + b)`."""
  made = _honest_graph()
  build(draw, made)
  path = box.model / "graph.pb"
  path.write_bytes(made.SerializeToString())
  jit = draw.chance(0.3)
  return Attempt(lambda: use_model(path, jit=jit), expectation, graph=path)


def _honest_graph() -> schema.GraphDef:
  """Returns the graph `out = relu(x @ w + b)`."""
  made = graph()
  add(made.node, "x", "Placeholder", dtype=_F, shape=Shape((2, 2)))
  const(made.node, "w", np.ones((2, 2), np.float32))
  const(made.node, "b", np.ones(2, np.float32))
  add(made.node, "mm", "MatMul", "x", "w", T=_F, transpose_a=False, transpose_b=False)
  add(made.node, "sum", "BiasAdd", "mm", "b", T=_F)
  add(made.node, "out", "Relu", "sum", T=_F)
  return made


def _last(made: schema.GraphDef) -> schema.NodeDef:
  return made.node[len(made.node) - 1]


@attempted("loaded")
def honest(draw: Draw, made: schema.GraphDef) -> None:
  del draw, made


@attempted("refused")
def nodes_of_one_name(draw: Draw, made: schema.GraphDef) -> None:
  copy = made.node.add()
  copy.CopyFrom(draw.pick(made.node[1], made.node[3], made.node[5]))
  if copy.op == "Const":
    copy.attr["value"].tensor.CopyFrom(attr(np.zeros((2, 2), np.float32)).tensor)


@attempted("refused")
def too_many_inputs(draw: Draw, made: schema.GraphDef) -> None:
  draw.pick(made.node[5], made.node[3], made.node[4]).input.extend(["x"] * draw.integer(1, 3))


@attempted("refused")
def too_few_inputs(draw: Draw, made: schema.GraphDef) -> None:
  node = draw.pick(made.node[5], made.node[3], made.node[4])
  del node.input[draw.integer(0, len(node.input) - 1) :]


@attempted("refused")
def cycle(draw: Draw, made: schema.GraphDef) -> None:
  node = draw.pick(made.node[3], made.node[4], made.node[5])
  node.input[0] = draw.pick("out", node.name)


@attempted("refused")
def cycle_through_merge(draw: Draw, made: schema.GraphDef) -> None:
  add(made.node, "merge", "Merge", draw.pick("x", "out"), "back", T=_F, N=2)
  add(made.node, "back", draw.pick("Relu", "Neg", "Identity", "Enter"), "merge", T=_F)
  made.node[4].input[0] = "merge"


@attempted("refused")
def unknown_inputs(draw: Draw, made: schema.GraphDef) -> None:
  node = draw.pick(made.node[5], made.node[3], made.node[4])
  node.input[draw.integer(0, len(node.input) - 1)] = draw.pick(
    "nothing", "x:1", "x:-1", "^nothing", "x:y", ":", "sum:0:0"
  )


@attempted("refused")
def types_of_inputs(draw: Draw, made: schema.GraphDef) -> None:
  draw.pick(made.node[5], made.node[3], made.node[4]).attr["T"].type = draw.pick(2, 3, 9, 10, 14, 20)


def attributes(draw: Draw, made: schema.GraphDef) -> None:
  for node in made.node:
    for name in sorted(node.attr):
      if draw.chance(0.3):
        value = draw.pick(
          _F, True, 1, 1.5, b"x", Shape((2,)), [1], [_F], [b"a"], np.ones(2, np.float32), Func("f"), DType.INT32
        )
        node.attr[name].CopyFrom(attr(value))


def missing_attributes(draw: Draw, made: schema.GraphDef) -> None:
  for node in made.node:
    for name in sorted(node.attr):
      if draw.chance(0.25):
        del node.attr[name]


def placeholders(draw: Draw, made: schema.GraphDef) -> None:
  node = made.node[0]
  node.op = draw.pick(
    "Placeholder", "PlaceholderV2", "PlaceholderWithDefault", "_Arg", "VariableV2", "VarHandleOp", "Iterator"
  )
  node.attr["dtype"].type = draw.lie(1, 0, 7, 20, 21, 23, 30, 99, 101)
  sizes = [draw.size(2) for _ in range(draw.pick(2, 0, 1, 3, 300))]
  node.attr["shape"].CopyFrom(attr(Shape(sizes)))


def constants(draw: Draw, made: schema.GraphDef) -> None:
  proto = made.node[1].attr["value"].tensor
  proto.dtype = draw.lie(1, 0, 2, 3, 7, 10, 14, 20, 21, 23, 99)
  for dim in proto.tensor_shape.dim:
    dim.size = draw.size(2)
  if draw.chance(0.5):
    proto.ClearField("tensor_content")
    proto.float_val.extend([1.0] * draw.integer(0, 5))
  made.node[1].attr["dtype"].type = draw.lie(1, 0, 3, 7, 99)


def names(draw: Draw, made: schema.GraphDef) -> None:
  for node in made.node:
    node.name = draw.name(node.name, "x", "out", "x:0")


def versions(draw: Draw, made: schema.GraphDef) -> None:
  made.versions.producer = draw.size(2200, 5, 21, **INT32)
  made.versions.min_consumer = draw.size(0, **INT32)


@attempted("refused")
def function_calls_itself(draw: Draw, made: schema.GraphDef) -> None:
  for name, callee in (("f", "g"), ("g", draw.pick("f", "g"))):
    body = function(made.library, name, {"a": _F}, {"r": ("c:output:0", _F)})
    call(body.node_def, "c", callee, "a")
  call(made.node, "called", "f", "out", op=draw.pick("PartitionedCall", "StatefulPartitionedCall"))


@attempted("refused")
def branches_call_themselves(draw: Draw, made: schema.GraphDef) -> None:
  body = function(made.library, "f", {"a": _F}, {"r": ("c:output:0", _F)})
  const(body.node_def, "p", np.bool_(True))
  attrs = {"Tcond": DType.BOOL, "Tin": [_F], "Tout": [_F], "then_branch": Func("f"), "else_branch": Func("f")}
  add(body.node_def, "c", draw.pick("If", "StatelessIf"), "p:output:0", "a", **attrs)
  call(made.node, "called", "f", "out")


def calls_of_other_types(draw: Draw, made: schema.GraphDef) -> None:
  body = function(
    made.library, "f", {"a": draw.pick(_F, DType.INT32, DType.STRING)}, {"r": ("a", draw.pick(_F, DType.INT32))}
  )
  if draw.chance(0.4):
    body.signature.input_arg.add(name="b", type=1)
  if draw.chance(0.3):
    body.ret["r"] = draw.name("a")
  types = [[_F], [], [_F, _F], [DType.INT32]]
  name = draw.pick("f", "g")
  add(made.node, "called", "PartitionedCall", "out", f=Func(name), Tin=draw.pick(*types), Tout=draw.pick(*types))


def branches_of_other_types(draw: Draw, made: schema.GraphDef) -> None:
  function(made.library, "t", {"a": _F}, {"r": ("a", _F)})
  body = function(made.library, "e", {"a": draw.pick(_F, DType.INT32)}, {"r": ("s:y:0", draw.pick(_F, DType.INT32))})
  const(body.node_def, "d", np.zeros(draw.pick((2, 2), (3,), ()), np.float32))
  add(body.node_def, "s", draw.pick("Identity", "Shape", "Sum"), "d:output:0", T=_F)
  const(made.node, "p", draw.pick(np.bool_(True), np.int32(7), np.float32(0), np.ones(3, bool)))
  cond = draw.pick(DType.BOOL, DType.INT32)
  add(made.node, "c", "If", "p", "out", Tcond=cond, Tin=[_F], Tout=[_F], then_branch=Func("t"), else_branch=Func("e"))


def loops_of_other_types(draw: Draw, made: schema.GraphDef) -> None:
  condition = function(made.library, "cond", {"a": _F}, {"r": ("l:z:0", draw.pick(DType.BOOL, _F))})
  const(condition.node_def, "limit", np.float32(3))
  add(condition.node_def, "m", "Max", "a", "axes:output:0", T=_F, Tidx=DType.INT32, keep_dims=False)
  # With fewer axes the condition is not a scalar, and so true for ever.
  const(condition.node_def, "axes", np.arange(draw.pick(2, 5), dtype=np.int32))
  add(condition.node_def, "l", "Less", "m:output:0", "limit:output:0", T=_F)
  body = function(made.library, "body", {"a": _F}, {"r": ("s:y:0", _F)})
  const(body.node_def, "one", np.ones(draw.pick((), (2, 2), (3, 1, 1)), np.float32))
  add(body.node_def, "s", draw.pick("AddV2", "MatMul"), "a", "one:output:0", T=_F)
  body.ret["r"] = draw.pick("s:z:0", "s:product:0")  # a loop without end is not the reader's
  op = draw.pick("While", "StatelessWhile")
  loop(made.node, "loop", op, "out", T=[_F], maximum_iterations=draw.size(0, 10))


def case_branches(draw: Draw, made: schema.GraphDef) -> None:
  function(made.library, "t", {"a": _F}, {"r": ("a", _F)})
  const(made.node, "i", draw.pick(np.int32(0), np.int32(-1), np.int32(1 << 30), np.int64(0), np.float32(0)))
  branches = [Func(draw.pick("t", "nothing")) for _ in range(draw.pick(1, 0, 2, 500))]
  add(made.node, "c", "Case", "i", "out", branches=branches, Tin=[_F], Tout=[_F], output_shapes=[])


def gradients_of_functions(draw: Draw, made: schema.GraphDef) -> None:
  function(made.library, "t", {"a": _F}, {"r": ("a", _F)})
  for _ in range(draw.integer(1, 3)):
    made.library.gradient.add(function_name=draw.name("t"), gradient_func=draw.name("t", "nothing"))
  _last(made).attr["_gradient_op_type"].CopyFrom(attr(draw.pick(b"CustomGradient-1", b"PartitionedCall-5", b"\xff", 5)))


def variant_tensors(draw: Draw, made: schema.GraphDef) -> None:
  proto = schema.TensorProto(dtype=draw.pick(21, 20))
  for _ in range(draw.integer(1, 3)):
    proto.variant_val.add(type_name=draw.name("tensorflow::TensorList"), metadata=draw.data(8))
  const(made.node, "v", proto)
  add(made.node, "n", draw.pick("TensorListLength", "Identity", "Shape", "ZerosLike", "AddN"), "v")


def names_with_functions_inside(draw: Draw, made: schema.GraphDef) -> None:
  nested = schema.AttrValue()
  inner = nested
  for _ in range(draw.pick(1, 20, 45)):
    inner.func.name = "f"
    inner = inner.func.attr["f"]
  add(made.node, "called", "PartitionedCall", "out", Tin=[_F], Tout=[_F]).attr["f"].CopyFrom(nested)


def long_chain(draw: Draw, made: schema.GraphDef) -> None:
  last = "out"
  for i in range(draw.pick(10, 3000, 15_000)):
    add(made.node, f"n{i}", draw.pick("Identity"), last, T=_F)
    last = f"n{i}"
  add(made.node, "end", draw.pick("Relu", "Neg"), last, T=_F)


def many_control_inputs(draw: Draw, made: schema.GraphDef) -> None:
  for i in range(draw.pick(5, 300)):
    node = add(made.node, f"n{i}", "NoOp", *(f"^n{j}" for j in range(i)))
    node.input.extend(["^out"] * draw.pick(0, 3))
  _last(made).input.append(draw.name("^x", "^nothing", "^"))


def host_ops_between(draw: Draw, made: schema.GraphDef) -> None:
  attrs = {"precision": draw.size(-1, 5, **INT32), "width": draw.size(-1, 5, low=-(1 << 31), high=1000)}
  add(made.node, "text", "AsString", "out", T=_F, **attrs, fill=draw.name(""))
  add(made.node, "number", "StringToNumber", "text", out_type=draw.pick(_F, DType.INT64, DType.STRING))


def devices(draw: Draw, made: schema.GraphDef) -> None:
  for node in made.node:
    node.device = draw.name("", "/device:GPU:0", "/job:worker/task:99999999999999999999")
    node.attr["_class"].CopyFrom(attr([draw.name("loc:@x").encode(errors="replace")]))


def debug_info(draw: Draw, made: schema.GraphDef) -> None:
  for node in made.node:
    node.attr["_output_shapes"].CopyFrom(attr([Shape([draw.size(2)])] * draw.integer(1, 3)))
    node.attr["_XlaCompile"].CopyFrom(attr(draw.pick(True, 1, b"x")))


_OPS = (
  *("WriteFile", "PyFunc", "EagerPyFunc", "SaveV2", "RestoreV2", "MatchingFiles", "Abort", "Send", "_HostRecv"),
  *("LoadAndRemapMatrix", "TextLineReaderV2", "TFRecordDataset", "XlaLaunch", "XlaCustomCallV2", "RemoteCall"),
  *("SymbolicGradient", "DebugIdentity"),
)


@attempted("refused")
def ops_with_effects(draw: Draw, made: schema.GraphDef) -> None:
  const(made.node, "file", np.array("hostile_written", object))
  op = draw.pick(*_OPS)
  attrs = {"f": Func("f"), "token": b"t", "Tin": [_F], "Tout": [_F], "dtypes": [_F], "T": _F, "dtype": _F}
  inputs = {
    "WriteFile": ["file", "file"],
    "MatchingFiles": ["file"],
    "SaveV2": ["file"] * 3 + ["out"],
    "RestoreV2": ["file"] * 3,
  }
  node = add(made.node, "effect", op, *inputs.get(op, ["out"]), **attrs)
  made.node[5].input.append(f"^{node.name}")
  add(made.node, "end", "Identity", "effect" if op not in ("WriteFile", "SaveV2", "Abort", "Send") else "out", T=_F)
  if draw.chance(0.5):
    add(made.node, "end2", "Neg", "effect", T=_F)


def _text_form(made: Any) -> str:
  return text_format.MessageToString(made)


def _text(draw: Draw, box: Box, text: str | bytes, expectation: Expectation = "typed") -> Attempt:
  path = box.model / "graph.pbtxt"
  path.write_bytes(text.encode(errors="surrogatepass") if isinstance(text, str) else text)
  jit = draw.chance(0.2)
  return Attempt(lambda: use_model(path, jit=jit), expectation)


def text_of_honest_graph(draw: Draw, box: Box) -> Attempt:
  return _text(draw, box, _text_form(_honest_graph()), "loaded")


def text_fields(draw: Draw, box: Box) -> Attempt:
  text = _text_form(_honest_graph())
  for old in ("float", "DT_FLOAT", "name", "{", "}", '"x"', "size: 2", "op:"):
    if draw.chance(0.3):
      text = text.replace(old, draw.name(old, "{", "}", '"', "\\", "#", "size: -1", "nan"), draw.integer(1, 3))
  return _text(draw, box, text)


def text_depth(draw: Draw, box: Box) -> Attempt:
  depth = draw.pick(10, 99, 1000, 100_000)
  inner = "func { attr { key: 'a' value { " * depth + "} } } " * (depth if draw.chance(0.7) else 0)
  return _text(draw, box, "node { name: 'x' op: 'NoOp' attr { key: 'f' value { " + inner + "} } }")


def text_numbers(draw: Draw, box: Box) -> Attempt:
  number = draw.pick("1", "1e999", "-1", "0x7fffffffffffffffffff", "9" * 5000, "nan", "1.5", "07", "true")
  size = draw.pick("2", "-1", "9" * 30, "1.0", "''")
  return _text(
    draw,
    box,
    f"node {{ name: 'c' op: 'Const' attr {{ key: 'dtype' value {{ type: DT_FLOAT }} }} attr {{ key: 'value' value {{ "
    f"tensor {{ dtype: DT_FLOAT tensor_shape {{ dim {{ size: {size} }} }} float_val: {number} }} }} }} }}",
  )


def text_of_other_encodings(draw: Draw, box: Box) -> Attempt:
  text = _text_form(_honest_graph())
  encodings = ["utf-8-sig", "utf-16", "utf-32", "utf-8"]
  data = text.encode(draw.pick(*encodings))
  return _text(draw, box, data + draw.lie(b"", b"\0", b"\xff", b"\x1a", draw.data(20)))


def text_that_repeats(draw: Draw, box: Box) -> Attempt:
  return _text(draw, box, _text_form(_honest_graph()) * draw.pick(2, 100), "refused")


def meta_file_alone(draw: Draw, box: Box) -> Attempt:
  meta = object_model().meta_graphs[0]
  meta.saver_def.filename_tensor_name = draw.name("save/Const:0")
  meta.saver_def.restore_op_name = draw.name("save/restore_all")
  meta.saver_def.version = draw.pick(2, 0, 1)
  path = box.model / "model.meta"
  path.write_bytes(meta.SerializeToString())
  if draw.chance(0.5):
    (box.model / "checkpoint").write_text(f'model_checkpoint_path: "{draw.name("model")}"\n', errors="surrogatepass")
  target = draw.pick(path, box.model)
  return Attempt(lambda: use_model(target))
