"""Inlining of calls."""

import pytest

from graftax.graphdef_ir.attributes import AttrPlaceholder, AttrValue, FunctionRef
from graftax.graphdef_ir.budget import Limits
from graftax.graphdef_ir.dtypes import DType
from graftax.graphdef_ir.errors import (
  ArityError,
  GraphError,
  LimitExceededError,
  MissingFunctionError,
  OutputIndexError,
  RecursiveFunctionError,
)
from graftax.graphdef_ir.graph import Function, Node, NodeOrigin, Parameter, Result, TensorRef
from graftax.graphdef_ir.graph.library import FunctionLibrary
from graftax.graphdef_ir.graph.text import format_function
from graftax.graphdef_ir.passes.call_inlining import inline_calls
from graftax.graphdef_ir.validation import validate_function

_F = DType.FLOAT


def _node(name: str, op: str, *inputs: str, after: tuple[str, ...] = (), **attrs: AttrValue) -> Node:
  return Node(name, op, tuple(TensorRef.parse(text) for text in inputs), after, attrs)


def _call(name: str, function: str, *inputs: str, after: tuple[str, ...] = (), outputs: int = 1) -> Node:
  attrs = {"f": FunctionRef(function), "Tin": (_F,) * len(inputs), "Tout": (_F,) * outputs}
  return _node(name, "PartitionedCall", *inputs, after=after, **attrs)


def _function(
  name: str, parameters: str, results: str, *nodes: Node, control_results: tuple[str, ...] = ()
) -> Function:
  return Function(
    name,
    tuple(Parameter(parameter, _F) for parameter in parameters.split()),
    tuple(Result(f"r{i}", TensorRef.parse(text), _F) for i, text in enumerate(results.split())),
    nodes,
    control_results,
  )


def _library(*functions: Function) -> FunctionLibrary:
  return FunctionLibrary({function.name: function for function in functions})


def _lines(function: Function, library: FunctionLibrary) -> list[str]:
  """Returns the body's text without attributes, after a check that it is well-formed."""
  validate_function(function, library)
  return [line.partition(" {")[0].strip() for line in format_function(function).splitlines()[1:]]


_NEGATE = _function("negate", "x", "y", _node("y", "Neg", "x", T=_F))


def test_a_call_becomes_its_body():
  library = _library(_NEGATE)
  function = _function("f", "a", "c", _call("call", "negate", "a"), _node("c", "Neg", "call", T=_F))
  inlined = inline_calls(function, library)
  assert _lines(inlined, library) == ["call/y = Neg(a)", "c = Neg(call/y)", "return c"]
  assert inlined.node("call/y").source == NodeOrigin(("y",), ("negate",))


def test_a_call_by_name_is_a_call():
  library = _library(_NEGATE)
  function = _function("f", "a", "call", _node("call", "negate", "a"))
  assert _lines(inline_calls(function, library), library) == ["call/y = Neg(a)", "return call/y"]


def test_calls_in_calls_are_inlined_too():
  twice = _function("twice", "x", "b", _call("a", "negate", "x"), _call("b", "negate", "a"))
  library = _library(_NEGATE, twice)
  inlined = inline_calls(_function("f", "x", "t", _call("t", "twice", "x")), library)
  assert _lines(inlined, library) == ["t/a/y = Neg(x)", "t/b/y = Neg(t/a/y)", "return t/b/y"]
  assert inlined.node("t/a/y").source == NodeOrigin(("y",), ("negate",))


def test_results_that_are_parameters_lead_back_to_the_caller():
  library = _library(_function("swap", "a b", "b a"))
  function = _function(
    "f", "x y", "s:1 t", _call("s", "swap", "x", "y", outputs=2), _call("t", "swap", "s", "s:1", outputs=2)
  )
  assert _lines(inline_calls(function, library), library) == ["return x, x"]


def test_a_name_that_is_taken_gets_a_number():
  library = _library(_NEGATE)
  function = _function("f", "x", "call", _node("call/y", "NoOp"), _call("call", "negate", "x"))
  assert _lines(inline_calls(function, library), library)[1] == "call/y_1 = Neg(x)"


