"""Which layer of two models differs first, and by how much."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from graftax.savedmodel_io.matching.layers import Layer
from graftax.savedmodel_io.matching.layouts import Array, Recipe
from graftax.savedmodel_io.matching.running import Functions, difference, parameter_names
from graftax.savedmodel_io.matching.uses import nearest_followers

__all__ = ["Comparison", "LayerDifference", "comparer"]


@dataclass(frozen=True, slots=True)
class LayerDifference:
  """What comes out after one layer, on both sides.

  Attributes:
    source: the layer's name on TensorFlow's side.
    target: its name in the target.
    difference: of the largest number, relative; None if the two have different sizes, or no function uses the layer.
  """

  source: str
  target: str
  difference: float | None


@dataclass(frozen=True, slots=True)
class Comparison:
  """Both functions on the same data.

  Attributes:
    layers: in the order in which TensorFlow's side uses them.
    outputs: the difference of each output, relative to its largest number; None if the sizes are different.
    tolerance: the largest difference that counts as none.
    alone: names in the target of layers that differ although nothing that their results go to does. They are computed
      in another form, as a sum in another order, or what differs has no effect, as the bias of attention's keys.
    unused: parameters that TensorFlow's function does not use, so that nothing shows whether their place is right.
  """

  layers: tuple[LayerDifference, ...]
  outputs: tuple[float | None, ...]
  tolerance: float
  alone: tuple[str, ...]
  unused: tuple[str, ...]

  @property
  def is_equal(self) -> bool:
    """Whether all outputs are the same, and what comes out after each layer."""
    return self._same_outputs and self.first is None

  @property
  def _same_outputs(self) -> bool:
    return bool(self.outputs) and all(gap is not None and gap <= self.tolerance for gap in self.outputs)

  @property
  def first(self) -> LayerDifference | None:
    """The first layer after which the two differ, those that differ alone left out; or None."""
    return next((layer for layer in self._different if layer.target not in self.alone), None)

  @property
  def _different(self) -> list[LayerDifference]:
    return [layer for layer in self.layers if (layer.difference or 0.0) > self.tolerance]

  def __str__(self) -> str:
    gaps = ", ".join("not comparable" if gap is None else f"{gap:.1e}" for gap in self.outputs)
    lines = [f"outputs {'are equal' if self._same_outputs else 'differ'}: {gaps}"]
    if self.first is not None:
      place = self.layers.index(self.first)
      lines.append(f"first after {self.first.target} (of {self.first.source}): {self.first.difference:.1e}")
      earlier = [layer for layer in self.layers[:place] if layer.target not in self.alone]
      before = [layer for layer in earlier if layer.difference is not None]
      lines.append(
        f"equal after {len(before)} layers before it{f', the last one {before[-1].target}' if before else ''}"
      )
      if len(before) < len(earlier):
        names = ", ".join(layer.target for layer in earlier if layer.difference is None)
        lines.append(f"not comparable, before it: {names}")
    if self.alone:
      lines.append(f"differ, but nothing after them does: {', '.join(self.alone)}")
    if self.unused:
      lines.append(f"not used by TensorFlow's function: {', '.join(self.unused)}")
    return "\n".join(lines)


def comparer(
  functions: Functions,
  params: Mapping[str, Array],
  sources: Sequence[Layer],
  targets: Sequence[Layer],
  tolerance: float,
) -> Callable[[Mapping[str, Array], Mapping[str, Recipe]], Comparison]:
  """Returns a function that compares what comes out after each layer of the target, for its values and their recipes.

  Both functions are compiled once.
  """
  targets = sorted(targets, key=lambda layer: functions.target.position(layer) or 0)
  owners = {name: layer for layer in sources for leaf in layer.leaves.values() for name in leaf.recipe.names}
  source_numbers = {layer.scope: functions.source.result(layer) for layer in sources}
  target_numbers = {layer.scope: functions.target.result(layer) for layer in targets}
  places = {layer.scope: functions.source.position(layer) or 0 for layer in sources}
  wanted = [number for number in source_numbers.values() if number is not None]
  expected, inside = functions.source.runner(functions.args, wanted)(params)
  run = functions.target.runner(functions.args, [number for number in target_numbers.values() if number is not None])
  _, followers = nearest_followers(functions.target.function.followers([parameter_names(layer) for layer in targets]))
  unused = tuple(name for name in owners if name not in functions.source.function.uses)

  def compare(values: Mapping[str, Array], recipes: Mapping[str, Recipe]) -> Comparison:
    outputs, found = run(values)
    layers = []
    gaps_by_target: dict[int, float | None] = {}
    for index, target in enumerate(targets):
      names = [recipes[leaf.name].names[0] for leaf in (target.main, *target.leaves.values()) if leaf.name in recipes]
      if not names or names[0] not in owners:
        continue
      source = owners[names[0]]
      one, other = source_numbers[source.scope], target_numbers[target.scope]
      gap = None if one is None or other is None else difference(inside[one], found[other])
      layers.append(LayerDifference(source.scope, target.scope, gap))
      gaps_by_target[index] = gap
    layers.sort(key=lambda layer: places[layer.source])
    gaps = [difference(one, other, ordered=True) for one, other in zip(expected, outputs, strict=False)]
    if len(expected) != len(outputs):
      gaps.append(None)
    gaps_by_target[len(targets)] = max((float("inf") if gap is None else gap for gap in gaps), default=None)
    return Comparison(tuple(layers), tuple(gaps), tolerance, _alone(gaps_by_target), unused)

  def _alone(gaps: Mapping[int, float | None]) -> tuple[str, ...]:
    """Returns the layers that differ although all that their results go to agrees."""

    def agree(some: Iterable[int]) -> bool:
      """Returns whether layers agree; of one that cannot be compared, whether those after it do."""
      left, seen = [*some], set[int]()
      while left:
        index = left.pop()
        gap = gaps.get(index)
        if gap is None and index not in seen and index < len(targets):
          seen.add(index)
          left += followers[index]
        elif (gap or 0.0) > tolerance:
          return False
      return True

    return tuple(
      target.scope
      for index, target in enumerate(targets)
      if (gaps.get(index) or 0.0) > tolerance and followers[index] and agree(followers[index])
    )

  return compare
