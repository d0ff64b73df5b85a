"""All programs of this suite by kind; each kind is a module of `programs`."""

import importlib
import pkgutil
from collections.abc import Sequence

from graftax.testing.differential import programs
from graftax.testing.differential.program import Collector, Program

__all__ = ["KINDS", "all_programs"]

KINDS: tuple[str, ...] = tuple(sorted(module.name for module in pkgutil.iter_modules(programs.__path__)))
"""The kinds of programs: the names of the modules of `graftax.testing.differential.programs`."""


def all_programs(kinds: Sequence[str] = KINDS) -> tuple[Program, ...]:
  """Returns the programs of the given kinds, without importing TensorFlow.

  Raises:
    ValueError: a kind does not exist.
  """
  unknown = [kind for kind in kinds if kind not in KINDS]
  if unknown:
    raise ValueError(f"unknown kinds of programs {unknown!r}; expected some of {list(KINDS)}.")
  found: list[Program] = []
  for kind in kinds:
    module = importlib.import_module(f"{programs.__name__}.{kind}")
    collector: Collector = module.define
    found.extend(collector.programs)
  return tuple(found)
