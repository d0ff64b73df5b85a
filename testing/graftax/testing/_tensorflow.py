"""Imports TensorFlow when a check runs; everything else in this package works without it."""

import importlib
from typing import Any

from graftax.convert import TensorFlowNotFoundError


# Returns `Any`, because TensorFlow ships no type information.
def import_tensorflow() -> Any:
  """Returns the `tensorflow` module.

  Raises:
    TensorFlowNotFoundError: TensorFlow is not installed.
  """
  try:
    return importlib.import_module("tensorflow")
  except ImportError as e:
    raise TensorFlowNotFoundError(
      f"graftax.testing compares with TensorFlow, which cannot be imported ({e}). Install tensorflow or tensorflow-cpu."
    ) from e
