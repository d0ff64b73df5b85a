"""Parts of programs, on programs written by hand. No TensorFlow."""

import numpy as np
import pytest

from graftax.convert import ConversionError, convert, convert_program, convert_subgraph
from graftax.convert.subgraph import cut
from graftax.graphdef_ir import DType, FunctionRef, schema
from graftax.ops_jax import register
from graftax.testing.graph_builders import const, function, node, program

F = {"T": DType.FLOAT}
READ = {"dtype": DType.FLOAT}


def _program():
  """z = (x + y) * v, of which x + y is computed in a function, and v is counted up."""
  add = function(
    "add", ["a", "b"], [node("sum", "Add", "a", "b", **F), node("twice", "Add", "sum", "sum", **F)], ["sum", "twice"]
  )
  nodes = [
    node("call", "PartitionedCall", "x", "y", f=FunctionRef("add"), Tin=(DType.FLOAT,) * 2, Tout=(DType.FLOAT,) * 2),
    node("read", "ReadVariableOp", "v", **READ),
    node("z", "Mul", "call", "read", **F),
    const("one", np.float32(1)),
    node("count", "AssignAddVariableOp", "v", "one", control=("read",), **READ),
  ]
  return program(function("f", ["x", "y", "*v"], nodes, ["z", "call:1"], ["count"]), [add], {"v": 3.0})


def _run(inputs, outputs, *args, **kwargs):
  fn, params = convert_subgraph(_program(), inputs, outputs)
  results, new_params = fn(params, *args, **kwargs)
  return results, {name: float(value) for name, value in new_params.items()}


def test_the_whole_is_its_own_part():
  assert _run(["x", "y"], None, 1.0, 2.0) == ((9.0, 6.0), {"v": 4.0})


def test_a_tensor_of_a_called_function_becomes_an_input():
  assert _run(["call/sum"], None, 5.0) == ((15.0, 10.0), {"v": 4.0})
  assert _run(["call/sum"], "call/twice", 5.0) == (10.0, {"v": 4.0})


def test_outputs_of_calls_become_inputs_without_looking_inside():
  assert _run(["call", "call:1"], ["z", "call:1"], 2.0, 7.0) == ((6.0, 7.0), {"v": 4.0})
  assert "call/sum" not in [n.name for n in cut(_program(), ["call", "call:1"]).function.nodes]


def test_inputs_and_outputs_take_the_structure_of_their_names():
  fn, params = convert_subgraph(_program(), {"right": "y", "left": "x"}, {"product": "z"})
  assert str(fn.signature) == "(*, left, right)"
  assert fn(params, right=2.0, left=1.0)[0] == {"product": 9.0}
  fn, params = convert_subgraph(_program(), "call/sum", "z")
  assert str(fn.signature) == "(call_sum)" and fn(params, 2.0)[0] == 6.0


def test_a_capture_can_be_an_input_and_an_input_an_output():
  assert _run(["x", "y", "one"], ["x", "one"], 1.0, 2.0, 4.0)[0] == (1.0, 4.0)
  fn, params = convert_subgraph(_program(), ["x", "read"], "x")
  assert fn(params, 1.0, 5.0)[0] == 1.0


def test_effects_of_what_is_left_out_do_not_happen():
  nodes = [
    node("r", "ReadVariableOp", "v", **READ),
    node("w", "AssignAddVariableOp", "v", "x", **READ),
    node("y", "Mul", "r", "x", **F),
    node("z", "Neg", "y", control=("w",), **F),
  ]
  root = program(function("f", ["x", "*v"], nodes, ["z"], ["w"]), variables={"v": 3.0})
  with pytest.raises(ConversionError, match=r"also needs \['x'\]"):
    cut(root, ["y"])  # the assignment, which has nothing to do with y, needs x
  fn, params = convert_subgraph(root, ["y", "x"])
  results, new_params = fn(params, 10.0, 1.0)
  assert results == (-10.0,) and float(new_params["v"]) == 4.0


@pytest.mark.parametrize(
  ("inputs", "outputs", "message"),
  [
    (["call/sun"], None, r"has no tensors \['call/sun'\]; similar names are .*'call/sum'"),
    (["call:7"], None, "'call:7'"),
    (["z:1"], None, r"node 'z' \(Mul\) has 1 outputs"),
    (["x"], None, r"also needs \['y'\]; add these to the inputs"),
    (["x", "x"], None, "given twice"),
    (["x:y:z"], None, "malformed"),
    (["x", "y"], ["nothing"], r"has no tensors \['nothing'\]"),
  ],
)
def test_wrong_names_raise(inputs, outputs, message):
  with pytest.raises((ConversionError, ValueError), match=message):
    cut(_program(), inputs, outputs)


