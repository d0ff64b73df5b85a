"""Gives equations that repeat numbered scopes, so that grouping makes one function of them and folding a loop.

Layers of a flat model are numbered one by one, as in `dense_4`, so that no scope says where a block of a transformer
ends. Here the program does: its equations, in the order in which they are written, are the same again and again.
"""

import os
from collections.abc import Iterator, Sequence

import numpy as np

from graftax.convert.source_code.grouping import scheduled, tokens, without_number
from graftax.convert.source_code.program import Block, Equation, Literal, Value, uses

__all__ = ["scope_repeats"]

# Equations of a block that is worth a function, if it is there twice, and if it is there more often.
_MIN_TWICE, _MIN_OFTEN = 12, 6
_MAX_EQUATIONS = 8_000
# So many borders are tried between repeats, those that the fewest values pass first.
_MOST_SHIFTS = 16
# So many repeats are looked at closely, so that a program made for it cannot take long.
_MOST_TRIES = 64
# So often the equations before and after repeats are searched again.
_MOST_DEPTH = 6
# If more of the equations have numbered names for their parts, these say what belongs together.
_MOST_IN_SCOPES = 0.5
_NAMES = ("block", "stage", "section")


def scope_repeats(block: Block) -> None:
  """Gives the runs of equal equations of a program scopes `block/0`, `block/1` and so on, in place.

  Runs that have a scope each already keep theirs.
  """
  equations = scheduled(block)
  if len(equations) <= _MAX_EQUATIONS:
    _scope(equations, list(_NAMES))


def _scope(equations: Sequence[Equation], names: list[str], depth: int = 0) -> None:
  """Finds the longest repeats of equations, and then those before and after them."""
  found = _longest(equations) if names and depth < _MOST_DEPTH else None
  if found is None:
    return
  start, period, count = found
  repeats = _cut(equations, start, period, count)
  if not _have_scopes(repeats):
    prefix = os.path.commonprefix([equation.scope for equation in equations[start : start + period * count]])
    name = names.pop(0)
    for number, repeat in enumerate(repeats):
      for equation in repeat:
        equation.scope = (*prefix, name, str(number), *equation.scope[len(prefix) :])
  _scope(equations[:start], names, depth + 1)
  _scope(equations[start + period * count :], names, depth + 1)


