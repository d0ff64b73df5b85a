"""Kaggle's cache of models, as `kagglehub` lays it out.

$KAGGLEHUB_CACHE/models/<owner>/<model>/<framework>/<variation>/
  <version>/              the files
  <version>.complete      an empty file: all of them are there
  .graftax-lock           held while this package downloads a version
"""

import os
from pathlib import Path

from graftax.hub_io.handles import KaggleModel

__all__ = ["KaggleEntry", "kaggle_cache_folder"]

_FOLDER_VARIABLE = "KAGGLEHUB_CACHE"
_COMPLETE = ".complete"


def kaggle_cache_folder() -> Path:
  """Returns the folder of the cache, which need not exist: `$KAGGLEHUB_CACHE`, or `~/.cache/kagglehub`."""
  return Path(os.environ.get(_FOLDER_VARIABLE) or Path.home() / ".cache" / "kagglehub")


class KaggleEntry:
  """The place of one model variation in the cache, in one version or all of them."""

  def __init__(self, model: KaggleModel, cache: Path | None = None):
    self.model = model
    self._models = (kaggle_cache_folder() if cache is None else cache) / "models" / model.owner / model.model

  @property
  def lock_file(self) -> Path:
    """The lock that this package holds while kagglehub writes the entry."""
    return self._models / self.model.framework / self.model.variation / ".graftax-lock"

  def find(self) -> Path | None:
    """Returns the folder of the version, or of the newest one if the handle names none, if kagglehub completed it.

    Names of frameworks are spelled in several ways ("TensorFlow2", "tensorFlow2"), and each gets a folder of its own.
    """
    found = {int(folder.name): folder for variation in self._variations() for folder in _complete_versions(variation)}
    wanted = self.model.version if self.model.version is not None else max(found, default=None)
    return None if wanted is None else found.get(wanted)

  def is_half_written(self) -> bool:
    """Returns whether kagglehub began to write this version and did not complete it."""
    version = self.model.version
    return self.find() is None and version is not None and any((v / str(version)).exists() for v in self._variations())

  def _variations(self) -> list[Path]:
    framework = self.model.framework.lower()
    # The handle's own spelling comes last, so that its folder wins.
    spelled = sorted(_folders(self._models), key=lambda folder: folder.name == self.model.framework)
    return [folder / self.model.variation for folder in spelled if folder.name.lower() == framework]


def _complete_versions(variation: Path) -> list[Path]:
  return [
    folder
    for folder in _folders(variation)
    if folder.name.isdecimal() and folder.with_name(folder.name + _COMPLETE).exists()
  ]


def _folders(path: Path) -> list[Path]:
  return [child for child in path.iterdir() if child.is_dir()] if path.is_dir() else []
