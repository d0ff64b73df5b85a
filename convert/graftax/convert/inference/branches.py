"""Conditionals whose predicate is known: calls of the branch that runs."""

import dataclasses

import numpy as np

from graftax.convert.inference.known_parts import KnownParts
from graftax.graphdef_ir import Function, FunctionRef, Node, TensorRef, traits_of

__all__ = ["decide_branches"]


def decide_branches(function: Function, known: KnownParts) -> tuple[Function, int]:
  """Returns the function with a call of the branch for each conditional that is decided, and how many there are."""
  conditionals = [
    node for node in function.nodes if traits_of(node.op).calls in ("if", "case") and known.is_known(node.inputs[0])
  ]
  values = known.values(node.inputs[0] for node in conditionals)
  called = {node.name: _branch(node, values[node.inputs[0]]) for node in conditionals}
  calls = {node.name: _call(node, branch) for node in conditionals if (branch := called[node.name]) is not None}
  nodes = tuple(calls.get(node.name, node) for node in function.nodes)
  return (dataclasses.replace(function, nodes=nodes) if calls else function), len(calls)


def _branch(node: Node, value: np.ndarray) -> FunctionRef | None:
  """Returns the branch that TensorFlow runs for a value of the predicate or index."""
  if value.ndim:
    return None  # TensorFlow asks whether the tensor is empty.
  if traits_of(node.op).calls == "if":
    found = node.attrs.get("then_branch" if value else "else_branch")
  else:
    branches = node.attrs.get("branches")
    if not isinstance(branches, tuple) or not branches:
      return None
    index = int(value)
    found = branches[index if 0 <= index < len(branches) else -1]
  return found if isinstance(found, FunctionRef) else None


def _call(node: Node, branch: FunctionRef) -> Node:
  op = "PartitionedCall" if node.op.startswith("Stateless") else "StatefulPartitionedCall"
  attrs = {name: node.attrs[name] for name in ("Tin", "Tout") if name in node.attrs}
  inputs: tuple[TensorRef, ...] = node.inputs[1:]
  return dataclasses.replace(node, op=op, inputs=inputs, attrs={**attrs, "f": branch})
