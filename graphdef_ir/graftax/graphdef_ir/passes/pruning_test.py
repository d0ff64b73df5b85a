"""Pruning."""

import pytest

from graftax.graphdef_ir.dtypes import DType
from graftax.graphdef_ir.graph import Function, Node, Parameter, Result, TensorRef
from graftax.graphdef_ir.passes.pruning import prune


def _function(*, control_results: tuple[str, ...] = ()) -> Function:
  nodes = (
    Node("a", "Neg", (TensorRef("x"),)),
    Node("b", "Neg", (TensorRef("a"),), ("c",)),
    Node("c", "NoOp"),
    Node("effect", "AssignVariableOp", (TensorRef("v"), TensorRef("a"))),
    Node("unused", "Neg", (TensorRef("b"),)),
  )
  parameters = (Parameter("x", DType.FLOAT), Parameter("v", DType.RESOURCE))
  return Function("f", parameters, (Result("y", TensorRef("b"), DType.FLOAT),), nodes, control_results)


@pytest.mark.parametrize(
  ("control_results", "keep", "expected"),
  [((), (), "a b c"), (("effect",), (), "a b c effect"), ((), ("unused",), "a b c unused")],
)
def test_what_stays(control_results: tuple[str, ...], keep: tuple[str, ...], expected: str):
  pruned = prune(_function(control_results=control_results), keep=keep)
  assert [node.name for node in pruned.nodes] == expected.split()
  assert pruned.parameters == _function().parameters


def test_a_function_without_unneeded_nodes_is_returned_as_it_is():
  pruned = prune(_function())
  assert prune(pruned) is pruned
