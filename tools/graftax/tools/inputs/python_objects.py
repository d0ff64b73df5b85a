"""Finds a function or parameters by name in a Python file or an installed module."""

import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from graftax.tools.errors import PythonObjectError

__all__ = ["attribute_of", "load_module", "split_name"]

_Loaded = TypeVar("_Loaded")


def split_name(text: str) -> tuple[str, str]:
  """Returns the file or module, and the name in it, of `model.py:predict` or `package.model:predict`.

  Raises:
    PythonObjectError: there is no colon, or nothing on one side of it.

  Example:
    >>> split_name("models/mnist.py:net.apply")
    ('models/mnist.py', 'net.apply')
  """
  where, colon, name = text.rpartition(":")
  if not colon or not where or not name:
    raise PythonObjectError(
      f"{text!r} does not name a function; expected FILE.py:FUNCTION or MODULE:FUNCTION, such as model.py:predict."
    )
  return where, name


def load_module(where: str) -> ModuleType:
  """Runs a Python file, or imports a module, and returns it. The file may import its neighbors.

  Args:
    where: a path that ends with `.py`, or the dotted name of a module.

  Raises:
    PythonObjectError: there is no such file or module, or running it raises an error.
  """
  path = Path(where)
  if path.suffix != ".py":
    return _run(where, lambda: importlib.import_module(where))
  if not path.is_file():
    raise PythonObjectError(f"no such file {where!r}.")
  spec = importlib.util.spec_from_file_location(path.stem, path.resolve())
  assert spec is not None and spec.loader is not None, "internal: a .py file has a loader"
  module, loader = importlib.util.module_from_spec(spec), spec.loader
  folder = str(path.resolve().parent)
  sys.path.insert(0, folder)
  # Dataclasses and pickled objects look their module up by name.
  before = sys.modules.get(path.stem)
  sys.modules[path.stem] = module
  try:
    _run(where, lambda: loader.exec_module(module))
  finally:
    sys.path.remove(folder)
    if before is not None:
      sys.modules[path.stem] = before
  return module


def attribute_of(module: ModuleType, name: str, where: str) -> Any:
  """Returns the object of a dotted name in a module.

  Args:
    module: the module.
    name: such as `"predict"` or `"net.apply"`.
    where: what the user calls the module, for messages.

  Raises:
    PythonObjectError: there is no such name.
  """
  found: Any = module
  for part in name.split("."):
    if not hasattr(found, part):
      public = sorted(n for n, v in vars(module).items() if not n.startswith("_") and not isinstance(v, ModuleType))
      raise PythonObjectError(f"{where} has no {name!r}; the names there are {public}.")
    found = getattr(found, part)
  return found


def _run(where: str, load: Callable[[], _Loaded]) -> _Loaded:
  try:
    return load()
  except ModuleNotFoundError as e:
    raise PythonObjectError(f"{where}: {e}; it is not installed, or not on Python's path.") from e
  except Exception as e:
    raise PythonObjectError(f"{where} raises {type(e).__name__} while it runs: {e}") from e
