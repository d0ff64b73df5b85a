"""The table of recipes: how to draw the inputs of each op."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from graftax.testing.generated.draw import Draw

__all__ = ["Recipe", "ops_with_recipes", "recipe", "recipe_of", "recipes", "recipes_of_shapes"]

Recipe = Callable[[Draw], Sequence[Any]]

_RECIPES: dict[str, Recipe] = {}


def recipe(*ops: str) -> Callable[[Recipe], Recipe]:
  """Registers a function that returns the inputs of the ops in order, and may set `draw.attrs`.

  Args:
    ops: names of ops, or several names separated by spaces.
  """

  def register(function: Recipe) -> Recipe:
    for op in " ".join(ops).split():
      if op in _RECIPES:
        raise ValueError(f"{op} has two recipes")
      _RECIPES[op] = function
    return function

  return register


def recipes(rows: Mapping[str, Recipe]) -> None:
  """Registers the recipes of a table: names of ops -> their inputs."""
  for ops, inputs in rows.items():
    recipe(ops)(inputs)


def recipes_of_shapes(
  rows: Mapping[str, Callable[[Draw, tuple[int, ...]], Sequence[Any]]], bounds: tuple[int, ...] = ()
) -> None:
  """Registers the recipes of a table: names of ops -> their inputs, given a shape.

  Args:
    rows: the table.
    bounds: arguments of `Draw.shape`: the lowest and the highest rank, and the largest size.
  """
  for ops, inputs in rows.items():
    recipe(ops)(lambda d, inputs=inputs: inputs(d, d.shape(*bounds)))  # type: ignore[misc]


def recipe_of(op: str) -> Recipe | None:
  """Returns the recipe of an op, or None."""
  return _RECIPES.get(op)


def ops_with_recipes() -> list[str]:
  """Returns the names of all ops that have a recipe, sorted."""
  return sorted(_RECIPES)
