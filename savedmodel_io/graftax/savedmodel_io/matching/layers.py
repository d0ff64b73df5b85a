"""Parameters grouped into layers: a kernel with its bias, the four arrays of a batch normalization."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

from graftax.savedmodel_io.matching.layouts import Array, Recipe, Shape, Step, layouts
from graftax.savedmodel_io.matching.words import contradict, numbers, pattern, role, shared, words

__all__ = ["Layer", "LayerParameter", "compatible", "leaf_layouts", "likeness", "read_layers"]

_COLLECTIONS = ("params", "batch_stats", "state", "variables")
_AVERAGES = {"mean_ema": "mean", "var_ema": "variance"}
_MAIN_ROLES = ("kernel", "table", "value", "scale", "bias", "mean", "variance")
_ARRAYS = ("kernel", "table", "value")


@dataclass(frozen=True, slots=True)
class LayerParameter:
  """A parameter of a layer.

  Attributes:
    name: its name.
    shape: its shape.
    role: what it is to its layer.
    recipe: what it is made of, if it is on TensorFlow's side.
    variants: recipes for arrays of this shape whose parts are in other orders, `recipe` among them.
  """

  name: str
  shape: Shape
  role: str
  recipe: Recipe
  variants: tuple[Recipe, ...]


@dataclass(frozen=True)
class Layer:
  """Parameters that belong together.

  Attributes:
    scope: the part of their names that they share.
    leaves: role -> parameter.
  """

  scope: str
  leaves: Mapping[str, LayerParameter]

  @cached_property
  def words(self) -> frozenset[str]:
    return words(self.scope)

  @cached_property
  def numbers(self) -> tuple[int, ...]:
    return numbers(self.scope)

  @cached_property
  def pattern(self) -> tuple[str, ...]:
    return pattern(self.scope)

  @cached_property
  def is_cell(self) -> bool:
    """Whether it is a recurrent cell, whose roles start with "cell/"."""
    return next(iter(self.leaves)).startswith("cell/")

  @cached_property
  def main(self) -> LayerParameter:
    """The parameter that tells most about the layer."""
    return next((self.leaves[name] for name in _MAIN_ROLES if name in self.leaves), next(iter(self.leaves.values())))

  def has_any(self, names: Collection[str]) -> bool:
    """Returns whether one of its parameters has one of the names."""
    return any(leaf.name in names for leaf in self.leaves.values())


def read_layers(arrays: Mapping[str, Array]) -> list[Layer]:
  """Returns the layers of parameters, in the order of their names."""
  groups: dict[str, dict[str, LayerParameter]] = {}
  tops = {name.partition("/")[0] for name in arrays}
  has_tuple = tops <= {"0", "1", "2"}
  for name, array in arrays.items():
    shape = tuple(array.shape)
    scope, kind = _place(name, sum(size != 1 for size in shape), has_tuple)
    group = groups.setdefault(scope, {})
    while kind in group:  # two arrays of the same role, which their names do not tell apart
      scope += "/other"
      group = groups.setdefault(scope, {})
    group[kind] = LayerParameter(name, shape, kind, Recipe((name,)), (Recipe((name,)),))
  return [Layer(scope, leaves) for scope, leaves in groups.items()]


def _place(name: str, rank: int, has_tuple: bool) -> tuple[str, str]:
  *scopes, leaf = [part for part in name.split("/") if part != "~"]
  if has_tuple:
    scopes = scopes[1:]
  if scopes and scopes[0] in _COLLECTIONS:
    scopes = scopes[1:]
  if scopes and scopes[-1] in _AVERAGES and leaf == "average":
    return "/".join(scopes[:-1]), _AVERAGES[scopes[-1]]
  if leaf.isdecimal() and scopes:  # an element of a list is named like the list
    *scopes, last = scopes
    leaf = f"{last}_{leaf}"
  kind, rest = role(leaf, rank)
  return "/".join([*scopes, rest] if rest else scopes), kind


def leaf_layouts(source: LayerParameter, target: LayerParameter, both: frozenset[str]) -> tuple[tuple[Step, ...], ...]:
  """Returns the ways that make one parameter into another."""
  kind = source.role.partition("/")[0]  # "cell/kernel/0" is a part of a cell
  if "kernel" in (source.role, target.role) and source.role in _ARRAYS:
    kind = "kernel" if source.role != "table" else "table"
  if kind == "value":
    kind = "table"
  return layouts(source.shape, target.shape, kind, both)


def compatible(source: Layer, target: Layer) -> bool:
  """Returns whether parameters of one layer can be those of another."""
  if contradict(source.words, target.words):
    return False
  one, other = source.main, target.main
  if (one.role in _ARRAYS) != (other.role in _ARRAYS):
    return False
  return bool(leaf_layouts(one, other, source.words | target.words))


def likeness(source: Layer, target: Layer) -> float:
  """Returns how like two compatible layers are, from 1 to 2.5."""
  same = len(source.leaves.keys() & target.leaves.keys()) / len(source.leaves.keys() | target.leaves.keys())
  return 1 + same / 2 + shared(source.words, target.words)
