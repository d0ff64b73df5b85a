"""The programs, one module for each library; `programs()` of a module imports its library."""

import importlib
import pkgutil

from graftax.testing.jax_libraries.program import Program, Programs

__all__ = ["libraries", "programs_of"]


def libraries() -> list[str]:
  """Returns the names of the modules here, sorted."""
  return sorted(module.name for module in pkgutil.iter_modules(__path__))


def programs_of(library: str) -> list[Program]:
  """Returns the programs of a library, whose names begin with that of the library."""
  found: Programs = importlib.import_module(f"{__name__}.{library}").programs()
  return [Program(name, function, tuple(args)) for name, (function, *args) in found.items()]
