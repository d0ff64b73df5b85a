"""What a call reads and writes: values given, values replaced, and the state inside branches."""

import numpy as np
import pytest

from graftax.convert import convert_program
from graftax.convert.errors import ParameterError
from graftax.convert.evaluation.state import State
from graftax.graphdef_ir import DType, Function, FunctionRef, Parameter, Result, TensorRef
from graftax.ops_jax import ResourceHandle
from graftax.testing.graph_builders import const, function, node, program

_A, _B = ResourceHandle("a"), ResourceHandle("b")


def test_a_value_is_read_as_it_was_given_until_it_is_replaced():
  state = State({"a": np.float32(1)})
  assert state.read(_A) == 1
  state.write(_A, np.float32(2))
  assert state.read(_A) == 2
  with pytest.raises(ParameterError, match=r"Variable 'b' is read, but has no value; the parameters are \['a'\]"):
    state.read(_B)


def test_results_are_the_values_after_the_call():
  state = State({"a": np.float32(1), "b": np.float32(3)})
  state.read(_B)
  state.write(_A, np.float32(2))
  assert state.results() == {"a": 2, "b": 3}
  assert isinstance(state.results()["b"], np.float32)  # what was only read comes back as it was given


def test_a_branch_sees_operands_then_replaced_values_then_given_ones():
  state = State({"a": np.float32(1), "b": np.float32(3), "c": np.float32(5)})
  state.write(_A, np.float32(2))
  state.write(_B, np.float32(4))
  inside = state.branch({_B: np.float32(7)})
  assert [inside.read(ResourceHandle(name)) for name in "abc"] == [2, 7, 5]
  inside.write(_A, np.float32(9))
  assert state.read(_A) == 2


@pytest.mark.parametrize(("truth", "want"), [(1.0, 12.0), (-1.0, 2.0)])
def test_a_conditional_reads_what_was_assigned_before_it(truth, want):
  handle = (Parameter("v", DType.RESOURCE),)
  read = node("read", "ReadVariableOp", "v", dtype=DType.FLOAT)
  add = node("add", "AddV2", "read", "ten", T=DType.FLOAT)
  result = (Result("r", TensorRef("add"), DType.FLOAT),)
  branches = [
    Function("larger", handle, result, (read, const("ten", np.float32(10)), add)),
    Function("same", handle, result, (read, const("ten", np.float32(0)), add)),
  ]
  root = function(
    "root",
    ["x", "*v"],
    [
      const("two", np.float32(2)),
      const("zero", np.float32(0)),
      node("assign", "AssignVariableOp", "v", "two", dtype=DType.FLOAT),
      node("positive", "Greater", "x", "zero", T=DType.FLOAT),
      node(
        "if",
        "If",
        "positive",
        "v",
        control=["assign"],
        Tcond=DType.BOOL,
        Tin=(DType.RESOURCE,),
        Tout=(DType.FLOAT,),
        then_branch=FunctionRef("larger"),
        else_branch=FunctionRef("same"),
      ),
    ],
    ["if"],
    ["assign"],
  )
  fn, params = convert_program(program(root, branches, {"v": 1.0}))
  outputs, new_params = fn(params, np.float32(truth))
  assert outputs == (want,)
  assert new_params == {"v": 2}
