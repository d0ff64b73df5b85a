"""Orders equations such that those of a scope stand together."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from graftax.convert.source_code.program import ASSIGN, Block, Equation, Value, uses

__all__ = ["together"]

_Path = tuple[str, ...]
_Needs = Mapping[int, frozenset[int]]


def together(block: Block, cut: Mapping[_Path, _Path]) -> list[Equation]:
  """Returns the equations of a block with each scope in one piece, except scopes that need results of each other.

  Args:
    block: equations. A parameter is assigned after all that read it.
    cut: the scopes with their names in parts.
  """
  equations = block.equations
  needs = _needs(block)
  ends = [[cut[e.scope[:depth]] for depth in range(1, len(e.scope) + 1)] for e in equations]
  return [
    equations[i] for i in _Arranged(needs, [cut[e.scope] for e in equations], ends).ordered(_late(block, needs), 0)
  ]


def _needs(block: Block) -> _Needs:
  """Returns which equations must stand before each one."""
  producers = {value: i for i, equation in enumerate(block.equations) for value in equation.outputs}
  reads = [frozenset(uses(Block([], [equation], []))) for equation in block.equations]
  readers: dict[Value, set[int]] = {}
  for i, values in enumerate(reads):
    for value in values:
      readers.setdefault(value, set()).add(i)
  needs: dict[int, frozenset[int]] = {}
  for i, equation in enumerate(block.equations):
    before = {producers[value] for value in reads[i] if value in producers}
    if equation.op == ASSIGN:
      parameter = equation.inputs[0]
      assert isinstance(parameter, Value)
      before |= readers[parameter]
    needs[i] = frozenset(before - {i})
  return needs


def _late(block: Block, needs: _Needs) -> list[int]:
  """Returns an order in which each equation stands shortly before the first one that needs it."""
  producers = {value: i for i, equation in enumerate(block.equations) for value in equation.outputs}
  roots = [producers[v] for v in block.results if isinstance(v, Value) and v in producers]
  out: list[int] = []
  done: set[int] = set()
  stack: list[tuple[int, bool]] = []
  for root in [*roots, *range(len(block.equations))]:
    stack.append((root, False))
    while stack:
      i, ready = stack.pop()
      if i in done:
        continue
      if ready:
        done.add(i)
        out.append(i)
        continue
      stack.append((i, True))
      stack.extend((j, False) for j in sorted(needs[i], reverse=True) if j not in done)
  return out


@dataclasses.dataclass(frozen=True, slots=True)
class _Arranged:
  """Puts equations of one scope together.

  Attributes:
    needs: which equations must stand before each one.
    paths: the scope of each.
    ends: the scopes of each from outside to inside, without those that are parts of names.
  """

  needs: _Needs
  paths: Sequence[_Path]
  ends: Sequence[Sequence[_Path]]

  def ordered(self, order: Sequence[int], depth: int, whole: bool = False) -> list[int]:
    """Returns equations with those of each scope at this depth together, and likewise within each.

    Args:
      order: the equations, in an order that is right.
      depth: how many parts of the scope all of them share.
      whole: leaves scopes that are parts of names.
    """
    node_of = {i: self._node(i, depth, whole) for i in order}
    members: dict[object, list[int]] = {}
    for i in order:
      members.setdefault(node_of[i], []).append(i)
    edges: dict[object, dict[object, None]] = {node: {} for node in members}
    for i in order:
      for j in sorted(self.needs[i]):
        if j in node_of and node_of[j] != node_of[i]:
          edges[node_of[i]].setdefault(node_of[j])
    out: list[int] = []
    for component in _components(list(members), edges):
      first = component[0]
      if len(component) > 1:
        inside = set(component)
        those = [i for i in order if node_of[i] in inside]
        # Names with a common part may still be scopes in one piece each.
        out.extend(those if whole else self.ordered(those, depth, True))
      elif isinstance(first, tuple):
        out.extend(self.ordered(members[first], len(first)))
      else:
        out.extend(members[first])
    return out

  def _node(self, i: int, depth: int, whole: bool) -> object:
    """Returns the scope of an equation one step further inside, or the equation if it is in no such scope."""
    path = self.paths[i]
    if len(path) <= depth:
      return i
    if whole:
      return next(end for end in self.ends[i] if len(end) > depth)
    return path[: depth + 1]


def _components(nodes: Sequence[object], edges: Mapping[object, Iterable[object]]) -> list[list[object]]:
  """Returns the strongly connected components of a graph, each after those that it needs (Tarjan's algorithm)."""
  index: dict[object, int] = {}
  low: dict[object, int] = {}
  on_stack: dict[object, None] = {}
  out: list[list[object]] = []
  for root in nodes:
    if root in index:
      continue
    index[root] = low[root] = len(index)
    on_stack[root] = None
    work = [(root, iter(list(edges[root])))]
    while work:
      node, rest = work[-1]
      following = next(rest, None)
      if following is not None:
        if following not in index:
          index[following] = low[following] = len(index)
          on_stack[following] = None
          work.append((following, iter(list(edges[following]))))
        elif following in on_stack:
          low[node] = min(low[node], index[following])
        continue
      work.pop()
      if work:
        low[work[-1][0]] = min(low[work[-1][0]], low[node])
      if low[node] == index[node]:
        component: list[object] = []
        while not component or component[-1] != node:
          component.append(on_stack.popitem()[0])
        out.append(component)
  return out
