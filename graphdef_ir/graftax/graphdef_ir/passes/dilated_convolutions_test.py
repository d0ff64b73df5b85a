"""Dilations in place of blocks: which convolutions are replaced, and by what.

That the values stay is tested in `graftax.convert`, against TensorFlow.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from graftax.graphdef_ir.dtypes import DType
from graftax.graphdef_ir.graph import Function, Node, Parameter, TensorRef
from graftax.graphdef_ir.passes.dilated_convolutions import restore_dilations
from graftax.graphdef_ir.tensors import Tensor


def _const(name: str, value: object) -> Node:
  return Node(name, "Const", attrs={"dtype": DType.INT32, "value": Tensor.from_numpy(np.array(value, np.int32))})


def _wide(name: str, value: object) -> Node:
  return Node(name, "Const", attrs={"dtype": DType.INT64, "value": Tensor.from_numpy(np.array(value, np.int64))})


def _refs(*names: str) -> tuple[TensorRef, ...]:
  return tuple(map(TensorRef, names))


def _nodes(op: str = "Conv2D", rank: int = 4, **attrs: Any) -> dict[str, Node]:
  space = rank - 2
  attrs = {"T": DType.FLOAT, "strides": (1,) * rank, "padding": b"VALID"} | attrs
  nodes = (
    _const("block", [2, 3, 4][:space]),
    _const("paddings", [[2, 3], [3, 5], [0, 1]][:space]),
    _const("crops", [[0, 1], [1, 2], [0, 1]][:space]),
    Node("phases", "SpaceToBatchND", _refs("x", "block", "paddings"), ("before",)),
    Node("conv", op, _refs("phases", "kernel"), ("check",), attrs, device="/cpu:0"),
    Node("y", "BatchToSpaceND", _refs("conv", "block", "crops")),
  )
  return {node.name: node for node in nodes}


def _function(nodes: Mapping[str, Node]) -> Function:
  return Function("f", (Parameter("x", DType.FLOAT), Parameter("kernel", DType.FLOAT)), (), tuple(nodes.values()))


@pytest.mark.parametrize("op", ["Conv2D", "DepthwiseConv2dNative"])
def test_the_last_node_becomes_the_convolution(op: str):
  restored = restore_dilations(_function(_nodes(op)))
  assert [node.name for node in restored.nodes] == ["block", "paddings", "crops", "phases", "conv", "y"]
  y = restored.node("y")
  assert (y.op, y.inputs, y.device) == (op, _refs("x", "kernel"), "/cpu:0")
  assert y.control_inputs == ("before", "check")
  assert (y.attrs["padding"], y.attrs["dilations"]) == (b"EXPLICIT", (1, 2, 3, 1))
  assert y.attrs["explicit_paddings"] == (0, 0, 2, 2, 2, 3, 0, 0)


def test_a_convolution_in_three_dimensions_pads_before():
  restored = restore_dilations(_function(_nodes("Conv3D", 5)))
  y, pad = restored.node("y"), restored.node("y/padded")
  assert (y.op, y.inputs, y.attrs["padding"]) == ("Conv3D", _refs("y/padded", "kernel"), b"VALID")
  assert y.attrs["dilations"] == (1, 2, 3, 4, 1) and "explicit_paddings" not in y.attrs
  assert pad.inputs == _refs("x", "y/paddings")
  paddings = restored.node("y/paddings").attrs["value"]
  assert isinstance(paddings, Tensor)
  assert paddings.numpy().tolist() == [[0, 0], [2, 2], [2, 3], [0, 0], [0, 0]]


def _nodes_in_1d(axis: int, op: str = "Conv2D", rank: int = 4) -> dict[str, Node]:
  space = [[4, 1]] * (rank - 3)
  nodes = _nodes(op, rank)
  for node in (_const("block", [2] * len(space)), _const("paddings", space), _const("crops", [[0, 1]] * len(space))):
    nodes[node.name] = node
  nodes["axis"] = _const("axis", axis)
  nodes["expand"] = Node("expand", "ExpandDims", _refs("phases", "axis"))
  nodes["conv"] = dataclasses.replace(nodes["conv"], inputs=_refs("expand", "kernel"))
  nodes["squeeze"] = Node("squeeze", "Squeeze", _refs("conv"), attrs={"squeeze_dims": (axis,)})
  nodes["y"] = dataclasses.replace(nodes["y"], inputs=_refs("squeeze", "block", "crops"))
  return nodes


@pytest.mark.parametrize("axis", [1, -3])
def test_a_convolution_in_one_dimension_keeps_its_expanded_input(axis: int):
  nodes = _nodes_in_1d(axis)
  restored = restore_dilations(_function(nodes))
  conv = restored.node("y/dilated")
  assert restored.node("y") == dataclasses.replace(nodes["squeeze"], name="y", inputs=_refs("y/dilated"))
  expand = dataclasses.replace(nodes["expand"], name="y/expanded", inputs=_refs("x", "axis"))
  assert restored.node("y/expanded") == expand
  assert conv.inputs == _refs("y/expanded", "kernel") and conv.control_inputs == ("before", "check")
  assert (conv.attrs["dilations"], conv.attrs["explicit_paddings"]) == ((1, 1, 2, 1), (0, 0, 0, 0, 4, 0, 0, 0))


def test_axis_minus_3_of_a_convolution_in_three_dimensions_is_another_one():
  function = _function(_nodes_in_1d(-3, "Conv3D", 5))
  assert restore_dilations(function) is function


def test_what_is_passed_by_reference_is_not_read_at_another_time():
  function = _function(_nodes())
  by_reference = dataclasses.replace(function, parameters=(Parameter("x", DType.FLOAT_REF), function.parameters[1]))
  assert restore_dilations(by_reference) is by_reference
  with_variable = _function(_nodes() | {"v": Node("v", "VariableV2", attrs={"dtype": DType.FLOAT})})
  assert restore_dilations(with_variable) is with_variable


def test_new_names_are_those_that_nothing_has():
  nodes = _nodes("Conv3D", 5) | {"y/padded": Node("y/padded", "NoOp")}
  restored = restore_dilations(_function(nodes))
  assert restored.node("y").inputs == _refs("y/padded_1", "kernel") and restored.node("y/padded").op == "NoOp"


def test_without_padding_the_attribute_stays():
  nodes = _nodes()
  for name in ("paddings", "crops"):
    nodes[name] = _const(name, [[0, 1], [0, 0]])
  y = restore_dilations(_function(nodes)).node("y")
  assert y.attrs["padding"] == b"VALID" and "explicit_paddings" not in y.attrs


def _with(name: str, node: Node) -> dict[str, Node]:
  return _nodes() | {name: node}


@pytest.mark.parametrize(
  "nodes",
  [
    pytest.param(_nodes(strides=(1, 2, 1, 1)), id="strides"),
    pytest.param(_nodes(padding=b"SAME"), id="padding"),
    pytest.param(_nodes(dilations=(1, 2, 2, 1)), id="dilations"),
    pytest.param(_nodes(data_format=b"NCHW"), id="layout"),
    pytest.param(_nodes("MaxPool"), id="pooling"),
    pytest.param(_with("block", Node("block", "Shape", _refs("x"))), id="a block that is computed"),
    pytest.param(_with("crops", _const("crops", [[3, 0], [0, 0]])), id="crops beyond the padding"),
    pytest.param(_with("crops", _const("crops", [[0, -1], [0, 0]])), id="negative crops"),
    pytest.param(
      _with("paddings", _const("paddings", [[2, -(2**31)], [3, 5]])),
      id="a difference beyond 32 bits, which is no padding",
    ),
    pytest.param(_with("block", _const("block", [2])), id="fewer dimensions"),
    pytest.param(_with("block", _const("block", [0, 2])), id="an empty block"),
    pytest.param(_with("phases", Node("phases", "Identity", _refs("x"))), id="no blocks before"),
    pytest.param(_with("y", Node("y", "BatchToSpaceND", _refs("conv", "crops", "crops"))), id="other blocks after"),
    pytest.param(_with("y", Node("y", "BatchToSpaceND")), id="no inputs"),
    pytest.param(_with("phases", Node("phases", "SpaceToBatchND", _refs("x"))), id="one input"),
    pytest.param(_nodes(explicit_paddings=(0, 0, 1, 1, 0, 0, 0, 0)), id="paddings that its padding does not use"),
    pytest.param(_with("block", _wide("block", [2**40, 2])), id="a block beyond 32 bits"),
    pytest.param(_with("paddings", _wide("paddings", [[2**62, 3], [3, 5]])), id="paddings beyond 32 bits"),
  ],
)
def test_other_nodes_stay(nodes: dict[str, Node]):
  function = _function(nodes)
  assert restore_dilations(function) is function
