import dataclasses

import pytest

from graftax.convert import keyword_structure
from graftax.graphdef_ir import DType, PartialShape, TensorSpec
from graftax.testing import graph_builders as build
from graftax.tools.inspection.abstract_trace import TraceResult, trace_program


def _program(op, shapes, **attrs):
  """`op(x, y)`, with inputs of these shapes."""
  names = ["x", "y"][: len(shapes)]
  root = build.function("f", names, [build.node("out", op, *names, T=DType.FLOAT, **attrs)], ["out:0"])
  specs = {name: TensorSpec(PartialShape(shape), DType.FLOAT, name) for name, shape in zip(names, shapes, strict=True)}
  return dataclasses.replace(build.program(root), inputs=keyword_structure(specs, {}))


@pytest.mark.parametrize(
  ("op", "shapes", "open_sizes"),
  [
    ("Neg", [(2, 3)], ()),
    ("Neg", [(None, 3)], ("batch",)),
    ("MatMul", [(None, 4), (4, None)], ("batch", "y_1")),
  ],
)
def test_what_traces_for_any_size_has_no_problem(op, shapes, open_sizes):
  found = trace_program(_program(op, shapes))
  assert dataclasses.replace(found, costs=(), cost_sizes=()) == TraceResult(open_sizes, (), None)
  assert found.costs and len(found.cost_sizes) == len(open_sizes)


def test_a_shape_that_does_not_fit_names_the_node():
  found = trace_program(_program("MatMul", [(None, 4), (5, 2)]))
  assert (found.open_sizes, found.example_sizes) == (("batch",), ())
  assert "MatMul node 'out' in function 'f'" in found.problem


def test_an_unknown_rank_is_said():
  assert trace_program(_program("Neg", [None])).problem == "x: the rank is unknown, so there is no shape to trace with"
