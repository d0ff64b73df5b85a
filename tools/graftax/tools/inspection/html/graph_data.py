"""The functions of a model as JSON for the page's script."""

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np

from graftax.graphdef_ir import DType, Function, FunctionRef, Node, PartialShape, Tensor
from graftax.tools.inspection.scope_costs import ScopeCost
from graftax.tools.pytrees import Json

__all__ = ["graph_data"]

_MOST_CHARACTERS = 80
# Attributes that say how TensorFlow's runtime runs a call.
_OF_THE_RUNTIME = ("config", "config_proto", "executor_type")


def graph_data(
  graphs: Mapping[str, Sequence[tuple[Function, Sequence[Node]]]],
  missing: Collection[str],
  on_host: Collection[str],
  costs: Iterable[ScopeCost] = (),
) -> dict[str, Json]:
  """Returns the graphs as dicts, lists and text; a function that several signatures call is listed once.

  Args:
    graphs: by the name of a signature or function, its graph and the functions that it calls, each with the nodes that
      a call runs.
    missing: names of ops that nothing runs.
    on_host: names of ops that only the host runs.
    costs: of scopes; of several with one name, the first one counts.

  Returns:
    `entries`: the name and the position of the first function of each graph. `functions`: name and nodes, each as
    name, position of the op, inputs, attributes and names of called functions. `ops`: names, and 2 for ops that
    nothing runs, 1 for ops of the host, else 0. `costs`: operations and bytes by scope.
  """
  positions: dict[int, int] = {}
  functions: list[dict[str, Json]] = []
  ops: dict[str, int] = {}
  entries = []
  for name, parts in graphs.items():
    for function, nodes in parts:
      if id(function) not in positions:
        positions[id(function)] = len(functions)
        functions.append({"name": function.name, "nodes": [_node(node, ops) for node in nodes]})
    if parts:
      entries.append([name, positions[id(parts[0][0])]])
  states = [2 if op in missing else 1 if op in on_host else 0 for op in ops]
  by_scope: dict[str, list[int]] = {}
  for cost in costs:
    by_scope.setdefault(cost.scope, [cost.flops, cost.size_bytes])
  states_of_ops = [[op, state] for op, state in zip(ops, states, strict=True)]
  return {"entries": entries, "functions": functions, "ops": states_of_ops, "costs": by_scope}


def _node(node: Node, ops: dict[str, int]) -> list[Json]:
  position = ops.setdefault(node.op, len(ops))
  return [node.name, position, [str(ref) for ref in node.inputs], _attributes(node), list(_called(node.attrs.values()))]


def _called(values: Iterable[object]) -> Iterable[str]:
  for value in values:
    if isinstance(value, FunctionRef):
      yield value.name
    elif isinstance(value, (list, tuple)):
      yield from _called(value)


def _attributes(node: Node) -> str:
  shown = (
    f"{name}={_shown(value)}" for name, value in node.attrs.items() if name[:1] != "_" and name not in _OF_THE_RUNTIME
  )
  return ", ".join(text for text in shown if text)[: 3 * _MOST_CHARACTERS]


def _shown(value: object) -> str:
  if isinstance(value, DType):
    return value.tf_name
  if isinstance(value, Tensor):
    return f"{value.dtype.tf_name}{PartialShape(value.shape)}"
  if isinstance(value, bytes):
    return repr(value.decode("utf-8", "replace"))[:_MOST_CHARACTERS]
  if isinstance(value, np.ndarray):
    return f"{value.dtype}{list(value.shape)}"
  if isinstance(value, FunctionRef):
    return value.name
  if isinstance(value, (list, tuple)):
    return f"[{', '.join(map(_shown, value))}]"[:_MOST_CHARACTERS]
  return str(value)[:_MOST_CHARACTERS]
