"""Imports scripts of the tree that are in no package."""

import importlib.util
from pathlib import Path
from types import ModuleType

__all__ = ["script_module"]


def script_module(path: Path) -> ModuleType:
  """Returns a file as a new module, which is not in `sys.modules`."""
  spec = importlib.util.spec_from_file_location(f"script_{path.stem}", path)
  assert spec is not None and spec.loader is not None, f"internal: {path} is not a Python file"
  module = importlib.util.module_from_spec(spec)
  spec.loader.exec_module(module)
  return module
