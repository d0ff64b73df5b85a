"""Finds a minimum vertex cut of a directed graph without cycles."""

from collections import deque
from collections.abc import Hashable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TypeVar

__all__ = ["narrowest_cut"]

_Place = TypeVar("_Place", bound=Hashable)
# A place is passed from its entrance to its exit; these are the entrance of all starts and the exit of all ends.
_SOURCE, _SINK = (None, "source"), (None, "sink")


def narrowest_cut(
  starts: Sequence[_Place], following: Mapping[_Place, Sequence[_Place]], ends: AbstractSet[_Place]
) -> tuple[_Place, ...]:
  """Returns the smallest set of places that all paths from a start to an end pass; of several, that nearest the starts.

  Args:
    starts: first places of paths.
    following: successors of each place, without cycles.
    ends: last places of paths; can contain starts and places in the middle.

  Example:
    >>> narrowest_cut(["a", "b"], {"a": ["c"], "b": ["c"], "c": ["d"]}, {"d"})
    ('c',)
    >>> narrowest_cut(["a", "b"], {"a": ["c"], "b": ["c"]}, {"c", "a"})
    ('a', 'b')
  """
  # By Menger's theorem: every place has capacity 1, so the maximum flow is the size of the cut.
  room: dict[Hashable, dict[Hashable, int]] = {_SOURCE: {}, _SINK: {}}
  unbounded = len(starts) + 1

  def connect(origin: Hashable, target: Hashable, size: int) -> None:
    room.setdefault(origin, {})[target] = size
    room.setdefault(target, {}).setdefault(origin, 0)

  places = list(dict.fromkeys([*starts, *following, *(place for targets in following.values() for place in targets)]))
  for place in places:
    connect((place, "in"), (place, "out"), 1)
    for target in following.get(place, ()):
      connect((place, "out"), (target, "in"), unbounded)
    if place in ends:
      connect((place, "out"), _SINK, unbounded)
  for place in starts:
    connect(_SOURCE, (place, "in"), unbounded)
  came_from = _search(room)
  while _SINK in came_from:
    step: Hashable = _SINK
    while step != _SOURCE:
      room[came_from[step]][step] -= 1
      room[step][came_from[step]] += 1
      step = came_from[step]
    came_from = _search(room)
  return tuple(place for place in places if (place, "in") in came_from and (place, "out") not in came_from)


def _search(room: Mapping[Hashable, Mapping[Hashable, int]]) -> dict[Hashable, Hashable]:
  """Returns the nodes that can still be reached from the source, each with its predecessor."""
  came_from: dict[Hashable, Hashable] = {_SOURCE: _SOURCE}
  pending: deque[Hashable] = deque([_SOURCE])
  while pending and _SINK not in came_from:
    step = pending.popleft()
    for target, left in room[step].items():
      if left > 0 and target not in came_from:
        came_from[target] = step
        pending.append(target)
  return came_from
