"""Ways between which nothing else decides, tried: the right one gives what TensorFlow's layer gives."""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from graftax.savedmodel_io.matching.layouts import Array, Recipe, Step
from graftax.savedmodel_io.matching.running import Functions, Runner, difference, parameter_names
from graftax.savedmodel_io.matching.search import Choice, Way, layer_ways
from graftax.savedmodel_io.matching.uses import nearest_followers

__all__ = ["try_ways"]

# How many of the next layers are looked at if a layer's own numbers do not tell.
_LATER = 3
# Layers that were taken for each other are this many layers apart at most, and so many exchanges are tried.
_REACH = 12
_MAX_EXCHANGES = 200


def try_ways(
  choices: Sequence[Choice],
  functions: Functions,
  params: Mapping[str, Array],
  own: Mapping[str, Array],
  tolerance: float,
) -> tuple[list[Choice], frozenset[str]]:
  """Returns the choices with those decided that a run decides, and names of parameters that a run speaks against.

  The choices have "run" as evidence where it agrees. A layer's own numbers tell its layout. They do not tell which of
  several layers with the same input it is, so a layer is confirmed only if the layers after it agree, too.

  Args:
    choices: of the layers of the target.
    functions: both functions.
    params: TensorFlow's parameters, with noise.
    own: all values of the target.
    tolerance: the largest difference that counts as none.
  """
  if not choices:
    return [], frozenset()
  position = functions.target.position
  ordered = sorted(choices, key=lambda choice: position(choice.target) or 0)
  trials = _Trials(functions, params, own, ordered, tolerance)
  trials.decide_open()
  trials.exchange()
  found = trials.confirmed(ordered)
  return found, trials.contradicted(found)


@dataclass(frozen=True, slots=True)
class _Outcome:
  """One run: whether each layer agrees, None if that cannot be said, and whether all outputs do."""

  layers: tuple[bool | None, ...]
  outputs: bool

  def first(self) -> int:
    """Returns the first layer that does not agree, or the number of layers; the outputs come after them."""
    wrong = [k for k, agrees in enumerate(self.layers) if agrees is False]
    return wrong[0] if wrong else len(self.layers) + int(self.outputs)


