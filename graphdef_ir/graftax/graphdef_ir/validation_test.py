"""Each thing that can be wrong with a graph, and the error that says so."""

import dataclasses

import pytest

from graftax.graphdef_ir import _node_checks
from graftax.graphdef_ir.attributes import AttrPlaceholder, AttrValue, FunctionRef
from graftax.graphdef_ir.dtypes import DType
from graftax.graphdef_ir.errors import (
  ArityError,
  AttributeValueError,
  CycleError,
  DanglingInputError,
  DuplicateNameError,
  FunctionResultError,
  GraphError,
  MissingAttributeError,
  MissingFunctionError,
  OutputIndexError,
  TypeMismatchError,
  UnknownOpError,
)
from graftax.graphdef_ir.graph import UNRESOLVED_OUTPUT, Function, Graph, Node, Parameter, Result, TensorRef
from graftax.graphdef_ir.graph.library import FunctionLibrary
from graftax.graphdef_ir.shapes import PartialShape
from graftax.graphdef_ir.signatures import OpArg, OpSignature, OpSignatures
from graftax.graphdef_ir.validation import validate, validate_function, validate_nodes, validate_reachable


def _node(name: str, op: str, *inputs: str, after: tuple[str, ...] = (), **attrs: AttrValue) -> Node:
  return Node(name, op, tuple(TensorRef.parse(text) for text in inputs), after, attrs)


def _placeholder(name: str, dtype: DType = DType.FLOAT) -> Node:
  return _node(name, "Placeholder", dtype=dtype)


_X = _placeholder("x")


def _fails(error: type[GraphError], message: str, *nodes: Node, library: FunctionLibrary | None = None) -> None:
  with pytest.raises(error, match=message) as caught:
    validate(Graph(nodes, FunctionLibrary() if library is None else library))
  assert type(caught.value) is error


def test_a_good_graph_is_accepted():
  validate(Graph((_node("y", "AddV2", "x", "x", after=("x",), T=DType.FLOAT), _X)))


def test_missing_inputs():
  _fails(
    DanglingInputError,
    r"graph, node 'y' \(Neg\): input 'z' names none of the 2 nodes",
    _X,
    _node("y", "Neg", "z", T=DType.FLOAT),
  )
  _fails(
    DanglingInputError,
    r"node 'y' \(NoOp\): control input 'z' is not the name of a node",
    _node("y", "NoOp", after=("z",)),
  )


def test_missing_outputs():
  _fails(
    OutputIndexError,
    r"node 'y' \(Neg\): input 'x:1': 'Placeholder' has 1 outputs",
    _X,
    _node("y", "Neg", "x:1", T=DType.FLOAT),
  )
  _fails(OutputIndexError, "'NoOp' has 0 outputs", _node("x", "NoOp"), _node("y", "Neg", "x", T=DType.FLOAT))
  split = _node("s", "Split", "i", "x", num_split=2, T=DType.FLOAT)
  nodes = (_X, _placeholder("i", DType.INT32), split)
  validate(Graph((*nodes, _node("y", "Neg", "s:1", T=DType.FLOAT))))
  _fails(OutputIndexError, "input 's:2': 'Split' has 2 outputs", *nodes, _node("y", "Neg", "s:2", T=DType.FLOAT))


def test_a_claimed_number_of_outputs_costs_nothing():
  split = _node("s", "Split", "i", "x", num_split=1 << 20, T=DType.FLOAT)
  validate(Graph((_X, _placeholder("i", DType.INT32), split, _node("y", "Neg", "s:1048575", T=DType.FLOAT))))


def test_wrong_number_of_inputs():
  _fails(
    ArityError,
    r"node 'y' \(AddV2\): has 1 inputs; expected 2 for \(x: T, y: T\)",
    _X,
    _node("y", "AddV2", "x", T=DType.FLOAT),
  )
  _fails(ArityError, "has 1 inputs; expected 0", _X, _node("y", "NoOp", "x"))
  _fails(
    ArityError,
    r"has 1 inputs; expected 3 for \(values: N \* T, axis: Tidx\)",
    _X,
    _node("y", "ConcatV2", "x", N=2, T=DType.FLOAT),
  )


def test_wrong_types():
  _fails(
    TypeMismatchError,
    r"node 'y' \(Neg\): input 0 \('x'\) is float32; expected int32",
    _X,
    _node("y", "Neg", "x", T=DType.INT32),
  )
  _fails(
    TypeMismatchError,
    r"node 'y' \(IdentityN\): input 1 \('x'\) is float32; expected bool",
    _X,
    _node("y", "IdentityN", "x", "x", T=(DType.FLOAT, DType.BOOL)),
  )


def test_references_count_as_their_base_type():
  variable = _node("v", "VariableV2", dtype=DType.FLOAT, shape=PartialShape(()))
  validate(Graph((variable, _X, _node("a", "Assign", "v", "x", T=DType.FLOAT), _node("y", "Neg", "a", T=DType.FLOAT))))


