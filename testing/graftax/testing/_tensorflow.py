"""TensorFlow, imported only where a check runs: what needs no oracle can be used without it."""

import importlib
from typing import Any

from graftax.convert import TensorFlowNotFoundError


# Any: TensorFlow ships no type information.
def import_tensorflow() -> Any:
  """The `tensorflow` module.

  Raises:
    TensorFlowNotFoundError: TensorFlow is not installed.
  """
  try:
    return importlib.import_module("tensorflow")
  except ImportError as e:
    raise TensorFlowNotFoundError(
      f"graftax.testing compares with TensorFlow, which cannot be imported ({e}). Install tensorflow or tensorflow-cpu."
    ) from e
