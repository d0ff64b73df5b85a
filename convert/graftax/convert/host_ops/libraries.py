"""Imports libraries that only some models need: regular expressions, images."""

import importlib
from typing import Any

from graftax.convert.errors import LibraryNotFoundError

__all__ = ["import_library"]


def import_library(module: str, distribution: str, extra: str, purpose: str) -> Any:
  """Returns a module of an optional dependency.

  Args:
    module: the name of the module.
    distribution: the name under which pip installs it.
    extra: the extra of graftax-convert that installs it.
    purpose: what it is needed for, for the message.

  Raises:
    LibraryNotFoundError: it is not installed.
  """
  try:
    return importlib.import_module(module)
  except ImportError as e:
    raise LibraryNotFoundError(
      f"the model's host part has {purpose}, which need {distribution}: pip install 'graftax-convert[{extra}]'."
    ) from e
