"""The text form, line by line."""

import numpy as np
import pytest

from graftax.graphdef_ir import schema
from graftax.graphdef_ir.attributes import AttrPlaceholder, AttrValue, FunctionRef
from graftax.graphdef_ir.dtypes import DType
from graftax.graphdef_ir.graph import UNRESOLVED_OUTPUT, Function, Graph, Node, Parameter, Result, TensorRef
from graftax.graphdef_ir.graph.library import FunctionLibrary
from graftax.graphdef_ir.graph.text import format_function, format_graph, format_node
from graftax.graphdef_ir.shapes import PartialShape, TensorSpec
from graftax.graphdef_ir.tensors import Tensor


@pytest.mark.parametrize(
  ("value", "text"),
  [
    (b"SAME", "'SAME'"),
    (b"x" * 41, "'" + "x" * 40 + "'... 41 bytes"),
    (3, "3"),
    (0.5, "0.5"),
    (True, "true"),
    (DType.FLOAT, "float32"),
    (PartialShape((None, 3)), "[?, 3]"),
    (AttrPlaceholder("T"), "$T"),
    (FunctionRef("f"), "@f"),
    (FunctionRef("f", {"T": DType.FLOAT}), "@f{T=float32}"),
    ((1, 2), "[1, 2]"),
    ((), "[]"),
    (Tensor.from_numpy(np.array([[1, 2]], np.int32)), "int32[1, 2](1, 2)"),
    (Tensor.from_numpy(np.array(0.5, np.float16)), "float16[](0.5)"),
    (Tensor.from_numpy(["a", "b"]), "string[2]('a', 'b')"),
    (Tensor.from_numpy(np.zeros(9, bool)), "bool[9](...)"),
    (Tensor.from_proto(schema.TensorProto(dtype=1, float_val=[1, 2])), "float32[](TensorError)"),
    (Tensor.from_proto(schema.TensorProto(dtype=21)), "variant[](UnsupportedDTypeError)"),
  ],
)
def test_attribute_values(value: AttrValue, text: str):
  assert format_node(Node("n", "Op", attrs={"a": value})) == "n = Op() {a=" + text + "}"


def test_nodes():
  inputs = (TensorRef("x"), TensorRef("y", 2), TensorRef("z", UNRESOLVED_OUTPUT))
  node = Node("n", "Op", inputs, ("c",), {"b": 1, "a": 2, "_private": 3}, "/cpu:0")
  assert format_node(node) == "n = Op(x, y:2, z:unresolved, ^c) {a=2, b=1} on /cpu:0"
  assert format_node(node, show_private=True) == "n = Op(x, y:2, z:unresolved, ^c) {_private=3, a=2, b=1} on /cpu:0"


def test_functions():
  function = Function(
    "f",
    (
      Parameter("x", DType.FLOAT, PartialShape((None,))),
      Parameter("v", DType.RESOURCE, handle_spec=TensorSpec(PartialShape((3,)), DType.FLOAT)),
      Parameter("table", DType.RESOURCE),
      Parameter("any", DType.INVALID, type_attr="T"),
    ),
    (Result("y", TensorRef("x"), DType.FLOAT), Result("z", TensorRef("n", 1), DType.INVALID, "T")),
    (Node("n", "Op"),),
    control_results=("n",),
    attrs={"k": 1},
    is_stateful=True,
  )
  assert format_function(function).splitlines() == [
    "function f(x: float32[?], v: resource<float32[3]>, table: resource, any: $T[unknown rank])"
    " -> (y: float32, z: $T) stateful",
    "  with {k=1}",
    "  n = Op()",
    "  run n",
    "  return x, n:1",
  ]
  assert str(function) == format_function(function)


def test_graphs_show_their_functions_on_request():
  function = Function("f", (), (), ())
  graph = Graph((Node("n", "f"),), FunctionLibrary({"f": function, "unused": function}))
  assert str(graph) == "graph of 1 nodes, 2 functions\n  n = f()"
  assert format_graph(graph, functions=True) == str(graph) + "\n\nfunction f() -> ()\n  return"