def test_duplicate_and_missing_names():
  _fails(DuplicateNameError, r"node 'x' \(Placeholder\): has the same name as another node", _X, _X)
  _fails(GraphError, "graph: a NoOp node has no name", _node("", "NoOp"))


def test_cycles():
  a, b = _node("a", "Neg", "b", T=DType.FLOAT), _node("b", "Neg", "a", T=DType.FLOAT)
  _fails(CycleError, "graph: nodes depend on each other in a cycle", a, b)
  with pytest.raises(CycleError, match="graph: nodes depend on each other in a cycle"):
    validate_nodes(Graph((_X, a, b)))


def test_while_loops_of_tf1_are_fine():
  loop = (
    _X,
    _node("enter", "Enter", "x", T=DType.FLOAT, frame_name=b"f"),
    _node("merge", "Merge", "enter", "next", N=2, T=DType.FLOAT),
    _node("next", "NextIteration", "merge", T=DType.FLOAT),
  )
  validate(Graph(loop))


def test_attributes():
  _fails(MissingAttributeError, r"node 'y' \(Neg\): attribute 'T' \(type\) is missing", _X, _node("y", "Neg", "x"))
  _fails(AttributeValueError, r"attribute 'T' is 3; expected a value of type type", _X, _node("y", "Neg", "x", T=3))
  _fails(
    AttributeValueError,
    r"attribute 'transpose_a' is 1; expected a value of type bool",
    _X,
    _node("y", "MatMul", "x", "x", T=DType.FLOAT, transpose_a=1),
  )
  _fails(
    AttributeValueError,
    r"attribute 'strides' is \(1, True\); expected a value of type list\(int\)",
    _X,
    _node("y", "Conv2D", "x", "x", T=DType.FLOAT, strides=(1, True), padding=b"SAME"),
  )
  _fails(
    AttributeValueError,
    "attribute 'N' is 1; expected at least 2",
    _X,
    _node("y", "ConcatV2", "x", "x", N=1, T=DType.FLOAT),
  )
  _fails(
    AttributeValueError,
    "attribute 'num_split' is 1099511627776; expected the number of tensors",
    _X,
    _node("y", "Split", "x", "x", num_split=1 << 40, T=DType.FLOAT),
  )


def test_attributes_that_are_not_bound_yet_are_not_judged():
  node = _node("y", "Neg", "x", T=AttrPlaceholder("T"))
  validate_function(Function("f", (Parameter("x", DType.INVALID, type_attr="T"),), (), (node,)))


def test_unknown_ops_are_left_alone_in_graphs():
  validate(Graph((_X, _node("y", "OpOfTheFuture", "x", any=3), _node("z", "Neg", "y:7", T=DType.FLOAT))))


def test_unknown_ops_raise_where_their_outputs_cannot_be_told():
  nodes = (
    _node("y", "OpOfTheFuture"),
    Node("z", "Neg", (TensorRef("y", UNRESOLVED_OUTPUT),), attrs={"T": DType.FLOAT}),
  )
  _fails(UnknownOpError, r"node 'z' \(Neg\): input from 'y': the outputs of op 'OpOfTheFuture' are unknown", *nodes)


def test_extra_ops_are_checked():
  signatures = OpSignatures([OpSignature("Mine", inputs=(OpArg("x", dtype=DType.INT32),))])
  with pytest.raises(TypeMismatchError, match=r"node 'y' \(Mine\): input 0 \('x'\) is float32; expected int32"):
    validate(Graph((_X, _node("y", "Mine", "x")), signatures=signatures))


def _negate(**changes: object) -> Function:
  function = Function(
    "negate",
    (Parameter("x", DType.FLOAT),),
    (Result("y", TensorRef("neg"), DType.FLOAT),),
    (_node("neg", "Neg", "x", T=DType.FLOAT),),
    control_results=("neg",),
  )
  return dataclasses.replace(function, **changes)  # type: ignore[arg-type]


def _call(**changes: AttrValue) -> Node:
  attrs: dict[str, AttrValue] = {"f": FunctionRef("negate"), "Tin": (DType.FLOAT,), "Tout": (DType.FLOAT,), **changes}
  return Node("call", "PartitionedCall", (TensorRef("x"),), attrs=attrs)


def test_functions_that_are_called_are_checked_too():
  library = FunctionLibrary({"negate": _negate(nodes=(_node("neg", "Neg", "z", T=DType.FLOAT),))})
  validate(Graph((_X,), library))
  _fails(DanglingInputError, "function 'negate', node 'neg'", _X, _call(), library=library)


