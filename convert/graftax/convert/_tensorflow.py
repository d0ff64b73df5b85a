"""The one door to TensorFlow: imported only when a live TensorFlow object is converted."""

import importlib
from collections.abc import Callable
from typing import Any, TypeVar

from graftax.convert.errors import TensorFlowNotFoundError

# Any: TensorFlow ships no type information.

_Function = TypeVar("_Function", bound=Callable[..., Any])


def without_autograph(function: _Function) -> _Function:
  """`function`, which AutoGraph then runs as it is when it is called inside a `tf.function`.

  `tf.autograph.experimental.do_not_convert` marks functions in the same way, but needs TensorFlow.
  """
  function.autograph_info__ = True  # type: ignore[attr-defined]
  return function


def import_tensorflow(purpose: str) -> Any:
  """The `tensorflow` module.

  Raises:
    TensorFlowNotFoundError: TensorFlow is not installed.
  """
  try:
    return importlib.import_module("tensorflow")
  except ImportError as e:
    raise TensorFlowNotFoundError(
      f"{purpose} needs TensorFlow, which is not installed ({e}). Install tensorflow or tensorflow-cpu, or "
      f"save the model "
      f"and read it with graftax.savedmodel_io, which needs none."
    ) from e


def import_gradient_registry() -> Any:
  """What `tf.RegisterGradient` writes to; TensorFlow has nothing public to read from it."""
  return importlib.import_module("tensorflow.python.framework.ops").gradient_registry