def _longest(equations: Sequence[Equation]) -> tuple[int, int, int] | None:
  """Returns where repeats begin, how many equations one has, and how many there are; None if there are none."""
  numbers: dict[object, int] = {}
  signs = np.array([numbers.setdefault(_sign(equation), len(numbers)) for equation in equations])
  crossing = _crossing(equations)
  best, most, tries = None, 0, _MOST_TRIES
  for period in range(_MIN_OFTEN, len(equations) // 2 + 1):
    for start, stop in _runs(signs[period:] == signs[:-period], period):
      count = (stop - start) // period + 1
      if (count == 2 and period < _MIN_TWICE) or count * period <= most:
        continue
      tries -= 1
      if tries < 0:
        return best
      shifted = _narrowest(equations, crossing, start, period, stop + period)
      if shifted is not None:
        best, most = (shifted[0], period, shifted[1]), count * period
  return best


def _cut(equations: Sequence[Equation], start: int, period: int, count: int) -> list[Sequence[Equation]]:
  return [equations[start + period * i : start + period * (i + 1)] for i in range(count)]


def _runs(equal: np.ndarray, least: int) -> list[tuple[int, int]]:
  """Returns where runs of at least so many true elements begin and end."""
  edges = np.flatnonzero(np.diff(np.concatenate([[False], equal, [False]]).astype(np.int8)))
  starts, stops = edges[::2], edges[1::2]
  is_long = stops - starts >= least
  return list(zip(starts[is_long].tolist(), stops[is_long].tolist(), strict=True))


def _crossing(equations: Sequence[Equation]) -> np.ndarray:
  """Returns how many values are defined before each position and read after it, `[len(equations) + 1]`."""
  position = {value: i for i, equation in enumerate(equations) for value in equation.outputs}
  last = {value: i for i, e in enumerate(equations) for value in _read(e) if value in position}
  steps = np.zeros(len(equations) + 2, int)
  for value, end in last.items():
    steps[position[value] + 1] += 1
    steps[end + 1] -= 1
  return np.cumsum(steps)[:-1]


def _narrowest(
  equations: Sequence[Equation], crossing: np.ndarray, start: int, period: int, stop: int
) -> tuple[int, int] | None:
  """Returns where the repeats in a range begin so that the fewest values pass their borders, and their number."""

  def width(shift: int) -> int:
    return int(crossing[start + shift + period : stop : period].max())

  counts = {s: (stop - start - s) // period for s in range(period) if (stop - start - s) // period >= 2}
  for shift in sorted(counts, key=lambda s: (width(s), s))[:_MOST_SHIFTS]:
    repeats = _cut(equations, start + shift, period, counts[shift])
    is_often = counts[shift] > 2 or period >= _MIN_TWICE
    if is_often and all(map(_has_layers, repeats)) and not _cut_scopes(repeats):
      return start + shift, counts[shift]
  return None


def _has_layers(repeat: Sequence[Equation]) -> bool:
  """Returns whether a repeat reads two parameters or more."""
  return len({value for equation in repeat for value in _read(equation) if value.parameter is not None}) > 1


def _have_scopes(repeats: Sequence[Sequence[Equation]]) -> bool:
  """Returns whether each repeat has a scope of its own, or names of scopes say what belongs together."""
  paths = [[path for equation in repeat if (path := _path(equation))] for repeat in repeats]
  common = len(os.path.commonprefix([path for some in paths for path in some]))
  own = [tuple(os.path.commonprefix(some)) for some in paths]
  if len(set(own)) == len(own) and all(len(prefix) > common for prefix in own):
    return True
  scopes = [equation.scope for repeat in repeats for equation in repeat]
  depth = len(os.path.commonprefix(scopes))
  return sum(any(_numbered_parts(scope, depth)) for scope in scopes) > _MOST_IN_SCOPES * len(scopes)


def _cut_scopes(repeats: Sequence[Sequence[Equation]]) -> bool:
  """Returns whether a scope, or the first part of a name such as `stage2_block1`, is in more than one repeat."""
  common = len(os.path.commonprefix([equation.scope for repeat in repeats for equation in repeat]))
  scopes = [{scope for equation in repeat for scope in _outer(equation.scope, common)} for repeat in repeats]
  return len(set().union(*scopes)) < sum(map(len, scopes))


def _outer(scope: tuple[str, ...], common: int) -> Iterator[tuple[str, ...]]:
  """Yields the scopes around an equation inside of the `common` ones, and the parts of names that are numbered."""
  yield from (scope[: depth + 1] for depth in range(common, len(scope)))
  yield from _numbered_parts(scope, common)


def _numbered_parts(scope: tuple[str, ...], common: int) -> Iterator[tuple[str, ...]]:
  """Yields the beginnings of names that end in a number, such as `block_2` of `block_2_conv`."""
  for depth, name in enumerate(scope[common:], common):
    parts = tokens(name)
    # Keras numbers its layers and calls of them, so that `dense_1_1` is not a part of `dense_1`.
    for i in range(1, len(parts)):
      if without_number(parts[i - 1]) != parts[i - 1] and not parts[i].isdigit():
        yield (*scope[:depth], *parts[:i])


def _path(equation: Equation) -> tuple[str, ...]:
  return tuple(part for name in equation.scope for part in tokens(name))


def _read(equation: Equation) -> Iterator[Value]:
  """Yields the values that an equation reads, its bodies included."""
  yield from uses(Block([], [equation], []))


def _sign(equation: Equation) -> object:
  """Returns what equal equations share."""
  inputs = tuple(
    x.array.tobytes() if isinstance(x, Literal) else (len(x.shape), str(x.dtype), x.parameter is not None)
    for x in equation.inputs
  )
  results = tuple((len(x.shape), str(x.dtype)) for x in equation.outputs)
  return equation.op, repr(sorted(equation.settings.items(), key=str)), inputs, results, tuple(equation.bodies)
