"""All models of the zoo by domain; each domain is a module of `models`."""

import importlib
import pkgutil

from graftax.testing.differential.case import Collector, ConversionCase
from graftax.testing.zoo import models

__all__ = ["DOMAINS", "all_models"]

DOMAINS: tuple[str, ...] = tuple(sorted(module.name for module in pkgutil.iter_modules(models.__path__)))
"""The domains: the names of the modules of `graftax.testing.zoo.models`."""


def all_models() -> dict[str, ConversionCase]:
  """Returns the models by name, without importing TensorFlow."""
  found: dict[str, ConversionCase] = {}
  for domain in DOMAINS:
    collector: Collector = importlib.import_module(f"{models.__name__}.{domain}").define
    found.update({case.name: case for case in collector.cases})
  return found
