"""How to draw the inputs of each op: a module for each domain."""

import importlib
import pkgutil

from graftax.testing.generated.recipes.registry import Recipe, ops_with_recipes, recipe, recipe_of

__all__ = ["Recipe", "ops_with_recipes", "recipe", "recipe_of"]

for _module in pkgutil.iter_modules(__path__):
  importlib.import_module(f"{__name__}.{_module.name}")
