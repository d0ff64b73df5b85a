"""Imports TensorFlow when a check runs; everything else in this package works without it."""

from typing import Any

from graftax import convert

__all__ = ["import_tensorflow"]


# Returns `Any`, because TensorFlow ships no type information.
def import_tensorflow() -> Any:
  """Returns the `tensorflow` module.

  Raises:
    LibraryNotFoundError: TensorFlow cannot be imported.
  """
  return convert.import_tensorflow("graftax.testing")
