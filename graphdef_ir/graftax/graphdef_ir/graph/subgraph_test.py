"""Parts of graphs as functions."""

import pytest

from graftax.graphdef_ir.attributes import AttrValue
from graftax.graphdef_ir.dtypes import DType
from graftax.graphdef_ir.errors import GraphError, NoSuchNodeError, OutputIndexError, ParseError, UnknownOpError
from graftax.graphdef_ir.graph import Function, Graph, Node, TensorRef
from graftax.graphdef_ir.shapes import PartialShape
from graftax.graphdef_ir.tensors import Tensor
from graftax.graphdef_ir.validation import validate_function


def _node(name: str, op: str, *inputs: str, after: tuple[str, ...] = (), **attrs: AttrValue) -> Node:
  return Node(name, op, tuple(TensorRef.parse(text) for text in inputs), after, attrs)


_F = DType.FLOAT
_GRAPH = Graph(
  (
    _node("x", "Placeholder", dtype=_F, shape=PartialShape((None, 4))),
    _node("axis", "Placeholder", dtype=DType.INT32, shape=PartialShape(())),
    _node("split", "Split", "axis", "x", num_split=2, T=_F, _output_shapes=(PartialShape((None, 2)),) * 2),
    _node("neg", "Neg", "split", T=_F),
    _node("sum", "AddV2", "neg", "split:1", after=("x", "logged"), T=_F),
    _node("logged", "PrintV2", "tag"),
    _node("tag", "Const", dtype=DType.STRING, value=Tensor.from_numpy("tag")),
    _node("unrelated", "Neg", "x", T=_F),
    _node("odd", "OpOfTheFuture", "x"),
  ),
  producer=1000,
)


def _names(function: Function) -> list[str]:
  return [node.name for node in function.nodes]


def test_only_what_is_needed_is_kept():
  function = _GRAPH.subgraph(["x", "axis:0"], ["neg:0", TensorRef("split", 1)], name="half")
  assert function.name == "half" and _names(function) == ["split", "neg"]
  assert [(p.name, p.dtype, p.shape) for p in function.parameters] == [
    ("x", _F, PartialShape((None, 4))),
    ("axis", DType.INT32, PartialShape(())),
  ]
  assert [(r.name, r.ref) for r in function.results] == [("neg", TensorRef("neg")), ("split_1", TensorRef("split", 1))]
  assert not function.is_stateful
  validate_function(function)


def test_control_inputs_are_needed_except_fed_placeholders():
  function = _GRAPH.subgraph(["x", "axis"], ["sum"])
  assert _names(function) == ["split", "neg", "sum", "logged", "tag"]
  assert function.node("sum").control_inputs == ("logged",)
  assert function.is_stateful


def test_any_tensor_can_be_fed():
  function = _GRAPH.subgraph(["neg"], ["neg"])
  assert _names(function) == [] and [p.name for p in function.parameters] == ["neg"]
  function = _GRAPH.subgraph(["split", "split:1", "x"], ["sum"])
  assert _names(function) == ["neg", "sum", "logged", "tag"]
  validate_function(function)


def test_feeding_one_of_two_outputs_keeps_the_node_for_the_other():
  function = _GRAPH.subgraph(["x", "axis", "split:0"], ["neg", "split:1"])
  assert [p.name for p in function.parameters] == ["x", "axis", "split_0"]
  assert function.parameters[2].shape == PartialShape((None, 2))
  assert function.node("neg").inputs == (TensorRef("split_0"),)
  assert "split" in _names(function)
  validate_function(function)


def test_feeding_all_outputs_frees_the_name_once():
  graph = Graph(tuple(node for node in _GRAPH.nodes if node.name in ("x", "axis", "split")))
  function = graph.subgraph(["split:1", "split:0"], ["split:0", "split:1"])
  assert [p.name for p in function.parameters] == ["split", "split_0"]
  assert [r.ref for r in function.results] == [TensorRef("split_0"), TensorRef("split")]
  assert function.nodes == ()


def test_inputs_can_be_outputs_and_outputs_can_repeat():
  function = _GRAPH.subgraph(["x"], ["x", "x"])
  assert [(r.name, r.ref) for r in function.results] == [("x", TensorRef("x")), ("x_1", TensorRef("x"))]


def test_targets_are_run():
  function = _GRAPH.subgraph([], [], targets=["logged", "logged"])
  assert _names(function) == ["logged", "tag"]
  assert function.control_results == ("logged",)
  validate_function(function)


def test_nodes_that_need_no_change_are_shared():
  assert _GRAPH.subgraph(["x", "axis"], ["neg"]).node("neg") is _GRAPH.node("neg")


@pytest.mark.parametrize(
  ("inputs", "outputs", "targets", "error", "message"),
  [
    (["x", "x:0"], ["x"], [], GraphError, "input 'x' is given twice"),
    (["x"], ["neg"], [], GraphError, r"outputs \['neg'\] need placeholders \['axis'\]"),
    (["nowhere"], ["x"], [], NoSuchNodeError, "no node 'nowhere'"),
    ([], ["nowhere:1"], [], NoSuchNodeError, "no node 'nowhere'"),
    ([], [], ["nowhere"], NoSuchNodeError, "no node 'nowhere'"),
    (["x:1"], ["x"], [], OutputIndexError, r"'x:1': node 'x' \(Placeholder\) has 1 outputs"),
    (["x"], ["odd"], [], UnknownOpError, "element type of 'odd': op 'OpOfTheFuture' has no known signature"),
    (["^x"], ["x"], [], ParseError, "'\\^x' is malformed"),
  ],
)
def test_what_cannot_be_extracted(
  inputs: list[str], outputs: list[str], targets: list[str], error: type[GraphError], message: str
):
  with pytest.raises(error, match=message):
    _GRAPH.subgraph(inputs, outputs, targets=targets)


def test_a_dangling_control_input_is_found():
  graph = Graph((_node("y", "NoOp", after=("nowhere",)),))
  with pytest.raises(NoSuchNodeError, match="subgraph: graph has no node 'nowhere'"):
    graph.subgraph([], [], targets=["y"])
