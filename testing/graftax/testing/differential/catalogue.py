"""All programs of this suite, by kind: one module of `programs` each."""

import importlib
import pkgutil
from collections.abc import Sequence

from graftax.testing.differential import programs
from graftax.testing.differential.program import Collector, Program

__all__ = ["KINDS", "all_programs"]

KINDS: tuple[str, ...] = tuple(sorted(module.name for module in pkgutil.iter_modules(programs.__path__)))
"""The kinds of programs, which are the modules of `graftax.testing.differential.programs`."""


def all_programs(kinds: Sequence[str] = KINDS) -> tuple[Program, ...]:
  """The programs of some kinds. TensorFlow is imported when one is built, not before.

  Raises:
    ValueError: there is no such kind.
  """
  unknown = [kind for kind in kinds if kind not in KINDS]
  if unknown:
    raise ValueError(f"no programs of kinds {unknown!r}; there are {list(KINDS)}.")
  found: list[Program] = []
  for kind in kinds:
    module = importlib.import_module(f"{programs.__name__}.{kind}")
    collector: Collector = module.define
    found.extend(collector.programs)
  return tuple(found)
