"""The only import of `graftax.savedmodel_io`, a higher layer: it happens when the path of a SavedModel is converted."""

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from graftax.convert.program import Program
from graftax.convert.pytrees import PyTree
from graftax.graphdef_ir import optional_library

_DEFAULT = "serving_default"


def program_from_saved_model(path: Path, args: tuple[PyTree, ...], kwargs: Mapping[str, PyTree]) -> Program:
  """Returns the program of a signature or restored function of a SavedModel on disk.

  Args:
    path: its folder.
    args: specs that choose among the traces of a restored function.
    kwargs: `signature`, the name of a signature or restored function, `tags`, and `allow_files_in`; all others are
      specs by name.

  Raises:
    LibraryNotFoundError: graftax-savedmodel-io is not installed.
  """
  with optional_library(f"convert: reading the SavedModel {str(path)!r}", "graftax-savedmodel-io"):
    io: Any = importlib.import_module("graftax.savedmodel_io")
  specs = dict(kwargs)
  name, tags = specs.pop("signature", _DEFAULT), specs.pop("tags", None)
  allowed = specs.pop("allow_files_in", ())
  program: Program = io.load(path, tags, allow_files_in=allowed).program(name, *args, **specs)
  return program
