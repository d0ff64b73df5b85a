"""How to draw the inputs of each op, by domain."""

from graftax.testing.generated.recipes import (
  array,
  diagonal,
  elementwise,
  image,
  linalg,
  nn,
  quantization,
  random,
  reduction,
  signal,
  sparse,
)
from graftax.testing.generated.recipes.registry import Recipe, ops_with_recipes, recipe, recipe_of

__all__ = [
  "Recipe",
  "array",
  "diagonal",
  "elementwise",
  "image",
  "linalg",
  "nn",
  "ops_with_recipes",
  "quantization",
  "random",
  "recipe",
  "recipe_of",
  "reduction",
  "signal",
  "sparse",
]
