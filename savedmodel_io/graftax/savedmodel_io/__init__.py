"""SavedModels and TensorFlow checkpoints, read and written without TensorFlow.

`load` reads a SavedModel, `CheckpointReader` a checkpoint. Both map the data files into memory; arrays are views of the
mapping if the format allows it.

`save` writes JAX functions and their parameters as a SavedModel, `SavedModel.save` a model that was read with other
values, `write_saved_model` any programs, and `write_checkpoint` a checkpoint.
"""

import importlib
from typing import TYPE_CHECKING, Any

from graftax.savedmodel_io.checkpoint.reader import CheckpointReader, read_checkpoint
from graftax.savedmodel_io.checkpoint.state import checkpoint_paths, latest_checkpoint
from graftax.savedmodel_io.files.saved_model_pb import is_saved_model
from graftax.savedmodel_io.objects.functions import ConcreteFunction, Resource, RestoredFunction
from graftax.savedmodel_io.saved_model import SavedModel, load
from graftax.savedmodel_io.signatures import Signature
from graftax.savedmodel_io.variables.variables import VariableInfo, Variables

# Importing these takes 30 ms and more, and programs that only read do not need them.
if TYPE_CHECKING:
  from graftax.savedmodel_io.export.jax_module import JaxModule
  from graftax.savedmodel_io.writing.checkpoint import write_checkpoint
  from graftax.savedmodel_io.writing.jax_function import JaxFunction
  from graftax.savedmodel_io.writing.new_model import write_saved_model
  from graftax.savedmodel_io.writing.save import save

__all__ = [
  "CheckpointReader",
  "ConcreteFunction",
  "JaxFunction",
  "JaxModule",
  "Resource",
  "RestoredFunction",
  "SavedModel",
  "Signature",
  "VariableInfo",
  "Variables",
  "checkpoint_paths",
  "is_saved_model",
  "latest_checkpoint",
  "load",
  "read_checkpoint",
  "save",
  "write_checkpoint",
  "write_saved_model",
]

_LAZY = {
  "JaxFunction": "writing.jax_function",
  "JaxModule": "export.jax_module",
  "save": "writing.save",
  "write_checkpoint": "writing.checkpoint",
  "write_saved_model": "writing.new_model",
}


def __getattr__(name: str) -> Any:
  if name not in _LAZY:
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
  module = importlib.import_module(f"{__name__}.{_LAZY[name]}")
  return globals().setdefault(name, getattr(module, name))


def __dir__() -> list[str]:
  return sorted({*globals(), *__all__})
