"""The only imports of TensorFlow in this package."""

import sys
import types
from typing import Any, TypeAlias

from graftax.convert import import_tensorflow

__all__ = [
  "TensorFlow",
  "TfFunction",
  "TfTensor",
  "import_dtensor",
  "import_tensorflow",
  "imported_tensorflow",
  "tensorflow_module_class",
]

# TensorFlow ships no type information, so a type checker takes each of these for `Any`.
TensorFlow: TypeAlias = Any
"""The `tensorflow` module."""
TfTensor: TypeAlias = Any
"""A tensor, eager or of a graph, or what TensorFlow reads as one, such as a variable."""
TfFunction: TypeAlias = Any
"""A `tf.function`."""


def imported_tensorflow() -> TensorFlow | None:
  """Returns the `tensorflow` module if something imported it, else None."""
  tf = sys.modules.get("tensorflow")
  # While TensorFlow is being imported, it is there without its names.
  return tf if hasattr(tf, "Module") else None


def import_dtensor(purpose: str) -> Any:
  """Returns the module `tensorflow.experimental.dtensor`; raises as `import_tensorflow` does."""
  return import_tensorflow(purpose).experimental.dtensor


_MODULE_CLASSES: dict[type, type] = {}


def tensorflow_module_class(cls: type, tf: TensorFlow) -> type:
  """Returns a subclass of `cls` that also is a `tf.Module`; the same one every time."""
  if cls not in _MODULE_CLASSES:
    names = {"__module__": cls.__module__, "__doc__": cls.__doc__}
    _MODULE_CLASSES[cls] = types.new_class(cls.__name__, (cls, tf.Module), exec_body=lambda body: body.update(names))
  return _MODULE_CLASSES[cls]
