"""All models of the zoo by domain; each domain is a module of `models`."""

import importlib
import importlib.util
import pkgutil

from graftax.testing.differential.case import Collector, ConversionCase
from graftax.testing.zoo import models

__all__ = ["DOMAINS", "REFUSED", "all_models", "installed_models"]

DOMAINS: tuple[str, ...] = tuple(sorted(module.name for module in pkgutil.iter_modules(models.__path__)))
"""The domains: the names of the modules of `graftax.testing.zoo.models`."""

REFUSED: tuple[str, ...] = ("gradient_boosted_trees",)
"""Models that have ops which neither JAX nor the host's part of graftax runs; errors name these ops."""

# Libraries that the models of a domain need besides TensorFlow.
_NEEDS = {"tokenizers": ("tensorflow_text", "sentencepiece")}


def installed_models() -> dict[str, ConversionCase]:
  """Returns the models whose libraries are installed, by name."""
  missing = {
    domain for domain, modules in _NEEDS.items() if any(importlib.util.find_spec(name) is None for name in modules)
  }
  return {name: model for name, model in all_models().items() if model.kind not in missing}


def all_models() -> dict[str, ConversionCase]:
  """Returns the models by name, without importing TensorFlow."""
  found: dict[str, ConversionCase] = {}
  for domain in DOMAINS:
    collector: Collector = importlib.import_module(f"{models.__name__}.{domain}").define
    found.update({case.name: case for case in collector.cases})
  return found
