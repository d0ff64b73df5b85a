"""Layers that one side has as one and the other as several: the projections to query, key and value."""

import dataclasses
import math
import re
from collections.abc import Collection, Sequence

from graftax.savedmodel_io.matching.layers import Layer, LayerParameter
from graftax.savedmodel_io.matching.layouts import Recipe, Step
from graftax.savedmodel_io.matching.words import split_name

__all__ = ["with_fused_layers"]

_PARTS = ("query", "key", "value")
# The most heads that are tried if no shape tells how many there are, and the size that most models' heads have.
_MAX_HEADS = 64
_USUAL_HEAD = 64
# Letters and words in names of layers that hold all three.
_FUSED = re.compile(r"qkv|c_attn|in_proj|query_key_value|attn_in|kqv")


def with_fused_layers(sources: Sequence[Layer], targets: Sequence[Layer], given: Collection[str]) -> list[Layer]:
  """Returns the layers of TensorFlow's side as the target has them, together or apart.

  The order in which a fused layer holds its parts is not in its name, so all the usual ones are `variants`.

  Args:
    sources, targets: the layers.
    given: names on both sides that the caller's table decides: these layers stay as they are.
  """
  alone = [layer for layer in sources if layer.has_any(given)]
  free = [layer for layer in sources if not layer.has_any(given)]
  fused_targets = [layer for layer in targets if _is_fused(layer) and not layer.has_any(given)]
  fused_sources = [layer for layer in free if _is_fused(layer)]
  if fused_targets and not fused_sources:
    return [*alone, *_together(free)]
  if fused_sources and not fused_targets:
    return [*alone, *(part for layer in free for part in (_apart(layer) if _is_fused(layer) else [layer]))]
  return list(sources)


def _is_fused(layer: Layer) -> bool:
  return layer.main.role == "kernel" and _FUSED.search("_".join(split_name(layer.scope))) is not None


def _together(layers: Sequence[Layer]) -> list[Layer]:
  groups: dict[str, dict[str, Layer]] = {}
  for layer in layers:
    part = _part(layer)
    if part is not None:
      groups.setdefault(_without(layer.scope), {})[part] = layer
  whole = {scope: [group[part] for part in _PARTS] for scope, group in groups.items() if len(group) == len(_PARTS)}
  found: dict[int, Layer] = {}
  for layer in layers:
    scope = _without(layer.scope)
    if _part(layer) is None or scope not in whole:
      found[id(layer)] = layer
    elif layer is whole[scope][0]:
      found[id(layer)] = _joined(f"{scope}/qkv", whole[scope])
  return list(found.values())


def _part(layer: Layer) -> str | None:
  """Returns which projection a layer is."""
  parts = [part for part in _PARTS if part in layer.words]
  return parts[0] if len(parts) == 1 and layer.main.role == "kernel" else None


def _without(scope: str) -> str:
  return re.sub(r"(?i)(query|key|value|(?<![a-z])[qkv](?![a-z]))", "*", scope)


def _joined(scope: str, layers: Sequence[Layer]) -> Layer:
  leaves = {}
  for role, first in layers[0].leaves.items():
    parts = [layer.leaves.get(role) for layer in layers]
    if any(part is None or part.shape != first.shape for part in parts):
      continue
    names = tuple(name for part in parts if part is not None for name in part.recipe.names)
    shape = first.shape if role == "bias" or len(first.shape) < 2 else (first.shape[0], math.prod(first.shape[1:]))
    shape = shape if role != "bias" else (math.prod(first.shape),)
    before: tuple[Step, ...] = () if shape == first.shape else (("reshape", shape),)
    axis = len(shape) - 1
    whole = (*shape[:-1], 3 * shape[-1])
    by_heads = len(first.shape) == (2 if role == "bias" else 3)
    counts = [first.shape[-2]] if by_heads else _head_counts(shape[-1])
    recipes = [Recipe(names, before, axis)]
    recipes.extend(Recipe(names, before, axis, (("interleave", (axis, 3, heads)),)) for heads in counts if heads > 1)
    leaves[role] = LayerParameter(first.name, whole, role, recipes[0], tuple(recipes))
  return Layer(scope, leaves)


def _head_counts(size: int) -> list[int]:
  """Returns how many heads, more than one, a projection to so many numbers may have, heads of usual sizes first."""
  counts = [heads for heads in range(2, min(size, _MAX_HEADS) + 1) if size % heads == 0]
  return sorted(counts, key=lambda heads: abs(math.log2(size / heads / _USUAL_HEAD)))


def _apart(layer: Layer) -> list[Layer]:
  found = []
  for index, part in enumerate(_PARTS):
    leaves = {}
    for role, leaf in layer.leaves.items():
      axis = len(leaf.shape) - 1
      if leaf.shape[axis] % 3:
        return [layer]
      shape = (*leaf.shape[:-1], leaf.shape[axis] // 3)
      third: Step = ("part", (axis, index, 3))
      orders: list[tuple[Step, ...]] = [(("interleave", (axis, heads, 3)),) for heads in _head_counts(shape[axis])]
      recipes = [
        dataclasses.replace(leaf.recipe, before=(*leaf.recipe.before, *order, third)) for order in [(), *orders]
      ]
      leaves[role] = LayerParameter(leaf.name, shape, role, recipes[0], tuple(recipes))
    found.append(Layer(f"{layer.scope}/{part}", leaves))
  return found
