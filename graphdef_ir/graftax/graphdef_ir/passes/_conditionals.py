"""Replaces TF1 conditionals (Switch and Merge) by If nodes, after finding the conditions under which nodes run.

A node runs if all of its inputs run, a Merge if one of them runs. So each node has a set of literals, "this
predicate is true (false)", that must hold; a Switch adds one, and a Merge of two inputs that differ in one removes it.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from graftax.graphdef_ir.attributes import FunctionRef
from graftax.graphdef_ir.dtypes import DType
from graftax.graphdef_ir.errors import DeadBranchError, IrreducibleControlFlowError
from graftax.graphdef_ir.graph import Node, NodeOrigin, TensorRef
from graftax.graphdef_ir.graph.traverse import predecessors
from graftax.graphdef_ir.passes._raising_workspace import Region, Workspace, rewired, role
from graftax.graphdef_ir.tensors import Tensor

__all__ = ["cleaned", "raise_conditionals", "within_its_conditions"]

_Literal: TypeAlias = tuple[TensorRef, bool]
# None: the literals contradict each other, so the node never runs.
_Condition: TypeAlias = frozenset[_Literal] | None

_ALWAYS: frozenset[_Literal] = frozenset()
# Comparing this many literals of a condition counts as one step: it takes about as long as copying a node.
_LITERALS_A_STEP = 16


def raise_conditionals(workspace: Workspace, region: Region, depth: int = 0) -> Region:
  """Returns the region with an If node for every conditional. Inner ones are in the branches of outer ones.

  Raises:
    DeadBranchError: a result exists in one branch only.
    IrreducibleControlFlowError: Switches and Merges do not pair up.
    LimitExceededError: conditionals are too deep inside each other, or nodes that several of them need multiply.
  """
  if not any(role(node) in ("switch", "merge") for node in region.nodes.values()):
    return region
  workspace.budget.check_depth(depth, f"function {workspace.function.name!r}, for its conditionals,")
  return _Scheduler(workspace, region, _Conditions(workspace, region), depth).run()


def within_its_conditions(workspace: Workspace, region: Region) -> Region:
  """Returns a loop's region without the Switches on predicates of conditionals around the loop.

  The results exist only if those predicates hold, so the loop runs only then.
  """
  conditions = _Conditions(workspace, Region(dict(region.nodes), region.results, region.roots))
  literals = {
    literal
    for ref in region.results
    for literal in conditions.of_tensor(ref) or ()
    if literal[0].node not in region.nodes
  }
  if not literals:
    return region
  renamed: dict[TensorRef, TensorRef] = {}
  kept: dict[str, Node] = {}
  for name, node in region.nodes.items():
    taken = [truth for ref, truth in literals if role(node) == "switch" and conditions.predicate(node) == ref]
    if taken:
      renamed[TensorRef(name, int(taken[0]))] = renamed.get(node.inputs[0], node.inputs[0])
    else:
      kept[name] = node
  nodes = {name: rewired(node, renamed, kept) for name, node in kept.items()}
  return Region(nodes, [renamed.get(ref, ref) for ref in region.results], region.roots)


def cleaned(region: Region) -> Region:
  """Returns the region without control inputs on nodes that always run at once, and without nodes only used so."""
  nodes = region.nodes

  def is_instant(name: str) -> bool:
    node = nodes[name]
    return node.op == "Const" or (
      node.op == "Identity" and node.inputs[0].node not in nodes and not node.control_inputs
    )

  waiting = {
    name: dataclasses.replace(
      node,
      control_inputs=() if node.op == "Const" else tuple(n for n in node.control_inputs if not is_instant(n)),
    )
    if node.control_inputs
    else node
    for name, node in nodes.items()
  }
  pending = [*(ref.node for ref in region.results), *region.roots]
  needed: set[str] = set()
  while pending:
    name = pending.pop()
    if name in waiting and name not in needed:
      needed.add(name)
      pending.extend(predecessors(waiting[name]))
  return Region({name: node for name, node in waiting.items() if name in needed}, region.results, region.roots)


@dataclasses.dataclass(frozen=True, slots=True)
class _Join:
  """A Merge that ends a conditional on `predicate`: the tensor it forwards in either case, and its position."""

  node: Node
  predicate: TensorRef
  taken: Mapping[bool, int]

  def source(self, truth: bool) -> TensorRef:
    return self.node.inputs[self.taken[truth]]


class _Conditions:
  """The condition under which each node of a region runs, and the conditional that each Merge ends."""

  def __init__(self, workspace: Workspace, region: Region) -> None:
    self._where = f"function {workspace.function.name!r}"
    self._nodes = region.nodes
    self._of: dict[str, _Condition] = {}
    self._constants: dict[tuple[bool, _Condition], TensorRef] = {}
    self._predicates: dict[TensorRef, TensorRef] = {}
    self.joins: dict[str, _Join] = {}
    for node in list(region.nodes.values()):
      condition = self._of[node.name] = self._merge(node) if role(node) == "merge" else self._all(node)
      if condition and len(condition) >= _LITERALS_A_STEP:
        workspace.budget.spend_steps(len(condition) // _LITERALS_A_STEP, f"{self._where}, for its conditionals,")

  def of(self, name: str) -> _Condition:
    """Returns the condition under which a node runs. Free tensors always exist."""
    return self._of.get(name, _ALWAYS)

  def is_always(self, name: str) -> bool:
    """Returns whether a node runs regardless of the region's predicates."""
    return self.of(name) == _ALWAYS

  def predicate(self, switch: Node) -> TensorRef:
    """Returns the predicate of a Switch, as the tensor behind any Identity nodes.

    Known predicates of one value are one predicate: TensorFlow's optimizer folds the Identity nodes of a conditional
    on a constant to constants of their own.
    """
    ref = switch.inputs[1]
    while ref.node in self._nodes and self._nodes[ref.node].op == "Identity":
      ref = self._nodes[ref.node].inputs[0]
    if ref not in self._predicates:
      self._predicates[ref] = self._shared_constant(ref)
    return self._predicates[ref]

  def _shared_constant(self, ref: TensorRef) -> TensorRef:
    """Returns the constant that stands for all of its value in its branch, or the tensor itself if it is none."""
    value = _known_truth(self._nodes.get(ref.node))
    return ref if value is None else self._constants.setdefault((value, self.of(ref.node)), ref)

  def describe(self, condition: _Condition) -> str:
    """Returns a condition in words."""
    if condition is None:
      return "never"
    return " and ".join(sorted(f"{str(ref)!r} is {str(truth).lower()}" for ref, truth in condition)) or "always"

  def of_tensor(self, ref: TensorRef) -> _Condition:
    """Returns the condition under which a tensor exists."""
    condition = self.of(ref.node)
    node = self._nodes.get(ref.node)
    if node is None or role(node) != "switch" or condition is None:
      return condition
    return _both(condition, frozenset([(self.predicate(node), bool(ref.index))]))

  def _all(self, node: Node) -> _Condition:
    condition: _Condition = _ALWAYS
    for ref in node.inputs:
      condition = _both(condition, self.of_tensor(ref))
    for name in node.control_inputs:
      condition = _both(condition, self.of(name))
    return condition

  def _merge(self, node: Node) -> _Condition:
    conditions = [self.of_tensor(ref) for ref in node.inputs]
    alive = [position for position, condition in enumerate(conditions) if condition is not None]
    if not alive:
      return None
    if len(alive) == 1:
      # The other branch can never run.
      self._nodes[node.name] = Node(node.name, "Identity", (node.inputs[alive[0]],), attrs={"T": node.attrs["T"]})
      return conditions[alive[0]]
    if len(conditions) == 2 and len(alive) == 2:
      first, second = (condition or _ALWAYS for condition in conditions)
      only_first, only_second = first - second, second - first
      if len(only_first) == len(only_second) == 1:
        ((predicate, truth),) = only_first
        if only_second == {(predicate, not truth)}:
          self.joins[node.name] = _Join(node, predicate, {truth: 0, not truth: 1})
          return first & second
    inputs = "; ".join(
      f"{str(ref)!r} runs when {self.describe(condition)}"
      for ref, condition in zip(node.inputs, conditions, strict=True)
    )
    raise IrreducibleControlFlowError(
      f"{self._where}, node {node.name!r} ({node.op}): its inputs do not come from the two branches of one "
      f"conditional: {inputs}."
    )


