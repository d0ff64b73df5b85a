"""What preflight finds without TensorFlow."""

import dataclasses

import numpy as np
import pytest

from graftax.convert import Variable
from graftax.convert.planning.preflight import preflight
from graftax.graphdef_ir import DType, GraphError, LibraryNotFoundError, PartialShape
from graftax.testing.graph_builders import function, node, program

_WITH_STRINGS = program(
  function("f", ["x"], [node("text", "AsString", "x", T=DType.FLOAT), node("y", "OddOp", "text")], ["y"])
)


def test_the_fallback_without_tensorflow_says_what_to_install():
  nodes = [node("text", "AsString", "x", T=DType.FLOAT), node("y", "StringToNumber", "text")]
  with pytest.raises(LibraryNotFoundError, match="fallback='tensorflow' needs tensorflow, .* pip install tensorflow"):
    preflight(program(function("f", ["x"], nodes, ["y"])), fallback="tensorflow")


def test_ops_that_the_host_runs_are_told_apart():
  found = preflight(_WITH_STRINGS)
  assert list(found.unsupported_ops) == ["AsString", "OddOp"]
  assert found.on_host == {"AsString"}


def test_a_function_with_more_captures_than_parameters_is_refused():
  whole = program(function("f", ["x"], [node("y", "Neg", "x", T=DType.FLOAT)], ["y"]))
  with pytest.raises(GraphError, match="function 'f' has 1 parameters; expected 3, for 1 inputs and 2 captures"):
    preflight(dataclasses.replace(whole, captures=(np.float32(1), np.float32(2))))


def test_it_knows_whether_a_call_draws_random_numbers():
  drawn = node("r", "RandomShuffle", "x", T=DType.FLOAT)
  assert preflight(program(function("f", ["x"], [drawn], ["r"]))).draws_random_numbers
  # A node that no result needs is not run.
  assert not preflight(program(function("f", ["x"], [drawn], ["x"]))).draws_random_numbers


@pytest.mark.parametrize(("shared_name", "name"), [(b"w", "w"), (b"", "v"), (b"w\xff", r"w\xff")])
@pytest.mark.parametrize("op", ["VarHandleOp", "VariableV2"])
def test_it_knows_which_variables_a_call_assigns(op, shared_name, name):
  made = node("v", op, dtype=DType.FLOAT, shape=PartialShape(()), shared_name=shared_name)
  types = {"dtype": DType.FLOAT} if op == "VarHandleOp" else {"T": DType.FLOAT}
  assigned = node("a", "AssignVariableOp" if op == "VarHandleOp" else "Assign", "v", "x", **types)
  variables = {key: Variable(np.float32(0), f"{key}:0") for key in (name, "other")}
  found = dataclasses.replace(program(function("f", ["x"], [made, assigned], ["x"], ["a"])), variables=variables)
  assert preflight(found).updated_variables == (name,)
