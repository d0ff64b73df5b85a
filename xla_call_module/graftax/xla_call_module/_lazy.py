"""Public names of a package that are imported when they are first used."""

import importlib
from collections.abc import Sequence
from typing import Any

__all__ = ["find"]


def find(name: str, namespace: dict[str, Any], homes: Sequence[str]) -> Any:
  """Returns a public name of a package: what the package's `__getattr__` does.

  Args:
    name: what is looked up.
    namespace: `globals()` of the package, which keeps the result.
    homes: modules of the package that define its public names; they are imported in this order until one has it.

  Raises:
    AttributeError: the package's `__all__` does not list the name.
  """
  package = namespace["__name__"]
  for home in homes if name in namespace["__all__"] else ():
    module = importlib.import_module(f"{package}.{home}")
    if name in module.__all__:
      return namespace.setdefault(name, getattr(module, name))
  raise AttributeError(f"module {package!r} has no attribute {name!r}")
