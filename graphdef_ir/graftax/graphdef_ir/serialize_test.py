"""Graphs to messages; tensorflow_test.py runs the results."""

import dataclasses

import pytest

from graftax.graphdef_ir import schema
from graftax.graphdef_ir.attributes import FunctionRef
from graftax.graphdef_ir.dtypes import DType
from graftax.graphdef_ir.errors import (
  DanglingInputError,
  GraphError,
  MissingAttributeError,
  OutputIndexError,
  UnknownOpError,
)
from graftax.graphdef_ir.graph import UNRESOLVED_OUTPUT, Function, Graph, Node, NodeOrigin, Parameter, Result, TensorRef
from graftax.graphdef_ir.graph.library import FunctionLibrary
from graftax.graphdef_ir.parse import function_from_proto, graph_from_proto
from graftax.graphdef_ir.serialize import function_to_proto, graph_to_proto, node_to_proto, signature_to_proto
from graftax.graphdef_ir.shapes import PartialShape, TensorSpec
from graftax.graphdef_ir.signatures import OpSignatures, signature_from_op_def

_F = DType.FLOAT
_SPLIT = Node("s", "Split", (TensorRef("axis"), TensorRef("x")), attrs={"num_split": 3, "T": _F})
_SVD = Node("svd", "Svd", (TensorRef("s", 2),), ("s",), {"T": _F, "compute_uv": True, "full_matrices": False}, "/cpu:0")
_FUNCTION = Function(
  "f",
  (
    Parameter("x", _F, PartialShape((None, 3)), {"_output_shapes": (PartialShape((None, 3)),)}),
    Parameter("axis", DType.INT32),
    Parameter("v", DType.RESOURCE, handle_spec=TensorSpec(PartialShape((2,)), DType.HALF)),
    Parameter("any", DType.INVALID, type_attr="T"),
  ),
  (Result("u", TensorRef("svd", 1), _F), Result("same", TensorRef("any"), DType.INVALID, "T")),
  (_SPLIT, _SVD, Node("call", "g", (TensorRef("s", 1),), source=NodeOrigin(("a",), ("b",)))),
  control_results=("call", "s"),
  attrs={"inner": FunctionRef("g", {"T": _F})},
  is_stateful=True,
)
_G = Function("g", (Parameter("x", _F),), (Result("a", TensorRef("x"), _F), Result("b", TensorRef("x"), _F)), ())
_LIBRARY = FunctionLibrary({"f": _FUNCTION, "g": _G}, {"f": "g"}, {"Op-1": "g"})


def test_functions_round_trip():
  message = function_to_proto(_FUNCTION, _LIBRARY)
  assert function_from_proto(message, _LIBRARY) == _FUNCTION
  assert list(message.node_def[1].input) == ["s:output:2", "^s"]
  assert message.ret["u"] == "svd:u:0"


def test_graphs_round_trip():
  nodes = (
    Node("x", "Placeholder", attrs={"dtype": _F}),
    Node("c", "f", (TensorRef("x"),)),
    Node("d", "g", (TensorRef("c", 1),)),
  )
  graph = Graph(nodes, _LIBRARY, producer=7)
  message = graph_to_proto(graph)
  assert list(message.node[2].input) == ["c:1"]
  again = graph_from_proto(schema.GraphDef.FromString(message.SerializeToString()))
  assert again == graph
  assert again.library.gradient_functions == {"f": "g"} and again.library.registered_gradients == {"Op-1": "g"}


def test_functions_that_were_not_changed_are_written_as_they_were_read():
  message = graph_to_proto(Graph((), _LIBRARY))
  message.library.function[0].resource_arg_unique_id[2] = 5
  graph = graph_from_proto(message)
  graph.library["f"]
  assert graph_to_proto(graph) == message
  changed = dataclasses.replace(graph, library=graph.library.replace({"f": _FUNCTION}))
  assert not graph_to_proto(changed).library.function[0].resource_arg_unique_id


def test_a_shape_is_written_once():
  function = dataclasses.replace(_G, parameters=(Parameter("x", _F, PartialShape((2,))),))
  assert function_from_proto(function_to_proto(function)).parameters[0].shape == PartialShape((2,))


def test_node_inputs_are_spelled_as_in_a_graph():
  assert list(node_to_proto(_SVD).input) == ["s:2", "^s"]


@pytest.mark.parametrize(
  ("nodes", "ref", "error", "message"),
  [
    ((), TensorRef("y"), DanglingInputError, "function 'g': 'y' names none of the 0 nodes"),
    ((), TensorRef("x", 1), DanglingInputError, "'x:1' names none"),
    ((Node("y", "Odd"),), TensorRef("y"), UnknownOpError, "outputs of node 'y' are unknown, because op 'Odd'"),
    ((Node("y", "Neg"),), TensorRef("y", UNRESOLVED_OUTPUT), UnknownOpError, "outputs of node 'y' are unknown"),
    ((Node("y", "Neg"),), TensorRef("y", 1), OutputIndexError, "'y:1': op 'Neg' has no such output"),
    (
      (Node("y", "Split"),),
      TensorRef("y", 1),
      MissingAttributeError,
      "function 'g', node 'y': Split: attribute 'num_split'",
    ),
  ],
)
def test_refs_that_cannot_be_spelled(nodes: tuple[Node, ...], ref: TensorRef, error: type[GraphError], message: str):
  with pytest.raises(error, match=message):
    function_to_proto(dataclasses.replace(_G, nodes=nodes, results=(Result("a", ref, _F),)))


def test_op_defs_of_all_ops_are_read_as_the_same_signatures():
  for signature in OpSignatures().values():
    again = signature_from_op_def(schema.OpDef.FromString(signature_to_proto(signature).SerializeToString()))
    assert again == signature, signature.name
