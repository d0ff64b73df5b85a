"""Which nodes run, and how long it takes to tell."""

from graftax.convert.planning.effects import EffectAnalysis
from graftax.graphdef_ir import DType, Function, FunctionLibrary, Node, OpSignatures, Parameter, Result, TensorRef

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
