"""Constant folding."""

from typing import Any

import numpy as np
import pytest

from graftax.graphdef_ir.attributes import AttrValue
from graftax.graphdef_ir.dtypes import DType
from graftax.graphdef_ir.errors import GraphError
from graftax.graphdef_ir.graph import Function, Node, Parameter, Result, TensorRef
from graftax.graphdef_ir.passes.constant_folding import fold_constants
from graftax.graphdef_ir.passes.pruning import prune
from graftax.graphdef_ir.signatures import OpArg, OpSignature, OpSignatures
from graftax.graphdef_ir.tensors import Tensor
from graftax.graphdef_ir.validation import validate_function

_F = DType.FLOAT


def _node(name: str, op: str, *inputs: str, after: tuple[str, ...] = (), **attrs: AttrValue) -> Node:
  return Node(name, op, tuple(TensorRef.parse(text) for text in inputs), after, attrs)


def _const(name: str, value: Any, after: tuple[str, ...] = ()) -> Node:
  tensor = Tensor.from_numpy(value)
  return _node(name, "Const", after=after, dtype=tensor.dtype, value=tensor)


def _function(*nodes: Node, result: str, control_results: tuple[str, ...] = ()) -> Function:
  results = (Result("y", TensorRef.parse(result), _F),)
  return Function("f", (Parameter("x", _F),), results, nodes, control_results)


_ONE, _TWO = np.float32(1), np.float32(2)


def _evaluate(node: Node, inputs: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...] | None:
  match node.op:
    case "AddV2":
      return (np.asarray(inputs[0] + inputs[1]),)
    case "Fill":
      return (np.broadcast_to(inputs[1], inputs[0]),)
    case "Split":
      return tuple(np.split(inputs[1], node.attrs["num_split"], int(inputs[0])))
  return None


def _value(function: Function, name: str) -> list[float]:
  tensor = function.node(name).attrs["value"]
  assert function.node(name).op == "Const" and isinstance(tensor, Tensor)
  return tensor.numpy().tolist()


def test_a_chain_of_constants_becomes_one():
  function = _function(
    _node("c", "AddV2", "b", "a", T=_F),
    _const("a", _ONE),
    _node("b", "AddV2", "a", "a", T=_F),
    _node("y", "AddV2", "c", "x", T=_F),
    result="y",
  )
  folded = prune(fold_constants(function, _evaluate))
  validate_function(folded)
  assert [node.name for node in folded.nodes] == ["c", "y"]
  assert _value(folded, "c") == 3
  assert folded.node("y") is function.node("y")


def test_what_cannot_be_evaluated_stays():
  function = _function(_const("a", _ONE), _node("b", "Neg", "a", T=_F), _node("c", "AddV2", "b", "a", T=_F), result="c")
  assert fold_constants(function, _evaluate) == function


def test_several_outputs_become_several_constants():
  function = _function(
    _const("axis", np.int32(0)),
    _const("a", np.float32([1, 2])),
    _node("split", "Split", "axis", "a", num_split=2, T=_F),
    _node("split/output_1", "NoOp"),
    _node("y", "AddV2", "split:1", "x", after=("split",), T=_F),
    result="y",
  )
  folded = fold_constants(function, _evaluate)
  validate_function(folded)
  assert _value(folded, "split/output_0") == [1]
  assert _value(folded, "split/output_1_1") == [2]
  assert folded.node("y").inputs[0] == TensorRef("split/output_1_1")
  assert folded.node("y").control_inputs == ()


def test_results_follow():
  function = _function(
    _const("axis", np.int32(0)),
    _const("a", np.float32([1, 2])),
    _node("split", "Split", "axis", "a", num_split=2, T=_F),
    result="split:1",
    control_results=("split",),
  )
  folded = fold_constants(function, _evaluate)
  validate_function(folded)
  assert folded.results[0].ref == TensorRef("split/output_1") and folded.control_results == ()


def test_waiting_is_inherited():
  function = _function(
    _node("effect", "NoOp"),
    _node("other", "NoOp"),
    _const("a", np.float32([1, 2]), after=("effect",)),
    _const("axis", np.int32(0)),
    _node("split", "Split", "axis", "a", num_split=2, T=_F, after=("other",)),
    _node("b", "AddV2", "split", "split:1", T=_F),
    _node("y", "AddV2", "b", "x", T=_F),
    _node("z", "NoOp", after=("split",)),
    result="y",
  )
  folded = fold_constants(function, _evaluate)
  assert folded.node("b").control_inputs == ("other", "effect")
  assert folded.node("z").control_inputs == ("other", "effect")


def test_large_results_are_not_stored():
  shape = np.int32([1024, 1024])
  function = _function(_const("a", _ONE), _const("shape", shape), _node("y", "Fill", "shape", "a", T=_F), result="y")
  assert fold_constants(function, _evaluate).node("y").op == "Fill"
  assert fold_constants(function, _evaluate, max_size_bytes=4 << 20).node("y").op == "Const"


def test_ops_with_effects_of_their_own_are_not_even_asked_about():
  asked = []

  def record(node: Node, inputs: tuple[np.ndarray, ...]) -> None:
    asked.append(node.op)

  nodes = (
    _const("a", np.int32([2])),
    _node("b", "RandomUniform", "a", dtype=_F, T=DType.INT32),
    _node("c", "OpOfTheFuture", "a"),
    _node("d", "Switch", "a", "a", T=DType.INT32),
    _node("e", "NoOp"),
    _node("f", "Pi"),
    _node("y", "Neg", "a", T=DType.INT32),
  )
  fold_constants(_function(*nodes, result="b"), record)
  assert asked == ["Neg"]


def test_extra_ops_are_folded():
  signatures = OpSignatures([OpSignature("Mine", (OpArg("a", dtype=_F),), (OpArg("b", dtype=DType.QINT8),))])
  function = _function(_const("a", _ONE), _node("y", "Mine", "a"), result="y")
  folded = fold_constants(function, lambda node, inputs: (np.int8([3]),), signatures=signatures)
  tensor = folded.node("y").attrs["value"]
  assert isinstance(tensor, Tensor) and tensor.dtype == DType.QINT8 and tensor.numpy().tolist() == [3]


def test_an_evaluator_that_returns_something_else_is_caught():
  function = _function(_const("a", _ONE), _node("y", "Neg", "a", T=_F), result="y")
  with pytest.raises(GraphError, match=r"function 'f', node 'y' \(Neg\): evaluate returned 2 arrays; expected 1"):
    fold_constants(function, lambda node, inputs: (inputs[0], inputs[0]))
  with pytest.raises(GraphError, match="evaluate returned 'float64'; expected 'float32'"):
    fold_constants(function, lambda node, inputs: (np.zeros(()),))
