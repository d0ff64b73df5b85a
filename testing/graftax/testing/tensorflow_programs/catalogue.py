"""The TensorFlow programs of all suites, listed without importing TensorFlow."""

import importlib.util
from collections.abc import Sequence

from graftax.testing.harness.catalogue import cases_of, kinds_of
from graftax.testing.harness.conversion_case import ConversionCase
from graftax.testing.tensorflow_programs import cases, models
from graftax.testing.tensorflow_programs.functions import FUNCTIONS

__all__ = ["DOMAINS", "FUNCTIONS", "KINDS", "REFUSED", "all_cases", "all_models", "installed_models"]

KINDS: tuple[str, ...] = kinds_of(cases)
"""The kinds of cases: the names of the modules of `cases`."""

DOMAINS: tuple[str, ...] = kinds_of(models)
"""The domains of models: the names of the modules of `models`."""

REFUSED: tuple[str, ...] = ("gradient_boosted_trees",)
"""Models that have ops which neither JAX nor the host's part of graftax runs; errors name these ops."""

# Libraries that the models of a domain need besides TensorFlow.
_NEEDS = {"tokenizers": ("tensorflow_text", "sentencepiece")}


def all_cases(kinds: Sequence[str] = KINDS) -> tuple[ConversionCase, ...]:
  """Returns the cases of the given kinds.

  Raises:
    ValueError: a kind does not exist.
  """
  return tuple(case for _, case in cases_of(cases, kinds, ConversionCase))


def all_models() -> dict[str, ConversionCase]:
  """Returns the models by name."""
  return {case.name: case for _, case in cases_of(models, DOMAINS, ConversionCase)}


def installed_models() -> dict[str, ConversionCase]:
  """Returns the models whose libraries are installed, by name."""
  missing = {
    domain for domain, modules in _NEEDS.items() if any(importlib.util.find_spec(name) is None for name in modules)
  }
  return {name: model for name, model in all_models().items() if model.kind not in missing}