_ASSIGN = _function(
  "assign",
  "x",
  "x",
  _node("zero", "Const"),
  _node("write", "Print", "zero", "x"),
  _node("later", "Neg", "write"),
  control_results=("write",),
)


def _lines_unchecked(function: Function) -> list[str]:
  return [line.partition(" {")[0].strip() for line in format_function(function).splitlines()[1:]]


def test_the_body_waits_for_what_the_call_waited_for():
  function = _function("f", "x", "call", _node("before", "NoOp"), _call("call", "assign", "x", after=("before",)))
  assert _lines_unchecked(inline_calls(function, _library(_ASSIGN))) == [
    "before = NoOp()",
    "call/zero = Const()",
    "call/write = Print(call/zero, x, ^before)",
    "call/later = Neg(call/write)",
    "return x",
  ]


def test_what_waited_for_the_call_waits_for_its_effects():
  function = _function(
    "f", "x", "x", _call("call", "assign", "x"), _node("after", "NoOp", after=("call",)), control_results=("call",)
  )
  inlined = inline_calls(function, _library(_ASSIGN))
  assert _lines_unchecked(inlined)[-4:] == ["call = NoOp(^call/write)", "after = NoOp(^call)", "run call", "return x"]


def test_waiting_passes_through_an_empty_body():
  function = _function(
    "f",
    "x",
    "x",
    _node("before", "NoOp"),
    _call("call", "same", "x", after=("before",)),
    _node("after", "NoOp", after=("call",)),
  )
  inlined = inline_calls(function, _library(_function("same", "x", "x")))
  assert inlined.node("call").control_inputs == ("before",)


def test_functions_older_than_control_results_are_done_when_stateful_ops_are():
  old = _function(
    "old", "x", "y", _node("draw", "RandomUniform", "x"), _node("y", "Neg", "x"), _node("odd", "Odd", "x")
  )
  function = _function("f", "x", "x", _call("call", "old", "x"), _node("after", "NoOp", after=("call",)))
  inlined = inline_calls(function, _library(old))
  assert inlined.node("call").control_inputs == ("call/draw", "call/odd", "call/y")


def test_waiting_for_a_parameter_is_waiting_for_the_argument():
  inner = _function("inner", "x", "y", _node("y", "NoOp", after=("x",)))
  function = _function("f", "x", "call", _node("a", "Neg", "x"), _call("call", "inner", "a"))
  assert inline_calls(function, _library(inner)).node("call/y").control_inputs == ("a",)


def test_devices_of_the_body_win():
  body = _function("body", "x", "a", Node("a", "NoOp", device="/gpu:0"), Node("b", "NoOp"))
  call = Node("call", "body", (TensorRef("x"),), device="/cpu:0")
  inlined = inline_calls(_function("f", "x", "call", call), _library(body))
  assert (inlined.node("call/a").device, inlined.node("call/b").device) == ("/gpu:0", "/cpu:0")


def test_attributes_of_the_call_are_bound():
  generic = Function(
    "generic",
    (Parameter("x", DType.INVALID, type_attr="T"),),
    (Result("y", TensorRef("y"), DType.INVALID, type_attr="T"),),
    (_node("y", "Neg", "x", T=AttrPlaceholder("T")),),
  )
  library = _library(generic)
  by_name = _function("f", "x", "call", _node("call", "generic", "x", T=_F))
  assert inline_calls(by_name, library).node("call/y").attrs == {"T": _F}
  reference = FunctionRef("generic", {"T": _F})
  by_call = _function("f", "x", "call", _node("call", "PartitionedCall", "x", f=reference, Tin=(_F,), Tout=(_F,)))
  assert inline_calls(by_call, library).node("call/y").attrs == {"T": _F}