def test_parts_that_cannot_run_are_left_out():
  nodes = [node("h", "NoSuchOp", "x"), node("y", "Neg", "h", **F), node("z", "Exp", "y", **F)]
  root = program(function("f", ["x"], nodes, ["z"]))
  with pytest.raises(NotImplementedError, match="NoSuchOp"):
    convert_program(root)
  fn, params = convert_subgraph(root, ["y"])
  assert fn(params, 0.0)[0] == (1.0,)


@pytest.mark.parametrize(("producer", "is_scalar"), [(21, False), (1882, True)])
def test_placeholders_of_old_graphs_take_any_shape(producer, is_scalar):
  graph = schema.GraphDef(versions=schema.VersionDef(producer=producer))
  x = graph.node.add(name="x", op="Placeholder")
  x.attr["dtype"].type = DType.FLOAT.value
  x.attr["shape"].shape.SetInParent()
  graph.node.add(name="y", op="Neg", input=["x"]).attr["T"].type = DType.FLOAT.value
  fn, params = convert(graph.SerializeToString(), inputs=["x"], outputs="y")
  assert fn(params, np.float32(3))[0] == -3
  vector = np.float32([1, 2])
  if is_scalar:
    with pytest.raises(ValueError, match=r"got shape \[2\]; expected \[\]"):
      fn(params, vector)
  else:
    np.testing.assert_array_equal(fn(params, vector)[0], -vector)


def test_a_fed_tensor_takes_the_name_of_its_node():
  assert [p.name for p in cut(_program(), ["call/sum"]).function.parameters] == ["call/sum", "v"]


def test_without_inputs_the_whole_functions_inputs_stay():
  nodes = [node("double", "AddV2", "x", "x", T=DType.FLOAT), node("y", "Mul", "double", "x", T=DType.FLOAT)]
  fn, _ = convert_subgraph(program(function("f", ["x"], nodes, ["y"])), None, ["double"])
  assert list(fn.signature.parameters) == ["x"]
  np.testing.assert_array_equal(fn({}, np.float32(3))[0][0], 6)


@pytest.fixture
def custom_graph():
  """A frozen graph with an op that is registered here and of which it has no declaration."""

  @register("AcmeScale", ignores=("T",), override=True)
  def acme_scale(x, y, *, factor: float):
    """Returns the scaled sum, and the difference."""
    return (x + y) * factor, x - y

  graph = schema.GraphDef()
  graph.node.add(name="x", op="Placeholder").attr["dtype"].type = DType.FLOAT
  custom = graph.node.add(name="custom", op="AcmeScale", input=["x", "x"])
  custom.attr["factor"].f, custom.attr["T"].type = 3, DType.FLOAT
  graph.node.add(name="y", op="AddV2", input=["custom:1", "custom"]).attr["T"].type = DType.FLOAT
  return graph.SerializeToString()


def test_a_registered_op_of_a_frozen_graph_needs_no_declaration(custom_graph):
  x = np.float32([1, 2])
  fn, params = convert(custom_graph, inputs="x", outputs=["y", "custom", "custom:1"])
  for got, want in zip(fn(params, x)[0], [6 * x, 6 * x, 0 * x], strict=True):
    np.testing.assert_array_equal(got, want)
  fn, params = convert(custom_graph, inputs=["custom", "custom:1"], outputs="y")
  np.testing.assert_array_equal(fn(params, x, x)[0], 2 * x)


def test_extra_ops_declare_what_the_graph_does_not(custom_graph):
  graph = schema.GraphDef.FromString(custom_graph)
  del graph.node[2]
  with pytest.raises(ConversionError, match=r"input 'custom' is unknown.*'AcmeScale'.*extra_ops"):
    convert(graph.SerializeToString(), inputs="custom", outputs="custom")
  declared = schema.OpList()
  op = declared.op.add(name="AcmeScale")
  for name in ("x", "y"):
    op.input_arg.add(name=name, type=DType.FLOAT)
  for name in ("sum", "difference"):
    op.output_arg.add(name=name, type=DType.FLOAT)
  for extra_ops in (declared, declared.SerializeToString()):
    fn, params = convert(graph.SerializeToString(), inputs="custom", outputs="custom", extra_ops=extra_ops)
    np.testing.assert_array_equal(fn(params, np.float32([5]))[0], [5])
  with pytest.raises(ConversionError, match="extra_ops is a list; expected an OpList"):
    convert(graph.SerializeToString(), inputs="custom", outputs="custom", extra_ops=[])
