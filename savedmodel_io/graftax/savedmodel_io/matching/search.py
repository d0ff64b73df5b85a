"""What each layer of a target can be made of: pairs of layers, and the layouts of their parameters."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from graftax.savedmodel_io.errors import MatchError
from graftax.savedmodel_io.matching.assignment import Pairs, align_by_use, likenesses, pair_by_names
from graftax.savedmodel_io.matching.layers import Layer, LayerParameter, leaf_layouts
from graftax.savedmodel_io.matching.layouts import Recipe, Step, axis_order
from graftax.savedmodel_io.matching.running import Functions
from graftax.savedmodel_io.matching.words import split_name
from graftax.savedmodel_io.parameters.renaming import Renaming

__all__ = ["Choice", "Way", "layer_ways", "search"]

_MAX_WAYS = 48
_ARRAYS = ("kernel", "table", "value")

Recipes = Mapping[str, Recipe]


@dataclass(frozen=True, slots=True)
class Way:
  """One way to make a layer: of which other layer, and each parameter's recipe."""

  source: Layer
  recipes: Recipes


@dataclass(frozen=True, slots=True)
class Choice:
  """What is known of one layer of the target.

  Attributes:
    target: the layer.
    ways: what it can be made of; one way is a decision.
    evidence: what decided, as far as it is decided.
    reason: why there are several ways.
  """

  target: Layer
  ways: tuple[Way, ...]
  evidence: tuple[str, ...]
  reason: str = ""

  def options(self) -> dict[str, tuple[Recipe, ...]]:
    """Returns name in the target -> the recipes of all ways."""
    names = dict.fromkeys(name for way in self.ways for name in way.recipes)
    return {name: tuple(dict.fromkeys(way.recipes[name] for way in self.ways if name in way.recipes)) for name in names}

  def decided(self) -> dict[str, tuple[Recipe, tuple[str, ...]]]:
    """Returns name in the target -> recipe and evidence, for parameters that are the same in all ways."""
    return {
      name: (recipes[0], self.evidence)
      for name, recipes in self.options().items()
      if len(recipes) == 1 and all(name in way.recipes for way in self.ways)
    }

  def undecided(self) -> dict[str, tuple[tuple[Recipe, ...], str]]:
    """Returns name in the target -> recipes and the reason."""
    decided = self.decided()
    return {name: (recipes, self.reason) for name, recipes in self.options().items() if name not in decided}


def search(
  sources: Sequence[Layer],
  targets: Sequence[Layer],
  functions: Functions | None,
  rows: Renaming,
) -> list[Choice]:
  """Returns what is known of each layer of the target that has a candidate."""
  choices = _by_table(sources, targets, rows.matched)
  dropped = {*rows.dropped}
  for _ in range(2):  # the second time, what the first one left of layers
    left_sources = _left(sources, _used(choices) | dropped)
    left_targets = _left(targets, {name for choice in choices for name in choice.options()})
    choices = [*choices, *_pair(left_sources, left_targets, functions)]
  choices = _keep_conventions(choices)
  rest_sources = _left(sources, _used(choices) | dropped)
  rest_targets = _left(targets, {name for choice in choices for name in choice.options()})
  return [*choices, *_open_choices(rest_sources, rest_targets)]


def _used(choices: Sequence[Choice]) -> set[str]:
  return {name for choice in choices for way in choice.ways for recipe in way.recipes.values() for name in recipe.names}


def _left(layers: Sequence[Layer], gone: set[str]) -> list[Layer]:
  """Returns layers with the parameters that are not gone."""
  found = []
  for layer in layers:
    leaves = {
      role: leaf for role, leaf in layer.leaves.items() if leaf.name not in gone and gone.isdisjoint(leaf.recipe.names)
    }
    if leaves:
      found.append(layer if len(leaves) == len(layer.leaves) else replace(layer, leaves=leaves))
  return found


def _by_table(sources: Sequence[Layer], targets: Sequence[Layer], rows: Mapping[str, str]) -> list[Choice]:
  old_leaves = {leaf.name: (layer, leaf) for layer in sources for leaf in layer.leaves.values()}
  new_leaves = {leaf.name: (layer, leaf) for layer in targets for leaf in layer.leaves.values()}
  choices = []
  for old, new in rows.items():
    if old in old_leaves:
      layer, leaf = old_leaves[old]
      target, place = new_leaves[new]
      one, other = replace(layer, leaves={leaf.role: leaf}), replace(target, leaves={place.role: place})
      ways = _leaf_ways(one, other, [(leaf, place)])
      if not ways:
        raise MatchError(
          f"match: table maps {old!r} of shape {leaf.shape} to {new!r} of shape {place.shape}, which no layout makes "
          "of it. Give rows for parameters that fit."
        )
      choices.append(Choice(other, ways, ("table",), "several layouts have this shape"))
  return choices


def _pair(sources: Sequence[Layer], targets: Sequence[Layer], functions: Functions | None) -> list[Choice]:
  if functions is not None:
    sources, targets = _in_order(sources, functions, "source"), _in_order(targets, functions, "target")
  scores = likenesses(sources, targets)
  named = pair_by_names(sources, targets, scores)
  ordered: Pairs = align_by_use(scores) if functions is not None else {}
  by_target: dict[int, dict[int, list[str]]] = {}
  for pairs, evidence in ((ordered, "order"), (named, "names")):
    for i, j in pairs.items():
      by_target.setdefault(j, {}).setdefault(i, []).append(evidence)
  # A layer that the two kinds of evidence give to different ones is undecided in all of these.
  rivals: dict[int, set[int]] = {}
  for j, found in by_target.items():
    for i in found:
      rivals.setdefault(i, set()).add(j)
  choices = []
  for j, found in by_target.items():
    ways = tuple(way for i in found for way in layer_ways(sources[i], targets[j]))
    alone = len(found) == 1 and all(len(rivals[i]) == 1 for i in found)
    reason = "several layouts have this shape" if alone else "names and the order of use disagree"
    if not alone:
      ways = tuple(way for i in _all_rivals(j, rivals, by_target) for way in layer_ways(sources[i], targets[j]))
    if ways:
      kinds = tuple(sorted(next(iter(found.values())))) if alone else ()
      choices.append(Choice(targets[j], ways[:_MAX_WAYS], kinds, reason))
  return choices


