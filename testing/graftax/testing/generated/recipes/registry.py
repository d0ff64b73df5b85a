"""The table of recipes: how to draw the inputs of each op."""

from collections.abc import Callable, Sequence
from typing import Any

from graftax.testing.generated.draw import Draw

__all__ = ["Recipe", "ops_with_recipes", "recipe", "recipe_of"]

Recipe = Callable[[Draw], Sequence[Any]]

_RECIPES: dict[str, Recipe] = {}


def recipe(*ops: str) -> Callable[[Recipe], Recipe]:
  """Registers a function that returns the inputs of the ops in order, and may set `draw.attrs`."""

  def register(function: Recipe) -> Recipe:
    for op in ops:
      if op in _RECIPES:
        raise ValueError(f"{op} has two recipes: {_RECIPES[op].__name__} and {function.__name__}")
      _RECIPES[op] = function
    return function

  return register


def recipe_of(op: str) -> Recipe | None:
  """Returns the recipe of an op, or None."""
  return _RECIPES.get(op)


def ops_with_recipes() -> list[str]:
  """Returns the names of all ops that have a recipe, sorted."""
  return sorted(_RECIPES)
