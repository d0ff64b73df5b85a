"""Catalogues: the cases of a suite by kind, each kind a module of one package."""

import importlib
import pkgutil
from collections.abc import Iterable, Iterator, Sequence
from types import ModuleType
from typing import TypeVar

__all__ = ["cases_of", "kinds_of"]

_Case = TypeVar("_Case")


def kinds_of(package: ModuleType) -> tuple[str, ...]:
  """Returns the kinds of cases: the names of the modules of the package."""
  return tuple(sorted(module.name for module in pkgutil.iter_modules(package.__path__)))


def cases_of(package: ModuleType, kinds: Sequence[str], case: type[_Case]) -> Iterator[tuple[str, _Case]]:
  """Yields each case with its kind, without importing TensorFlow.

  Args:
    package: its modules have a list `CASES`, or a collector `define` with one.
    kinds: the kinds that are wanted.
    case: the class of the cases.

  Raises:
    ValueError: a kind does not exist.
    TypeError: something in a list of cases is not one.
  """
  unknown = [kind for kind in kinds if kind not in kinds_of(package)]
  if unknown:
    raise ValueError(f"unknown kinds of cases {unknown!r}; expected some of {list(kinds_of(package))}.")
  for kind in kinds:
    module = importlib.import_module(f"{package.__name__}.{kind}")
    listed: Iterable[object] = module.CASES if hasattr(module, "CASES") else module.define.cases
    for found in listed:
      if not isinstance(found, case):
        raise TypeError(f"{module.__name__}: {found!r} is not a {case.__name__}.")
      yield kind, found