def test_missing_functions():
  _fails(MissingFunctionError, r"node 'call' \(PartitionedCall\): calls 'negate', which is not among", _X, _call())
  _fails(MissingFunctionError, "calls 'other'", _X, _call(f=FunctionRef("other")))
  validate(Graph((_X, _call(f=FunctionRef("negate"))), FunctionLibrary({"negate": _negate()})))


def test_an_empty_function_name_means_none():
  validate(Graph((_X, _call(f=FunctionRef("")))))


def test_calls_by_name_are_checked_like_ops():
  library = FunctionLibrary({"negate": _negate()})
  validate(Graph((_X, _node("y", "negate", "x")), library))
  _fails(ArityError, r"node 'y' \(negate\): has 0 inputs; expected 1", _node("y", "negate"), library=library)


@pytest.mark.parametrize(
  ("changes", "error", "message"),
  [
    ({"parameters": (Parameter("x", DType.FLOAT),) * 2}, DuplicateNameError, "two parameters are named 'x'"),
    (
      {"parameters": (Parameter("neg", DType.FLOAT),)},
      DuplicateNameError,
      "'neg'.* has the same name as a parameter",
    ),
    ({"parameters": (Parameter("x", DType.INT32),)}, TypeMismatchError, r"input 0 \('x'\) is int32; expected float32"),
    (
      {"results": (Result("y", TensorRef("z"), DType.FLOAT),)},
      FunctionResultError,
      "function 'negate', result 'y': tensor 'z' names none",
    ),
    ({"results": (Result("y", TensorRef("neg", 1), DType.FLOAT),)}, FunctionResultError, "tensor 'neg:1'"),
    ({"results": (Result("y", TensorRef("x", 1), DType.FLOAT),)}, FunctionResultError, "parameter 'x' is one tensor"),
    (
      {"results": (Result("y", TensorRef("neg"), DType.BOOL),)},
      TypeMismatchError,
      "tensor 'neg' is float32; the function declares bool",
    ),
    (
      {"control_results": ("z",)},
      FunctionResultError,
      "control result 'z' is not the name of a node",
    ),
  ],
)
def test_functions(changes: dict[str, object], error: type[GraphError], message: str):
  validate_function(_negate())
  with pytest.raises(error, match=message):
    validate_function(_negate(**changes))


def test_a_value_that_an_attribute_does_not_allow_names_those_that_it_does():
  node = _node("y", "Neg", "x", T=DType.STRING)
  with pytest.raises(AttributeValueError, match=r"'T' is .*STRING.*; expected one of .*float32"):
    validate_reachable(Function("f", (Parameter("x", DType.STRING),), (), (node,)), FunctionLibrary(), OpSignatures())


@pytest.mark.parametrize(
  ("changes", "error"),
  [
    ({"Tin": (DType.FLOAT, DType.FLOAT)}, ArityError),
    ({"Tin": (DType.INT32,)}, TypeMismatchError),
    ({"Tout": ()}, ArityError),
    ({"Tout": (DType.INT32,)}, TypeMismatchError),
  ],
)
def test_a_call_fits_the_function_that_it_calls(changes, error):
  inputs = ("x",) * len(changes.get("Tin", (1,)))
  dtype = changes.get("Tin", (DType.FLOAT,))[0]
  attrs = {"f": FunctionRef("negate"), "Tin": (DType.FLOAT,), "Tout": (DType.FLOAT,), **changes}
  caller = Function("f", (Parameter("x", dtype),), (), (_node("call", "PartitionedCall", *inputs, **attrs),))
  with pytest.raises(error, match="node 'call'.*'negate'"):
    validate_reachable(caller, FunctionLibrary({"negate": _negate()}), OpSignatures())


@pytest.mark.parametrize(
  "node",
  [
    _node("y", "Neg", "x", "x", T=DType.FLOAT),
    _node("y", "Neg", "gone", T=DType.FLOAT),
    _node("y", "Neg", "x", T=DType.INT32),
    _node("y", "Neg", "x:1", T=DType.FLOAT),
    _node("y", "Neg", "x", T=1),
  ],
)
def test_a_wrong_node_after_many_of_its_kind_is_found(node):
  right = tuple(_node(f"y{i}", "Neg", "x", T=DType.FLOAT) for i in range(3))
  function = Function("f", (Parameter("x", DType.FLOAT),), (), (*right, node))
  with pytest.raises(GraphError, match="node 'y'"):
    validate_reachable(function, FunctionLibrary(), OpSignatures())


class _ClearedAfterALook(dict):
  """A table of known forms that another thread clears after each look at whether it has one."""

  def __contains__(self, key):
    found = super().__contains__(key)
    self.clear()
    return found


def test_table_of_known_forms_may_be_cleared_by_another_thread(monkeypatch):
  monkeypatch.setattr(_node_checks, "_KNOWN", _ClearedAfterALook())
  for _ in range(2):
    validate_nodes(Graph((_X,)))
  assert _node_checks._KNOWN
