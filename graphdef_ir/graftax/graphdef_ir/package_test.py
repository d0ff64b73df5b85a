"""The package as a whole: its names and its imports."""

import doctest
import importlib
import os
import pkgutil
import re
import subprocess
import sys
import types

import pytest

import graftax.graphdef_ir
from graftax.graphdef_ir import errors

_MODULES = sorted(
  module.name
  for module in pkgutil.walk_packages(graftax.graphdef_ir.__path__, "graftax.graphdef_ir.")
  if not module.name.endswith("_test")
)
# The package of passes lists its modules and exports nothing itself.
_PUBLIC = [name for name in _MODULES if not re.search(r"\._\w+$", name) and not name.endswith(".passes")]


@pytest.mark.parametrize("name", ["graftax.graphdef_ir", *_PUBLIC])
def test_every_public_module_lists_its_names_and_has_them(name: str):
  module = importlib.import_module(name)
  assert module.__doc__
  assert [listed for listed in module.__all__ if not hasattr(module, listed)] == []
  undocumented = [
    listed for listed in module.__all__ if name != "graftax.graphdef_ir.schema" and _lacks_text(module, listed)
  ]
  assert undocumented == []


def _lacks_text(module: object, name: str) -> bool:
  value = getattr(module, name)
  return isinstance(value, (type, types.FunctionType)) and not value.__doc__


def test_exported_names_are_sorted():
  assert graftax.graphdef_ir.__all__ == sorted(graftax.graphdef_ir.__all__, key=_isort_key)


def _isort_key(name: str) -> tuple[int, str]:
  return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)


# These concern neither what a graph says nor what graftax handles.
_IN_NO_FAMILY = (
  errors.GraftaxError,
  errors.LibraryNotFoundError,
  errors.LimitExceededError,
  errors.UnreadableFileError,
  errors.UnsafeFileError,
)


def test_every_error_has_one_of_the_two_families():
  for name in errors.__all__:
    error = getattr(errors, name)
    families = [issubclass(error, family) for family in (errors.GraphError, errors.UnsupportedError)]
    assert sum(families) == 1 or error in _IN_NO_FAMILY
    assert issubclass(error, errors.GraftaxError)


def test_the_examples_run():
  assert sum(doctest.testmod(importlib.import_module(name)).attempted for name in _PUBLIC) > 20


def _run(code: str, **environment: str) -> str:
  paths = [path for path in sys.path if path]
  command = [sys.executable, "-c", f"import sys; sys.path[:0] = {paths!r}\n{code}"]
  return subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, **environment}).stdout


def test_neither_jax_nor_tensorflow_is_imported():
  code = """
import graftax.graphdef_ir
print([name for name in sys.modules if name.partition(".")[0] in ("jax", "jaxlib", "tensorflow", "scipy")])
"""
  assert _run(code).strip() == "[]"


def test_the_op_table_is_read_on_first_use():
  code = """
import graftax.graphdef_ir
from graftax.graphdef_ir import _op_table
before = _op_table._lines.cache_info().currsize
graftax.graphdef_ir.op_signature("Neg")
print(before, _op_table._lines.cache_info().currsize)
"""
  assert _run(code).split() == ["0", "1"]