def _known_truth(node: Node | None) -> bool | None:
  """Returns the value of a node that is a constant bool, and None for any other."""
  if node is None or node.op != "Const":
    return None
  value = node.attrs.get("value")
  if not isinstance(value, Tensor) or value.dtype != DType.BOOL or value.shape != ():
    return None
  return bool(value.numpy())


def _both(first: _Condition, second: _Condition) -> _Condition:
  if first is None or second is None:
    return None
  if not second or first is second:
    return first
  union = first | second
  return None if any((ref, not truth) in union for ref, truth in union) else union


@dataclasses.dataclass(frozen=True, slots=True)
class _Branch:
  """The nodes that run for one value of the predicate, without those of conditionals around it."""

  names: dict[str, None]
  outside: frozenset[str]


class _Scheduler:
  """Orders the nodes of a region that always run, and emits an If as soon as the Merges of a conditional are ready.

  Merges on one predicate that are ready at the same time share an If. Merges that have to wait get another
  one, so that no cycle can arise. Nodes that both need are computed in both, unless they have an effect.
  """

  def __init__(self, workspace: Workspace, region: Region, conditions: _Conditions, depth: int) -> None:
    self._workspace = workspace
    self._region = region
    self._conditions = conditions
    self._depth = depth
    self._position = {name: position for position, name in enumerate(region.nodes)}
    self._indices_read = {ref for node in region.nodes.values() for ref in node.inputs if ref.index == 1}
    self._indices_read.update(region.results)
    self._done: dict[str, Node] = {}
    self._finished: set[str] = set()
    self._renamed: dict[TensorRef, TensorRef] = {}
    self._stands_for: dict[str, str] = {}
    self._ran: dict[str, str] = {}

  def run(self) -> Region:
    self._check_results()
    conditions = self._conditions
    plain = [
      name
      for name, node in self._region.nodes.items()
      if conditions.is_always(name) and role(node) != "switch" and name not in conditions.joins
    ]
    joins = [join for name, join in conditions.joins.items() if conditions.is_always(name)]
    waits = {join.node.name: self._waits_of(join) for join in joins}
    while plain or joins:
      plain = self._emit_ready(plain)
      ready = [join for join in joins if waits[join.node.name] <= self._finished]
      if not ready:
        break
      cluster = [join for join in ready if join.predicate == ready[0].predicate]
      self._emit_if(ready[0].predicate, cluster, {})
      joins = [join for join in joins if join.node.name not in self._finished]
    if plain or joins:
      left = [*plain, *(join.node.name for join in joins)]
      raise IrreducibleControlFlowError(
        f"function {self._workspace.function.name!r}: conditionals wait for each other; nodes {left[:8]} have no order."
      )
    self._emit_unmerged_effects()
    results = [self._renamed.get(ref, ref) for ref in self._region.results]
    return Region(self._done, results, self._roots())

  def _check_results(self) -> None:
    for ref in self._region.results:
      condition = self._conditions.of_tensor(ref)
      if condition != _ALWAYS:
        raise DeadBranchError(
          f"function {self._workspace.function.name!r}: {str(ref)!r} exists only if "
          f"{self._conditions.describe(condition)}, but is needed in any case. Request the tensor after the Merge that "
          f"ends the conditional."
        )

  def _emit_ready(self, plain: list[str]) -> list[str]:
    left = []
    for name in plain:
      node = self._region.nodes[name]
      if all(map(self._is_there, predecessors(node))):
        self._done[name] = self._outside(node)
        self._finished.add(name)
      else:
        left.append(name)
    return left

  def _is_there(self, name: str) -> bool:
    return name in self._finished or name not in self._region.nodes or self._is_switch(name)

  def _outside(self, node: Node) -> Node:
    """Returns a node with the inputs and control inputs that it has after conditionals have become If nodes."""
    inputs = tuple(self._renamed.get(ref, ref) for ref in node.inputs)
    controls = dict.fromkeys(
      self._stands_for.get(name, name) for name in node.control_inputs if not self._is_switch(name)
    )
    controls.pop(node.name, None)
    op = "Identity" if node.op == "RefIdentity" else node.op
    return dataclasses.replace(node, op=op, inputs=inputs, control_inputs=tuple(controls))

  def _is_switch(self, name: str) -> bool:
    node = self._region.nodes.get(name)
    return node is not None and role(node) == "switch"

  def _waits_of(self, join: _Join) -> frozenset[str]:
    branches = [self._branch([join.source(truth)], [], join.predicate) for truth in (True, False)]
    controls = frozenset(name for name in join.node.control_inputs if self._is_level(name))
    predicate = frozenset([join.predicate.node]) if join.predicate.node in self._region.nodes else frozenset()
    return branches[0].outside | branches[1].outside | controls | predicate

  def _is_level(self, name: str) -> bool:
    """Returns whether a node is outside of all conditionals of the region."""
    return name in self._region.nodes and self._conditions.is_always(name) and not self._is_switch(name)

  def _branch(self, refs: Iterable[TensorRef], names: Iterable[str], predicate: TensorRef) -> _Branch:
    nodes = self._region.nodes
    pending = [*(ref.node for ref in refs), *names]
    inside: set[str] = set()
    outside: set[str] = set()
    while pending:
      name = pending.pop()
      if name in inside or name in outside or name not in nodes:
        continue
      if self._is_level(name):
        outside.add(name)
        continue
      inside.add(name)
      pending.extend(predecessors(nodes[name]))
    # Nodes that several conditionals on one predicate need are copied for each, at every level.
    self._workspace.budget.spend_steps(
      len(inside), f"function {self._workspace.function.name!r}, for its conditionals,"
    )
    kept = [name for name in inside if not self._is_own_switch(name, predicate)]
    return _Branch(dict.fromkeys(sorted(kept, key=self._position.__getitem__)), frozenset(outside))

  def _is_own_switch(self, name: str, predicate: TensorRef) -> bool:
    return self._is_switch(name) and self._conditions.predicate(self._region.nodes[name]) == predicate

  def _emit_if(self, predicate: TensorRef, joins: Sequence[_Join], effects: Mapping[bool, Sequence[str]]) -> None:
    waits: dict[str, None] = {}
    # The false branch first: its number is 0.
    arms = {
      truth: self._arm(predicate, truth, [j.source(truth) for j in joins], effects.get(truth, ()), waits)
      for truth in (False, True)
    }
    indices = [join for join in joins if TensorRef(join.node.name, 1) in self._indices_read]
    for truth, arm in arms.items():
      for join in indices:
        constant = self._position_constant(join, truth)
        arm.nodes[constant.name] = constant
        arm.results.append(TensorRef(constant.name))
    regions = {truth: cleaned(raise_conditionals(self._workspace, arm, self._depth + 1)) for truth, arm in arms.items()}
    node = self._if_node(predicate, joins, regions, waits)
    self._done[node.name] = node
    for position, join in enumerate(joins):
      self._renamed[TensorRef(join.node.name)] = TensorRef(node.name, position)
    for position, join in enumerate(indices, start=len(joins)):
      self._renamed[TensorRef(join.node.name, 1)] = TensorRef(node.name, position)
    self._finished.update(join.node.name for join in joins)
    for arm in arms.values():
      self._ran.update(dict.fromkeys(arm.roots, node.name))
      self._stands_for.update({name: node.name for name in arm.nodes if name in self._region.nodes})
    self._stands_for.update({join.node.name: node.name for join in joins})

  def _arm(
    self, predicate: TensorRef, truth: bool, results: list[TensorRef], effects: Sequence[str], waits: dict[str, None]
  ) -> Region:
    """Returns one branch as a region; adds the nodes that the If must wait for to `waits`."""
    branch = self._branch(results, effects, predicate)
    ran = self._already_ran(branch, results)
    nodes: dict[str, Node] = {}
    for name in branch.names:
      if name in ran:
        waits[self._ran[name]] = None
        continue
      node = self._region.nodes[name]
      inputs = tuple(self._into_branch(ref, predicate, waits) for ref in node.inputs)
      for control in node.control_inputs:
        if self._is_level(control):
          waits[self._stands_for.get(control, control)] = None
      nodes[name] = rewired(dataclasses.replace(node, inputs=inputs), {}, branch.names.keys() - ran)
    roots = [name for name, node in nodes.items() if self._workspace.has_effect(node)]
    return Region(nodes, [self._into_branch(ref, predicate, waits) for ref in results], roots)

  def _into_branch(self, ref: TensorRef, predicate: TensorRef, waits: dict[str, None]) -> TensorRef:
    while ref.node in self._region.nodes and self._is_own_switch(ref.node, predicate):
      switch = self._region.nodes[ref.node]
      for name in switch.control_inputs:
        if self._is_level(name):
          waits[self._stands_for.get(name, name)] = None
      ref = switch.inputs[0]
    return self._renamed.get(ref, ref)

  def _already_ran(self, branch: _Branch, results: Sequence[TensorRef]) -> set[str]:
    """Returns the nodes with effects that an earlier If on the same predicate has run; they must not run again."""
    ran = {name for name in branch.names if name in self._ran}
    read = {ref.node for name in branch.names if name not in ran for ref in self._region.nodes[name].inputs}
    read.update(ref.node for ref in results)
    for name in sorted(ran & read):
      raise IrreducibleControlFlowError(
        f"function {self._workspace.function.name!r}: {name!r} ({self._region.nodes[name].op}) has an effect and is "
        f"read by two conditionals on one predicate, of which one needs the other's result. Return its value from the "
        f"first conditional."
      )
    return ran

  def _position_constant(self, join: _Join, truth: bool) -> Node:
    value = Tensor.from_numpy(np.array(join.taken[truth], np.int32))
    return self._workspace.new_node(f"{join.node.name}/value_index", "Const", (), dtype=DType.INT32, value=value)

  def _if_node(
    self, predicate: TensorRef, joins: Sequence[_Join], regions: Mapping[bool, Region], waits: Mapping[str, None]
  ) -> Node:
    workspace = self._workspace
    free = dict.fromkeys([*regions[True].free(), *regions[False].free()])
    parameters = workspace.parameters(free, list(regions.values()))
    stem = joins[0].node.name if joins else f"{predicate.node}/cond"
    scope = stem.rpartition("/")[0] or stem
    names = {
      truth: workspace.add_function(f"{scope}/{'then' if truth else 'else'}", regions[truth], parameters)
      for truth in (True, False)
    }
    is_stateful = any(workspace.functions[name].is_stateful for name in names.values())
    results = [workspace.functions[name].results for name in names.values()][0]
    node = workspace.new_node(
      scope,
      "If" if is_stateful else "StatelessIf",
      [self._renamed.get(predicate, predicate), *parameters],
      Tcond=DType.BOOL,
      Tin=tuple(parameter.dtype.base for parameter in parameters.values()),
      Tout=tuple(result.dtype.base for result in results),
      then_branch=FunctionRef(names[True]),
      else_branch=FunctionRef(names[False]),
    )
    for join in joins:
      waits = {**waits, **{self._stands_for.get(n, n): None for n in join.node.control_inputs if self._is_level(n)}}
    source = NodeOrigin(tuple(join.node.name for join in joins)) if joins else None
    return dataclasses.replace(node, control_inputs=tuple(waits), source=source)

  def _emit_unmerged_effects(self) -> None:
    """Emits one If per predicate for the effects that no Merge waits for."""
    left = [
      name
      for name in self._region.roots
      if name in self._region.nodes and self._conditions.of(name) and name not in self._stands_for
    ]
    by_predicate: dict[TensorRef, dict[bool, list[str]]] = {}
    for name in left:
      predicate, truth = self._outermost(name)
      by_predicate.setdefault(predicate, {True: [], False: []})[truth].append(name)
    for predicate, effects in by_predicate.items():
      self._emit_if(predicate, (), effects)

  def _outermost(self, name: str) -> _Literal:
    for predicate, truth in sorted(self._conditions.of(name) or ()):
      if self._conditions.of_tensor(predicate) == _ALWAYS:
        return predicate, truth
    raise AssertionError(f"internal: {name!r} has a condition without an outermost predicate.")

  def _roots(self) -> list[str]:
    wanted = dict.fromkeys(self._stands_for.get(name, name) for name in self._region.roots)
    return [name for name in wanted if name in self._done]
