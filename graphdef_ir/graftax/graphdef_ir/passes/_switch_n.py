"""Replaces `_SwitchN`, and Merges of more than two branches, by pairs of branches.

TensorFlow lowers Case to them, when graphs are frozen with `lower_control_flow=True` and in graphs that Grappler wrote.
"""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from graftax.graphdef_ir._unique_names import unique_name
from graftax.graphdef_ir.budget import Budget
from graftax.graphdef_ir.dtypes import DType
from graftax.graphdef_ir.graph import Function, Node, TensorRef
from graftax.graphdef_ir.passes._raising_workspace import role
from graftax.graphdef_ir.tensors import Tensor

__all__ = ["with_binary_switches"]


def with_binary_switches(function: Function, budget: Budget) -> Function:
  """Returns a function, whose nodes are in topological order, with Switches in place of each `_SwitchN`.

  Output k of `_SwitchN` exists if its index is k; the last one also if no other does. So it is a chain of Switches on
  "the index is 0", "the index is 1" and so on, and a Merge of its branches is a chain of Merges of two.

  Raises:
    LimitExceededError: they have more outputs than the budget has steps. That number is only an attribute in the file.
  """
  # A graph that was not validated may have numbers below 1, which must not reduce the sum.
  num_outputs = sum(max(_num_outputs(node), 0) for node in function.nodes if role(node) == "switch_n")
  if not num_outputs:
    return function
  budget.spend_steps(num_outputs, f"function {function.name!r}, for the outputs of its _SwitchN nodes,")
  return _Replacement(function).run()


def _num_outputs(node: Node) -> int:
  return int(node.attrs["num_outs"])  # type: ignore[arg-type]  # signatures say that it is a number


class _Replacement:
  def __init__(self, function: Function) -> None:
    self._function = function
    self._taken = {node.name for node in function.nodes} | {parameter.name for parameter in function.parameters}
    self._parameters = {parameter.name for parameter in function.parameters}
    self._nodes: dict[str, Node] = {}
    self._renamed: dict[TensorRef, TensorRef] = {}
    # The tensor "the index is k", by index and k: conditionals are told by their predicates.
    self._predicates: dict[tuple[TensorRef, int], TensorRef] = {}
    read = {ref for node in function.nodes for ref in node.inputs} | {result.ref for result in function.results}
    self._positions_read = {ref.node for ref in read if ref.index == 1}

  def run(self) -> Function:
    for node in self._function.nodes:
      node = dataclasses.replace(node, inputs=tuple(self._renamed.get(ref, ref) for ref in node.inputs))
      if role(node) == "switch_n":
        self._add_switches(node)
      elif role(node) == "merge" and len(node.inputs) > 2 and node.name not in self._positions_read:
        self._add_merges(node)
      else:
        self._nodes[node.name] = node
    results = tuple(
      dataclasses.replace(result, ref=self._renamed.get(result.ref, result.ref)) for result in self._function.results
    )
    return dataclasses.replace(self._function, nodes=tuple(self._nodes.values()), results=results)

  def _add_switches(self, node: Node) -> None:
    data, index = node.inputs
    last = _num_outputs(node) - 1
    attrs = {"T": node.attrs["T"]}
    if last == 0:
      self._nodes[node.name] = dataclasses.replace(node, op="Identity", inputs=(data,), attrs=attrs)
      return
    for branch in range(last):
      # The first one keeps the name, which control inputs may have.
      name = node.name if branch == 0 else unique_name(f"{node.name}/{branch}", self._taken)
      inputs = (data, self._predicate(index, branch))
      self._nodes[name] = dataclasses.replace(node, name=name, op="Switch", inputs=inputs, attrs=attrs)
      self._renamed[TensorRef(node.name, branch)] = TensorRef(name, 1)
      data = TensorRef(name, 0)
    self._renamed[TensorRef(node.name, last)] = data

  def _predicate(self, index: TensorRef, branch: int) -> TensorRef:
    while index.node in self._nodes and self._nodes[index.node].op == "Identity":
      index = self._nodes[index.node].inputs[0]
    if (index, branch) not in self._predicates:
      # A constant without inputs would be outside of the loop that the index is in.
      controls = () if index.node in self._parameters else (index.node,)
      value = Tensor.from_numpy(np.array(branch, np.int32))
      number = self._new(f"{index.node}/branch_{branch}", "Const", (), {"dtype": DType.INT32, "value": value}, controls)
      equal = self._new(f"{index.node}/is_branch_{branch}", "Equal", (index, number), {"T": DType.INT32})
      self._predicates[index, branch] = equal
    return self._predicates[index, branch]

  def _add_merges(self, node: Node) -> None:
    *others, first, last = node.inputs
    attrs = {**node.attrs, "N": 2}
    while others:
      last = self._new(f"{node.name}/{len(others)}", "Merge", (first, last), attrs)
      first = others.pop()
    self._nodes[node.name] = dataclasses.replace(node, inputs=(first, last), attrs=attrs)

  def _new(
    self, name: str, op: str, inputs: Sequence[TensorRef], attrs: Mapping[str, object], controls: Sequence[str] = ()
  ) -> TensorRef:
    name = unique_name(name, self._taken)
    self._nodes[name] = Node(name, op, tuple(inputs), tuple(controls), attrs)  # type: ignore[arg-type]
    return TensorRef(name)
