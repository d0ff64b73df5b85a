"""Finds a minimum vertex cut of a directed graph without cycles."""

from collections import deque
from collections.abc import Hashable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TypeVar

__all__ = ["minimum_vertex_cut"]

_Vertex = TypeVar("_Vertex", bound=Hashable)
# Each vertex is an edge from its entrance to its exit. These are the source of all starts and the sink of all ends.
_SOURCE, _SINK = (None, "source"), (None, "sink")


def minimum_vertex_cut(
  starts: Sequence[_Vertex], following: Mapping[_Vertex, Sequence[_Vertex]], ends: AbstractSet[_Vertex]
) -> tuple[_Vertex, ...]:
  """Returns the smallest set of vertices that cuts all paths from starts to ends, as near the starts as possible.

  Args:
    starts: first vertices of paths.
    following: successors of each vertex, without cycles.
    ends: last vertices of paths; can contain starts and vertices in the middle.

  Example:
    >>> minimum_vertex_cut(["a", "b"], {"a": ["c"], "b": ["c"], "c": ["d"]}, {"d"})
    ('c',)
    >>> minimum_vertex_cut(["a", "b"], {"a": ["c"], "b": ["c"]}, {"c", "a"})
    ('a', 'b')
  """
  # By Menger's theorem: every vertex has capacity 1, so the maximum flow is the size of the cut.
  residual: dict[Hashable, dict[Hashable, int]] = {_SOURCE: {}, _SINK: {}}
  unbounded = len(starts) + 1

  def connect(origin: Hashable, target: Hashable, capacity: int) -> None:
    residual.setdefault(origin, {})[target] = capacity
    residual.setdefault(target, {}).setdefault(origin, 0)

  vertices = list(
    dict.fromkeys([*starts, *following, *(vertex for targets in following.values() for vertex in targets)])
  )
  for vertex in vertices:
    connect((vertex, "in"), (vertex, "out"), 1)
    for target in following.get(vertex, ()):
      connect((vertex, "out"), (target, "in"), unbounded)
    if vertex in ends:
      connect((vertex, "out"), _SINK, unbounded)
  for vertex in starts:
    connect(_SOURCE, (vertex, "in"), unbounded)
  predecessors = _search(residual)
  while _SINK in predecessors:
    step: Hashable = _SINK
    while step != _SOURCE:
      residual[predecessors[step]][step] -= 1
      residual[step][predecessors[step]] += 1
      step = predecessors[step]
    predecessors = _search(residual)
  return tuple(vertex for vertex in vertices if (vertex, "in") in predecessors and (vertex, "out") not in predecessors)


def _search(residual: Mapping[Hashable, Mapping[Hashable, int]]) -> dict[Hashable, Hashable]:
  """Returns the nodes that can still be reached from the source, each with its predecessor."""
  predecessors: dict[Hashable, Hashable] = {_SOURCE: _SOURCE}
  pending: deque[Hashable] = deque([_SOURCE])
  while pending and _SINK not in predecessors:
    step = pending.popleft()
    for target, left in residual[step].items():
      if left > 0 and target not in predecessors:
        predecessors[target] = step
        pending.append(target)
  return predecessors
