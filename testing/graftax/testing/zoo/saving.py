"""A function that TensorFlow saved and `savedmodel_io` loads, as a converter of the differential suite."""

import dataclasses
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from graftax.savedmodel_io import SavedModel, load
from graftax.testing._tensorflow import TfFunction, import_tensorflow
from graftax.testing.differential.converters import Converter
from graftax.testing.pytrees import PyTree

__all__ = ["ENTRY", "SavedCopies", "saved_copies"]

ENTRY = "serve"
"""The attribute under which the function is saved."""


@dataclasses.dataclass(slots=True)
class SavedCopies:
  """Saves functions in a folder and converts what was saved.

  Attributes:
    folder: holds a SavedModel for each conversion.
    loaded: the models, in the order of conversions.
  """

  folder: Path
  loaded: list[SavedModel] = dataclasses.field(default_factory=list)

  @property
  def converter(self) -> Converter:
    """The way around over a SavedModel, for `run_case`."""
    return Converter("graftax", self._convert)

  def path(self, index: int) -> Path:
    """Returns the folder of a model in `loaded`."""
    return self.folder / str(index)

  def _convert(self, function: TfFunction, specs: tuple[PyTree, ...]) -> tuple[Callable[..., Any], Mapping[str, Any]]:
    tf = import_tensorflow()
    concrete = function.get_concrete_function(*specs)
    module = tf.Module()
    module.owned = [list(concrete.graph.variables), getattr(function, "owned", ())]
    setattr(module, ENTRY, tf.function(function.python_function, input_signature=specs))
    path = self.path(len(self.loaded))
    tf.saved_model.save(module, str(path))
    self.loaded.append(load(path))
    return self.loaded[-1].convert(ENTRY)


@contextmanager
def saved_copies() -> Iterator[SavedCopies]:
  """Yields `SavedCopies` in a temporary folder."""
  with tempfile.TemporaryDirectory() as folder:
    yield SavedCopies(Path(folder))
