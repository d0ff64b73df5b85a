"""The graph dataclasses."""

import dataclasses
import pickle

import pytest

from graftax.graphdef_ir.dtypes import DType
from graftax.graphdef_ir.errors import NoSuchNodeError, ParseError
from graftax.graphdef_ir.graph import Function, Graph, Node, Parameter, Result, TensorRef


def _function() -> Function:
  node = Node("y", "Neg", (TensorRef("x"),), attrs={"T": DType.FLOAT})
  return Function("f", (Parameter("x", DType.FLOAT),), (Result("y", TensorRef("y"), DType.FLOAT),), (node,))


@pytest.mark.parametrize(
  ("text", "ref"), [("x", TensorRef("x")), ("a/b:0", TensorRef("a/b")), ("x:12", TensorRef("x", 12))]
)
def test_refs_are_written_as_in_a_graph_def(text: str, ref: TensorRef):
  assert TensorRef.parse(text) == ref
  assert TensorRef.parse(str(ref)) == ref


@pytest.mark.parametrize("text", ["", "^x", ":0", "x:", "x:-1", "x:y", "x:1234567890", "x:٣", "x:" + "9" * 5000])
def test_malformed_refs_raise(text: str):
  with pytest.raises(ParseError, match="is malformed; expected 'node' or 'node:1'"):
    TensorRef.parse(text)


def test_nodes_are_found_by_name():
  function = _function()
  assert function.node("y") is function.nodes[0]
  with pytest.raises(NoSuchNodeError, match=r"function 'f' has no node 'x' among its 1 nodes"):
    function.node("x")
  graph = Graph(function.nodes)
  assert graph.node("y").op == "Neg"
  with pytest.raises(NoSuchNodeError, match="graph has no node 'z'"):
    graph.node("z")


def test_looking_up_does_not_change_equality_or_copies():
  looked_up, fresh = _function(), _function()
  looked_up.node("y")
  assert looked_up == fresh and hash(looked_up) == hash(fresh)
  renamed = dataclasses.replace(looked_up, nodes=(Node("z", "NoOp"),))
  assert renamed.node("z").op == "NoOp"


def test_everything_can_be_hashed_compared_and_pickled():
  function = _function()
  graph = Graph(function.nodes, producer=7)
  assert {graph: 1, function: 2, function.nodes[0]: 3, function.parameters[0]: 4}
  assert pickle.loads(pickle.dumps((function, graph))) == (function, graph)


def test_nothing_can_be_assigned():
  with pytest.raises(dataclasses.FrozenInstanceError):
    _function().nodes[0].name = "z"  # type: ignore[misc]
