"""All models of the zoo by domain; each domain is a module of `models`."""

import importlib.util

from graftax.testing.differential.case import ConversionCase
from graftax.testing.harness.catalogue import cases_of, kinds_of
from graftax.testing.zoo import models

__all__ = ["DOMAINS", "REFUSED", "all_models", "installed_models"]

DOMAINS: tuple[str, ...] = kinds_of(models)
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
  return {case.name: case for _, case in cases_of(models, DOMAINS, ConversionCase)}
