"""All cases of this suite by kind; each kind is a module of `cases`."""

import importlib
import pkgutil
from collections.abc import Sequence

from graftax.testing.differential import cases
from graftax.testing.differential.case import Collector, ConversionCase

__all__ = ["KINDS", "all_cases"]

KINDS: tuple[str, ...] = tuple(sorted(module.name for module in pkgutil.iter_modules(cases.__path__)))
"""The kinds of cases: the names of the modules of `graftax.testing.differential.cases`."""


def all_cases(kinds: Sequence[str] = KINDS) -> tuple[ConversionCase, ...]:
  """Returns the cases of the given kinds, without importing TensorFlow.

  Raises:
    ValueError: a kind does not exist.
  """
  unknown = [kind for kind in kinds if kind not in KINDS]
  if unknown:
    raise ValueError(f"unknown kinds of cases {unknown!r}; expected some of {list(KINDS)}.")
  found: list[ConversionCase] = []
  for kind in kinds:
    module = importlib.import_module(f"{cases.__name__}.{kind}")
    collector: Collector = module.define
    found.extend(collector.cases)
  return tuple(found)
