"""Replaces TF1 while loops by While nodes, after finding the frame in which each node runs.

A frame is the part between Enter and Exit nodes. Its loop variables are the Merges that a NextIteration feeds back
into. Other tensors that enter are the same in every iteration.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import NoReturn, TypeAlias

from graftax.graphdef_ir.attributes import FunctionRef
from graftax.graphdef_ir.errors import IrreducibleControlFlowError
from graftax.graphdef_ir.graph import Node, NodeOrigin, TensorRef
from graftax.graphdef_ir.graph.traverse import predecessors, topological_order
from graftax.graphdef_ir.passes._conditionals import cleaned, raise_conditionals, within_its_conditions
from graftax.graphdef_ir.passes._raising_workspace import Region, Workspace, rewired, role

__all__ = ["collapse_loops"]

# Names of the frames around a node, outermost first.
_Path: TypeAlias = tuple[str, ...]


def collapse_loops(workspace: Workspace, region: Region) -> Region:
  """Returns the region with a While node for each frame. Inner loops are in the bodies of outer ones.

  Raises:
    IrreducibleControlFlowError: a frame does not have the form that `tf.while_loop` creates.
    LimitExceededError: loops are too deep inside each other.
  """
  order = topological_order(tuple(region.nodes.values()))
  paths = _frame_paths(workspace, order)
  members: dict[_Path, dict[str, Node]] = {}
  for node in order:
    members.setdefault(paths[node.name], {})[node.name] = node
  enters: dict[_Path, dict[str, Node]] = {}
  for node in order:
    if role(node) == "enter":
      enters.setdefault(_path_after(node, paths[node.name]), {})[node.name] = node
  outer = Region(members.get((), {}), region.results, region.roots)
  exits: dict[TensorRef, TensorRef] = {}
  for path in sorted(enters, key=len, reverse=True):
    parent = members.setdefault(path[:-1], {})
    # Read here rather than earlier: a loop whose result they use may have been replaced meanwhile.
    loop = _Loop(workspace, path, members.get(path, {}), {name: parent[name] for name in enters[path]})
    loop.replace_in(parent, outer, exits)
  return Region(
    {node.name: node for node in topological_order(tuple(outer.nodes.values()))}, outer.results, outer.roots
  )


def _frame_paths(workspace: Workspace, order: Sequence[Node]) -> dict[str, _Path]:
  """Returns the frame of each node: the innermost of the frames of its inputs."""
  paths: dict[str, _Path] = {}
  after: dict[str, _Path] = {}
  for node in order:
    path: _Path = ()
    deepest = ""
    for name in predecessors(node):
      other = after.get(name, ())  # a parameter, or the back edge of a loop
      if len(other) > len(path):
        path, deepest, other, name = other, name, path, deepest
      if path[: len(other)] != other:
        raise IrreducibleControlFlowError(
          f"function {workspace.function.name!r}, node {node.name!r} ({node.op}): its inputs {deepest!r} and {name!r} "
          f"are in the frames {'/'.join(path)!r} and {'/'.join(other)!r}, neither of which is in the other."
        )
    workspace.budget.check_depth(len(path), f"function {workspace.function.name!r}, node {node.name!r},")
    paths[node.name] = path
    after[node.name] = _path_after(node, path)
  return paths


def _path_after(node: Node, path: _Path) -> _Path:
  if role(node) == "enter":
    name = node.attrs.get("frame_name", b"")
    return (*path, name.decode(errors="replace") if isinstance(name, bytes) else str(name))
  return path[:-1] if role(node) == "exit" else path


def _without_exits(node: Node, exits: Mapping[TensorRef, TensorRef]) -> Node:
  inputs = tuple(exits.get(ref, ref) for ref in node.inputs)
  waits = tuple(dict.fromkeys(exits.get(TensorRef(name), TensorRef(name)).node for name in node.control_inputs))
  if inputs == node.inputs and waits == node.control_inputs:
    return node
  return dataclasses.replace(node, inputs=inputs, control_inputs=waits)


@dataclasses.dataclass(frozen=True, slots=True)
class _Variable:
  """A loop variable: its Merge, its initial tensor, and the tensor with its next value."""

  head: TensorRef
  initial: TensorRef
  following: TensorRef


class _Loop:
  """One frame: its loop variables, its condition and its body."""

  def __init__(self, workspace: Workspace, path: _Path, members: dict[str, Node], enters: dict[str, Node]) -> None:
    self._workspace = workspace
    self._frame = path[-1]
    self._members = members
    self._enters = enters
    self._loop_cond = self._find_loop_cond()
    self._variables = self._find_variables()
    self._renamed = {TensorRef(name): node.inputs[0] for name, node in enters.items()}
    self._renamed |= self._find_switches()
    # These nodes are removed, so nothing inside may wait for them.
    self._edges = {name for name, node in members.items() if role(node) in ("next_iteration", "exit", "loop_cond")}
    self._edges |= {ref.node for ref in self._renamed} | {variable.head.node for variable in self._variables}

  def replace_in(self, parent: dict[str, Node], outer: Region, exits: dict[TensorRef, TensorRef]) -> None:
    """Adds a While node for this frame to `parent`, the frame around it.

    Args:
      parent: nodes of the frame around this one, by name.
      outer: the region that all frames are in.
      exits: maps the output of an Exit to the output of a While that replaces it; those of this frame are added.
    """
    cond, body = self._regions()
    node = self._while_node(cond, body)
    for name, member in self._members.items():
      if role(member) == "exit":
        exits[TensorRef(name)] = TensorRef(node.name, self._position_of(member))
    for name in self._enters:
      parent.pop(name, None)
    parent[node.name] = node
    for name, member in parent.items():
      parent[name] = _without_exits(member, exits)
    outer.results = [exits.get(ref, ref) for ref in outer.results]
    outer.roots = [node.name if name in self._members else name for name in outer.roots]

  def _find_loop_cond(self) -> Node:
    found = [node for node in self._members.values() if role(node) == "loop_cond"]
    if len(found) != 1:
      self._fail(f"has {len(found)} LoopCond nodes {[node.name for node in found]}; expected one")
    return found[0]

  def _find_variables(self) -> list[_Variable]:
    variables = []
    for node in self._members.values():
      if role(node) != "merge":
        continue
      sources = [(self._members.get(ref.node) or self._enters.get(ref.node)) for ref in node.inputs]
      following = [source for source in sources if source is not None and role(source) == "next_iteration"]
      if not following:
        continue
      initial = [source for source in sources if source is not None and role(source) == "enter"]
      if len(node.inputs) != 2 or len(initial) != 1 or len(following) != 1:
        self._fail(
          f"loop variable {node.name!r} is a Merge of {[str(ref) for ref in node.inputs]}; expected an Enter and a "
          f"NextIteration"
        )
      variables.append(_Variable(TensorRef(node.name), initial[0].inputs[0], following[0].inputs[0]))
    return variables

  def _find_switches(self) -> dict[TensorRef, TensorRef]:
    """Maps the outputs of Switches on the loop condition to loop variables, for the case that the loop continues."""
    heads = {variable.head for variable in self._variables}
    found = {}
    for node in self._members.values():
      if role(node) == "switch" and self._is_loop_cond(node.inputs[1]):
        if node.inputs[0] not in heads:
          self._fail(
            f"Switch {node.name!r} on the loop's condition has input {str(node.inputs[0])!r}; expected a loop variable"
          )
        found[TensorRef(node.name, 1)] = node.inputs[0]
        found[TensorRef(node.name, 0)] = node.inputs[0]  # for Exits; the body does not use it
    return found

  def _is_loop_cond(self, ref: TensorRef) -> bool:
    while ref.node in self._members and self._members[ref.node].op == "Identity":
      ref = self._members[ref.node].inputs[0]
    return ref.node == self._loop_cond.name

  def _position_of(self, exit_node: Node) -> int:
    head = self._renamed.get(exit_node.inputs[0])
    for position, variable in enumerate(self._variables):
      if variable.head == head and exit_node.inputs[0].index == 0:
        return position
    self._fail(f"Exit {exit_node.name!r} of {str(exit_node.inputs[0])!r}; expected the last value of a loop variable")

  def _regions(self) -> tuple[Region, Region]:
    cond_result = self._loop_cond.inputs[0]
    cond_names = self._needed([cond_result.node])
    followings = [variable.following for variable in self._variables]
    effects = [
      name
      for name, node in self._members.items()
      if name not in self._edges and name not in cond_names and self._workspace.has_effect(node)
    ]
    waited_for = [
      name
      for node in self._members.values()
      if role(node) == "next_iteration"
      for name in node.control_inputs
      if name in self._members
    ]
    body_names = self._needed([*(ref.node for ref in followings), *effects, *waited_for])
    both = [name for name in self._members if name in cond_names & body_names]
    twice = [name for name in both if self._workspace.has_effect(self._members[name])]
    if twice:
      self._fail(f"nodes {twice} have effects and belong to the loop's condition as well as to its body")
    cond = self._region(cond_names, [cond_result], [])
    return cond, self._region(body_names, followings, effects)

  def _needed(self, roots: list[str]) -> set[str]:
    pending, found = list(roots), set[str]()
    while pending:
      name = pending.pop()
      if name in self._members and name not in self._edges and name not in found:
        found.add(name)
        pending.extend(predecessors(self._members[name]))
    return found

  def _region(self, names: set[str], results: list[TensorRef], effects: list[str]) -> Region:
    kept = [name for name in self._members if name in names]
    nodes = topological_order([rewired(self._members[name], self._renamed, names) for name in kept])
    region = Region({node.name: node for node in nodes}, [self._renamed.get(ref, ref) for ref in results], effects)
    region = within_its_conditions(self._workspace, region)
    return cleaned(raise_conditionals(self._workspace, region))

  def _while_node(self, cond: Region, body: Region) -> Node:
    workspace = self._workspace
    heads = [variable.head for variable in self._variables]
    invariants = [ref for ref in dict.fromkeys([*cond.free(), *body.free()]) if ref not in heads]
    # The Merges are gone, but the variables keep their names.
    parameters = workspace.parameters([*heads, *invariants], [cond, body], values=heads)
    scope = self._loop_cond.name.rpartition("/")[0] or self._loop_cond.name
    cond_name = workspace.add_function(f"{scope}/cond", cond, parameters)
    body_name = workspace.add_function(f"{scope}/body", body, parameters, passes_through=invariants)
    is_stateful = any(workspace.functions[name].is_stateful for name in (cond_name, body_name))
    node = workspace.new_node(
      scope,
      "While" if is_stateful else "StatelessWhile",
      [*(variable.initial for variable in self._variables), *invariants],
      T=tuple(parameter.dtype.base for parameter in parameters.values()),
      cond=FunctionRef(cond_name),
      body=FunctionRef(body_name),
    )
    node = dataclasses.replace(node, control_inputs=self._outer_controls(), source=NodeOrigin((self._frame,)))
    return node

  def _outer_controls(self) -> tuple[str, ...]:
    found = [name for enter in self._enters.values() for name in enter.control_inputs]
    known = self._members.keys() | self._enters.keys()
    found += [name for node in self._members.values() for name in node.control_inputs if name not in known]
    return tuple(dict.fromkeys(found))

  def _fail(self, problem: str) -> NoReturn:
    raise IrreducibleControlFlowError(
      f"function {self._workspace.function.name!r}, frame {self._frame!r}: {problem}. It cannot become a While node."
    )
