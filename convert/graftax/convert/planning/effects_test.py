"""Which nodes run, and how long it takes to tell."""

import numpy as np
import pytest

from graftax.convert import convert_program
from graftax.convert.planning.effects import EffectAnalysis
from graftax.graphdef_ir import (
  DType,
  Function,
  FunctionLibrary,
  FunctionRef,
  Node,
  OpSignatures,
  Parameter,
  Result,
  TensorRef,
)
from graftax.testing.graph_builders import const, function, node, program

_X = Parameter("x", DType.FLOAT)
_HANDLE = Parameter("v", DType.RESOURCE)


def _analysis(*functions):
  return EffectAnalysis(FunctionLibrary({function.name: function for function in functions}), OpSignatures())


def _function(name, *nodes, parameters=(_X,)):
  return Function(name, parameters, (Result("y", TensorRef("x"), DType.FLOAT),), nodes, tuple(n.name for n in nodes))


def test_calls_of_calls_are_read_once_each():
  # Every function calls the next one twice: 2 ** 40 ways lead to the last.
  depth = 40
  functions = [_function(f"f{depth}")]
  for i in range(depth):
    functions.append(_function(f"f{i}", *(Node(f"call_{j}", f"f{i + 1}", (TensorRef("x"),)) for j in range(2))))
  assert _analysis(*functions).needed_nodes(functions[-1]) == set()
  assign = Node("assign", "AssignVariableOp", (TensorRef("v"), TensorRef("x")))
  functions[0] = _function(f"f{depth}", assign, parameters=(_X, _HANDLE))
  assert {"call_0", "call_1"} <= _analysis(*functions).needed_nodes(functions[1])


def test_functions_that_call_each_other_are_read_to_the_end():
  even = _function("even", Node("call", "odd", (TensorRef("x"),)))
  odd = _function("odd", Node("call", "even", (TensorRef("x"),)))
  assert _analysis(even, odd).needed_nodes(even) == set()
  print_op = Node("assign", "AssignVariableOp", (TensorRef("v"), TensorRef("x")))
  odd = _function("odd", Node("call", "even", (TensorRef("x"),)), print_op, parameters=(_X, _HANDLE))
  assert "call" in _analysis(even, odd).needed_nodes(even)


def test_an_op_that_no_table_knows_may_have_an_effect():
  unknown = _function("f", Node("secret", "CompanySecret", (TensorRef("x"),)))
  assert "secret" in _analysis().needed_nodes(unknown)


def test_a_parameter_that_a_callee_writes_is_written():
  assign = Node("assign", "AssignVariableOp", (TensorRef("v"), TensorRef("x")))
  inner = _function("inner", assign, parameters=(_X, _HANDLE))
  call = Node("call", "inner", (TensorRef("x"), TensorRef("v")))
  outer = _function("outer", call, parameters=(_HANDLE, _X))
  assert 0 in _analysis(inner, outer).written_parameters("outer")
  read = Node("read", "ReadVariableOp", (TensorRef("v"),))
  inner = _function("inner", read, parameters=(_X, _HANDLE))
  assert _analysis(inner, outer).written_parameters("outer") == set()


@pytest.mark.parametrize(
  ("op", "inputs", "functions"),
  [
    ("PartitionedCall", ("u", "v"), {"f": FunctionRef("writing")}),
    ("If", ("x", "u", "v"), {"then_branch": FunctionRef("writing"), "else_branch": FunctionRef("writing")}),
    ("Case", ("x", "u", "v"), {"branches": (FunctionRef("writing"),)}),
    ("While", ("u", "v"), {"cond": FunctionRef("writing"), "body": FunctionRef("writing")}),
    ("For", ("x", "x", "x", "u", "v"), {"body": FunctionRef("writing")}),
  ],
)
def test_only_the_argument_that_a_callee_writes_is_written(op, inputs, functions):
  number = (Parameter("i", DType.INT32),) if op == "For" else ()
  handles = (Parameter("first", DType.RESOURCE), Parameter("second", DType.RESOURCE))
  assign = Node("assign", "AssignVariableOp", (TensorRef("second"), TensorRef("one")))
  writing = Function("writing", (*number, *handles), (), (const("one", np.float32(1)), assign), ("assign",))
  call = Node("call", op, tuple(map(TensorRef, inputs)), attrs=functions)
  outer = _function("outer", call, parameters=(_X, Parameter("u", DType.RESOURCE), _HANDLE))
  assert _analysis(writing, outer).written_parameters("outer") == {2}


@pytest.mark.parametrize(
  ("op", "inputs", "functions"),
  [
    ("PartitionedCall", ("v",), ("f",)),
    ("If", ("x", "v"), ("then_branch", "else_branch")),
    ("While", ("v",), ("cond", "body")),
    ("For", ("x", "x", "x", "v"), ("body",)),
  ],
)
def test_a_write_to_a_resource_that_a_call_returns_is_a_write_to_its_argument(op, inputs, functions):
  number = (Parameter("i", DType.INT32),) if op == "For" else ()
  passing = Function("passing", (*number, _HANDLE), (Result("r", TensorRef("v"), DType.RESOURCE),), ())
  call = Node("call", op, tuple(map(TensorRef, inputs)), attrs={name: FunctionRef("passing") for name in functions})
  assign = Node("assign", "AssignVariableOp", (TensorRef("call"), TensorRef("y")))
  outer = _function("outer", call, assign, parameters=(_X, Parameter("y", DType.FLOAT), _HANDLE))
  assert 2 in _analysis(passing, outer).written_parameters("outer")


def test_a_loop_keeps_what_its_body_writes_through_a_handle_that_a_call_returned():
  passing = Function("passing", (_HANDLE,), (Result("r", TensorRef("v"), DType.RESOURCE),), ())
  variables = (Parameter("i", DType.INT32), _X, _HANDLE)
  types = (DType.INT32, DType.FLOAT, DType.RESOURCE)
  less = [const("limit", np.int32(3)), node("less", "Less", "i", "limit", T=DType.INT32)]
  cond = Function("cond", variables, (Result("r", TensorRef("less"), DType.BOOL),), tuple(less))
  step = (
    const("one", np.int32(1)),
    node("next", "AddV2", "i", "one", T=DType.INT32),
    node("call", "PartitionedCall", "v", Tin=(DType.RESOURCE,), Tout=(DType.RESOURCE,), f=FunctionRef("passing")),
    node("assign", "AssignAddVariableOp", "call", "x", dtype=DType.FLOAT),
  )
  results = tuple(
    Result(f"r{i}", TensorRef(name), dtype)
    for i, (name, dtype) in enumerate(zip(("next", "x", "v"), types, strict=True))
  )
  body = Function("body", variables, results, step, ("assign",))
  loop = node("loop", "While", "start", "x", "v", T=types, cond=FunctionRef("cond"), body=FunctionRef("body"))
  root = function("root", ["x", "*v"], [const("start", np.int32(0)), loop], ["loop:1"], ["loop"])
  fn, params = convert_program(program(root, [passing, cond, body], {"v": 1.0}))
  assert fn(params, np.float32(2))[1]["v"] == 7