class _Trials:
  """The layers of the target, in the order of use, with the ways that are taken for now."""

  def __init__(
    self,
    functions: Functions,
    params: Mapping[str, Array],
    own: Mapping[str, Array],
    choices: Sequence[Choice],
    tolerance: float,
  ):
    self.params, self.own, self.tolerance = params, own, tolerance
    self.made: dict[str, tuple[Recipe, Array]] = {}
    self.orders: set[tuple[Step, ...]] = set()  # that fused kernels of layers that are decided have
    self.ways = [choice.ways[0] for choice in choices]
    self.evidence = [choice.evidence for choice in choices]
    self.open = {k for k, choice in enumerate(choices) if len(choice.ways) > 1}
    self.choices = choices
    self.numbers = [functions.target.result(choice.target) for choice in choices]
    self.results = {id(way.source): functions.source.result(way.source) for choice in choices for way in choice.ways}
    wanted = [number for number in self.results.values() if number is not None]
    self.expected_outputs, self.expected = functions.source.runner(functions.args, wanted)(params)
    self.run: Runner = functions.target.runner(functions.args, [n for n in self.numbers if n is not None])
    names = [parameter_names(choice.target) for choice in choices]
    self.reached, self.followers = nearest_followers(functions.target.function.followers(names))

  def outcome(self, ways: Mapping[int, Way]) -> _Outcome:
    """Runs the target with some layers made in other ways."""
    taken = [ways.get(k, way) for k, way in enumerate(self.ways)]
    values = dict(self.own)
    for way in taken:
      for name, recipe in way.recipes.items():
        values[name] = self._made(name, recipe)
    outputs, found = self.run(values)
    gaps = [difference(one, other, ordered=True) for one, other in zip(self.expected_outputs, outputs, strict=False)]
    same = len(outputs) == len(self.expected_outputs) and all(gap is not None and gap <= self.tolerance for gap in gaps)
    return _Outcome(tuple(self._agrees(k, way, found) for k, way in enumerate(taken)), same)

  def _made(self, name: str, recipe: Recipe) -> Array:
    """Returns a parameter of the target; that of the last run if it is made in the same way."""
    if name not in self.made or self.made[name][0] != recipe:
      self.made[name] = recipe, recipe.make(self.params).astype(self.own[name].dtype)
    return self.made[name][1]

  def _agrees(self, k: int, way: Way, found: Mapping[int, np.ndarray]) -> bool | None:
    wanted, number = self.results.get(id(way.source)), self.numbers[k]
    gap = None if wanted is None or number is None else difference(self.expected[wanted], found[number])
    return None if gap is None else gap <= self.tolerance

  def decide_open(self) -> None:
    """Decides what can be decided now; what comes after a layer that is wrong cannot."""
    for k in sorted(self.open):
      self._decide(k)

  def _decide(self, k: int) -> None:
    """Takes the way of a layer with which it agrees; of several, the one with which most of the next layers do."""
    if k not in self.open:
      return
    later = [j for j in range(k + 1, len(self.ways)) if j not in self.open][:_LATER]
    best, most = None, -1
    for ways in self._candidates(k):
      outcome = self.outcome(ways)
      number = sum(outcome.layers[j] is True for j in later)
      if number > most and all(outcome.layers[j] is not False for j in ways):
        best, most = ways, number
      if later and most == len(later):
        break
    if best is not None:  # others may be as good: `exchange` may take one of them, and `confirmed` has the last word
      for j, way in best.items():
        self.ways[j] = way
        self.orders.add(_order(way))
        self.open.discard(j)

  def _parts(self, k: int) -> list[int]:
    """Returns a layer and those with the same order: other parts of one kernel, or other recurrent cells."""
    alike = [j for j in sorted(self.open) if len(self.choices[j].ways) == len(self.choices[k].ways)]
    if self.choices[k].target.is_cell:
      return [j for j in alike if self.choices[j].target.is_cell]
    if not _is_part(self.ways[k]):
      return [k]
    return [j for j in alike if _is_part(self.ways[j]) and _names(self.ways[j]) == _names(self.ways[k])]

  def _candidates(self, k: int) -> list[dict[int, Way]]:
    """Returns ways to make a layer and those with the same order together, and then a cell alone.

    Orders that other layers have come first.
    """
    parts = self._parts(k)
    together = [
      dict(zip(parts, ways, strict=True)) for ways in zip(*(self.choices[j].ways for j in parts), strict=True)
    ]
    if self.choices[k].target.is_cell and len(parts) > 1:
      together.extend({k: way} for way in self.choices[k].ways)
    taken = set[str]().union(*(_names(way) for j, way in enumerate(self.ways) if j not in self.open))
    free = [ways for ways in together if all(way.recipes and taken.isdisjoint(_names(way)) for way in ways.values())]
    return sorted(free, key=lambda ways: not any(_order(way) in self.orders for way in ways.values()))

  def exchange(self) -> None:
    """Exchanges layers for each other if more of them then agree."""
    tries, current = 0, self.outcome({})
    while current.first() <= len(self.ways):
      place = current.first()
      for pair in self._with_open(place, self._exchanges(place)):
        tries += 1
        if tries > _MAX_EXCHANGES:
          return
        outcome = self.outcome(pair)
        compared = all(outcome.layers[k] or current.layers[k] is None for k in pair)
        if compared and outcome.first() > place:
          for k, way in pair.items():
            self.ways[k] = way
            self.evidence[k] = () if k != place else self.evidence[k]
            self.open.discard(k)
          self.decide_open()
          current = self.outcome({})
          break
      else:
        return

  def _exchanges(self, place: int) -> Iterator[dict[int, Way]]:
    """Yields exchanges of layers near one, those of the nearest pairs first."""
    near = [k for k in range(max(0, place - _REACH), min(len(self.ways), place + _REACH)) if k not in self.open]
    found: list[dict[int, Way]] = []
    for k in near:
      for j in near:
        if j > k and not {"names", "table"} & {*self.evidence[k], *self.evidence[j]}:
          ways = [(one, other) for one in self._other(k, j) for other in self._other(j, k)]
          found.extend({k: one, j: other} for one, other in ways[:4])
    yield from sorted(found, key=lambda pair: sum(abs(k - place) for k in pair))
    yield from self._permutations([k for k in near if not {"names", "table"} & {*self.evidence[k]}])

  def _permutations(self, near: Sequence[int]) -> Iterator[dict[int, Way]]:
    """Yields the exchanges of three or four parallel layers in which none keeps its place."""
    pairs = {(k, j) for k, j in itertools.combinations(near, 2) if self._are_siblings(k, j)}
    for group in itertools.chain(itertools.combinations(near, 3), itertools.combinations(near, 4)):
      if not pairs.issuperset(itertools.combinations(group, 2)):
        continue
      for other in itertools.permutations(group):
        if all(k != j for k, j in zip(group, other, strict=True)):
          yield {k: self._other(k, j)[0] for k, j in zip(group, other, strict=True)}

  def _with_open(self, place: int, exchanges: Iterable[dict[int, Way]]) -> Iterator[dict[int, Way]]:
    """Yields exchanges, each with every way of the layer after them if that is open."""
    if place not in self.open:
      yield from exchanges
      return
    ways = [way for way in self.choices[place].ways if way.recipes]
    yield from ({**pair, place: way} for pair in exchanges if place not in pair for way in ways)

  def _other(self, k: int, j: int) -> list[Way]:
    """Returns the ways to make layer k of what j is made of, those with the same steps as now first."""
    steps = [recipe.before for recipe in self.ways[k].recipes.values()]
    ways = layer_ways(self.ways[j].source, self.choices[k].target)
    for way in ways:
      self.results.setdefault(id(way.source), self.results[id(self.ways[j].source)])
    same = [way for way in ways if way.recipes.keys() == self.ways[k].recipes.keys()]
    return sorted(same, key=lambda way: [recipe.before for recipe in way.recipes.values()] != steps)

  def confirmed(self, choices: Sequence[Choice]) -> list[Choice]:
    """Returns the choices as they are now: decided, decided with "run", or open."""
    outcome = self.outcome({})
    found = []
    for k, choice in enumerate(choices):
      way = self.ways[k]
      agrees = k not in self.open and outcome.layers[k] is not False and self._later_agree(k, outcome)
      if agrees and not self._exchange_agrees(k, outcome):
        found.append(replace(choice, ways=(way,), evidence=(*self.evidence[k], "run")))
        continue
      if self._only_layouts(choice, outcome, k):
        choice = replace(choice, ways=(way,))
      siblings = [] if {"names", "table"} & {*choice.evidence} or len(choice.ways) > 1 else self._siblings(k)
      others = tuple(other for j in siblings for other in layer_ways(choices[j].ways[0].source, choice.target))
      reason = "layers that go to the same place fit, too" if others else choice.reason
      found.append(replace(choice, ways=(*choice.ways, *others), reason=reason))
    return found

  def contradicted(self, choices: Sequence[Choice]) -> frozenset[str]:
    """Returns the parameters in use that no run confirms, if the outputs differ with all layers as they are now."""
    if self.outcome({}).outputs:
      return frozenset()
    return frozenset(
      name
      for choice, number in zip(choices, self.numbers, strict=True)
      if number is not None and "run" not in choice.evidence
      for name in choice.options()
    )

  def _exchange_agrees(self, k: int, outcome: _Outcome) -> bool:
    """Returns whether a layer exchanged for a parallel one agrees as well, so that a run tells nothing about them."""
    if {"names", "table"} & {*self.evidence[k]}:
      return False
    for j in self._siblings(k):
      other = self.outcome({k: self._other(k, j)[0], j: self._other(j, k)[0]})
      wrong = other.layers[k] is False or other.layers[j] is False or other.outputs != outcome.outputs
      if not wrong and self._later_agree(k, other):
        return True
    return False

  def _only_layouts(self, choice: Choice, outcome: _Outcome, k: int) -> bool:
    """Returns whether the ways differ in layout alone, and the layer's own numbers tell which one is right."""
    sources = {id(way.source) for way in choice.ways}
    one = (
      len(sources) == 1 and choice.ways[0].source.leaves and len(next(iter(choice.ways[0].recipes.values())).names) == 1
    )
    return bool(one) and k not in self.open and outcome.layers[k] is True

  def _later_agree(self, k: int, outcome: _Outcome) -> bool:
    """Returns whether all that a layer's result goes to agrees; what cannot be compared is looked through."""
    seen, todo = {k}, list(self.followers[k])
    agreed = False
    while todo:
      j = todo.pop()
      if j in seen:
        continue
      seen.add(j)
      agrees = outcome.outputs if j == len(self.ways) else outcome.layers[j]
      if agrees is False:
        return False
      if agrees is None:
        todo.extend(self.followers[j])
      agreed = agreed or agrees is True
    return agreed

  def _siblings(self, k: int) -> list[int]:
    """Returns the layers near one that could be exchanged for it."""
    near = range(max(0, k - _REACH), min(len(self.ways), k + _REACH))
    return [j for j in near if j != k and self._are_siblings(k, j)]

  def _are_siblings(self, k: int, j: int) -> bool:
    """Returns whether two layers can be exchanged for each other, and their results go to the same layer."""
    return self._are_parallel(k, j) and bool(self._other(k, j)) and bool(self._other(j, k))

  def _are_parallel(self, k: int, j: int) -> bool:
    """Returns whether results of two layers go to the same one, and neither of them to the other."""
    return bool(self.followers[k] & self.followers[j]) and j not in self.reached[k] and k not in self.reached[j]


def _names(way: Way) -> set[str]:
  return {name for recipe in way.recipes.values() for name in recipe.names}


def _is_part(way: Way) -> bool:
  return any(name == "part" for recipe in way.recipes.values() for name, _ in recipe.before)


def _order(way: Way) -> tuple[Step, ...]:
  """Returns in which order a way takes the parts of a fused kernel."""
  steps = (step for recipe in way.recipes.values() for step in (*recipe.before, *recipe.after))
  return tuple((name, numbers[1:]) for name, numbers in steps if name == "interleave")