def test_some_calls_can_be_left_alone():
  library = _library(_NEGATE)
  function = _function("f", "x", "b", _call("a", "negate", "x"), _call("b", "negate", "a"))
  inlined = inline_calls(function, library, should_inline=lambda node, callee: node.name == "b")
  assert _lines(inlined, library) == ["a = PartitionedCall(x)", "b/y = Neg(a)", "return b/y"]


def test_branches_are_not_calls():
  branch = _node("if", "If", "x", "x", then_branch=FunctionRef("negate"), else_branch=FunctionRef("negate"))
  function = _function("f", "x", "if", branch)
  assert inline_calls(function, _library(_NEGATE)) is function


def test_recursion_raises():
  a, b = _function("a", "x", "c", _call("c", "b", "x")), _function("b", "x", "c", _call("c", "a", "x"))
  with pytest.raises(RecursiveFunctionError, match="functions call each other in a cycle: a -> b -> a;"):
    inline_calls(_function("f", "x", "c", _call("c", "a", "x")), _library(a, b))
  with pytest.raises(RecursiveFunctionError, match="cycle: a -> b -> a;"):
    inline_calls(a, _library(a, b))


def test_broken_calls_raise():
  with pytest.raises(
    MissingFunctionError, match=r"function 'f', node 'c' \(PartitionedCall\): calls 'negate', which is not"
  ):
    inline_calls(_function("f", "x", "c", _call("c", "negate", "x")), _library())
  with pytest.raises(ArityError, match="node 'c' .* has 2 inputs; 'negate' has 1 parameters"):
    inline_calls(_function("f", "x", "c", _call("c", "negate", "x", "x")), _library(_NEGATE))
  with pytest.raises(OutputIndexError, match="'c:1': 'negate' has only 1 results"):
    inline_calls(_function("f", "x", "c:1", _call("c", "negate", "x")), _library(_NEGATE))
  with pytest.raises(GraphError, match="'nowhere' is neither a node nor a parameter"):
    inline_calls(_function("f", "x", "c", _call("c", "g", "x")), _library(_function("g", "x", "nowhere")))


def test_calls_that_feed_each_other_raise():
  function = _function("f", "x", "a", _call("a", "same", "b"), _call("b", "same", "a"))
  with pytest.raises(GraphError, match="calls feed each other in a cycle"):
    inline_calls(function, _library(_function("same", "x", "x")))


def test_doubling_at_every_level_raises_before_it_happens():
  functions = [_NEGATE]
  for level in range(60):
    callee = functions[-1].name
    functions.append(_function(f"f{level}", "x", "b", _call("a", callee, "x"), _call("b", callee, "a")))
  with pytest.raises(
    LimitExceededError, match=r"^function 'f\d+', for the bodies of its calls, needs more than 1000 steps"
  ):
    inline_calls(functions[-1], _library(*functions), limits=Limits(steps=1000, steps_per_node=0))


def test_endless_nesting_raises():
  functions = [_NEGATE]
  for level in range(5000):
    functions.append(_function(f"f{level}", "x", "a", _call("a", functions[-1].name, "x")))
  with pytest.raises(LimitExceededError, match="^function 'f4999', for its calls, needs 101 levels inside each other"):
    inline_calls(functions[-1], _library(*functions))


def test_endless_names_raise():
  functions = [_function("f", "x", "y", _node("y" * 10_000, "Neg", "x"), _node("y", "Neg", "x"))]
  for level in range(6):  # 252 nodes are copied in all, with names of 1,264,000 characters
    functions.append(_function(f"f{level}", "x", "x", *(_call(f"c{i}", functions[-1].name, "x") for i in range(2))))
  with pytest.raises(LimitExceededError, match="needs more than 1000 steps"):
    inline_calls(functions[-1], _library(*functions), limits=Limits(steps=1000, steps_per_node=0))


def test_a_long_chain_of_calls_takes_linear_time():
  same = _function("same", "x", "x")
  calls = [_call(f"c{i}", "same", f"c{i - 1}" if i else "x") for i in reversed(range(20_000))]
  assert inline_calls(_function("f", "x", "c19999", *calls), _library(same)).results[0].ref == TensorRef("x")
