"""The only import of `graftax.savedmodel_io`, a higher layer: it happens when the path of a SavedModel is converted."""

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from graftax.convert.errors import ConversionError
from graftax.convert.program import Program

# Any in this module: specs are anything with shape and dtype, and `graftax.savedmodel_io` is imported by name.

_DEFAULT = "serving_default"


def program_from_saved_model(path: Path, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Program:
  """Returns the program of a signature or restored function of a SavedModel on disk.

  Args:
    path: its folder.
    args: specs that choose among the traces of a restored function.
    kwargs: `signature`, the name of a signature or restored function, and `tags`; all others are specs by name.

  Raises:
    ConversionError: graftax-savedmodel-io is not installed.
  """
  try:
    io: Any = importlib.import_module("graftax.savedmodel_io")
  except ModuleNotFoundError as e:
    raise ConversionError(
      f"convert: reading the SavedModel {str(path)!r} needs the package graftax-savedmodel-io, which is not "
      f"installed ({e})."
    ) from e
  specs = dict(kwargs)
  name, tags = specs.pop("signature", _DEFAULT), specs.pop("tags", None)
  program: Program = io.load(path, tags).program(name, *args, **specs)
  return program