def _all_rivals(j: int, rivals: Mapping[int, set[int]], by_target: Mapping[int, Mapping[int, list[str]]]) -> list[int]:
  """Returns the layers that a target's layer, or one that competes with it, can be made of."""
  found: dict[int, None] = dict.fromkeys(by_target[j])
  for i in list(found):
    for other in sorted(rivals[i]):
      found.update(dict.fromkeys(by_target[other]))
  return list(found)


def _in_order(layers: Sequence[Layer], functions: Functions, side: str) -> list[Layer]:
  """Returns the layers that a function uses, in the order in which it does."""
  places = {layer.scope: getattr(functions, side).position(layer) for layer in layers}
  used = [layer for layer in layers if places[layer.scope] is not None]
  return sorted(used, key=lambda layer: places[layer.scope] or 0)


def _open_choices(sources: Sequence[Layer], targets: Sequence[Layer]) -> list[Choice]:
  """Returns all that fits the layers for which there is no evidence."""
  scores = likenesses(sources, targets)
  choices = []
  for j, target in enumerate(targets):
    fitting = sorted(map(int, np.flatnonzero(scores[:, j])), key=lambda i: -float(scores[i, j]))
    ways = tuple(way for i in fitting for way in layer_ways(sources[i], target))
    if ways:
      choices.append(Choice(target, ways[:_MAX_WAYS], (), f"{len(fitting)} layers fit"))
  # One layer that fits one other was not paired for a reason: never decide it here.
  return [_doubled(choice) if len(choice.ways) == 1 else choice for choice in choices]


def _doubled(choice: Choice) -> Choice:
  return replace(choice, ways=(*choice.ways, Way(choice.target, {})), reason="nothing but the shape speaks for it")


def layer_ways(source: Layer, target: Layer) -> tuple[Way, ...]:
  """Returns the ways to make one layer of another, in all layouts."""
  pairs = [(source.leaves[role], leaf) for role, leaf in target.leaves.items() if role in source.leaves]
  if source.main.role in _ARRAYS and target.main.role in _ARRAYS and source.main.role != target.main.role:
    pairs = [(one, other) for one, other in pairs if one is not source.main and other is not target.main]
    pairs.append((source.main, target.main))
  elif not pairs:
    pairs = [(source.main, target.main)]
  return _leaf_ways(source, target, pairs)


def _leaf_ways(source: Layer, target: Layer, pairs: Sequence[tuple[LayerParameter, LayerParameter]]) -> tuple[Way, ...]:
  both = source.words | target.words
  layouts = {new: [(old, steps) for steps in leaf_layouts(old, new, both)] for old, new in dict.fromkeys(pairs)}
  layouts = {new: found for new, found in layouts.items() if found}
  if not layouts:
    return ()
  ways = []
  for variant in range(max(len(found[0][0].variants) for found in layouts.values())):
    for chosen in itertools.product(*layouts.values()):
      recipes = {}
      for new, (old, steps) in zip(layouts, chosen, strict=True):
        recipes[new.name] = _extended(old.variants[min(variant, len(old.variants) - 1)], steps)
      ways.append(Way(source, recipes))
  return tuple(ways[:_MAX_WAYS])


def _extended(recipe: Recipe, steps: tuple[Step, ...]) -> Recipe:
  if recipe.axis is None and not recipe.after:
    return replace(recipe, before=(*recipe.before, *steps))
  return replace(recipe, after=(*recipe.after, *steps))


def _keep_conventions(choices: Sequence[Choice]) -> list[Choice]:
  """Leaves out the layouts that no other parameter of such a name in the target has."""
  known: dict[tuple[str, int, int], set[tuple[int, ...]]] = {}
  for choice in choices:
    for name, recipes in choice.options().items():
      key = _convention(choice.target, name)
      if key is not None and len({_axis_order(recipe) for recipe in recipes}) == 1:
        known.setdefault(key, set()).add(_axis_order(recipes[0]))
  return [_keep_convention(choice, known) for choice in choices]


def _convention(target: Layer, name: str) -> tuple[str, int, int] | None:
  leaf = next((leaf for leaf in target.leaves.values() if leaf.name == name), None)
  if leaf is None or leaf.role not in _ARRAYS:
    return None
  return "_".join(split_name(name.rpartition("/")[2])), len(leaf.shape), sum(size != 1 for size in leaf.shape)


def _axis_order(recipe: Recipe) -> tuple[int, ...]:
  return axis_order((*recipe.before, *recipe.after))


def _keep_convention(choice: Choice, known: Mapping[tuple[str, int, int], set[tuple[int, ...]]]) -> Choice:
  ways = list(choice.ways)
  for name, recipes in choice.options().items():
    key = _convention(choice.target, name)
    if len(recipes) < 2 or key is None:
      continue
    found = known.get(key, set())
    if len(found) == 1:
      kept = [way for way in ways if name not in way.recipes or {_axis_order(way.recipes[name])} == found]
      ways = kept or ways
  return replace(choice, ways=tuple(ways))
