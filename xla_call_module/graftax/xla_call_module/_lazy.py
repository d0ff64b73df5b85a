"""Lazy imports of the public names of a package."""

import importlib
from collections.abc import Sequence
from typing import Any

__all__ = ["find"]


def find(name: str, namespace: dict[str, Any], homes: Sequence[str]) -> Any:
  """Returns a public name of a package, importing the module that defines it. Call this from `__getattr__`.

  Args:
    name: the attribute that was requested.
    namespace: `globals()` of the package; the result is stored there.
    homes: modules of the package that define its public names, imported in this order until one defines `name`.

  Raises:
    AttributeError: the package's `__all__` does not list the name.
  """
  package = namespace["__name__"]
  for home in homes if name in namespace["__all__"] else ():
    module = importlib.import_module(f"{package}.{home}")
    if name in module.__all__:
      return namespace.setdefault(name, getattr(module, name))
  raise AttributeError(f"module {package!r} has no attribute {name!r}")
