"""Files of StableHLO that commands take: which they are, what they hold, and names for their arguments."""

import os
import re

from graftax.graphdef_ir import read_regular_file
from graftax.tools.errors import CommandError
from graftax.xla_call_module import DecodeError, Module, StableHloError

__all__ = ["EXPECTED", "folder_of", "input_names", "is_module_file", "is_saved", "is_saved_model", "read_module"]

_GRAPH_SUFFIXES = (".pb", ".pbtxt", ".meta")
_BYTECODE = b"ML\xefR"
EXPECTED = (
  "Expected the folder of a SavedModel, a frozen graph (.pb, .pbtxt), the .meta file of a TF1 checkpoint, or a file of "
  "StableHLO: what Module.save writes or jax.export serializes, a portable artifact, bytecode, or text"
)
# The first entry of what Module.save writes, in the header of the archive.
_SAVED = b"module.json"
# First bytes of other kinds of files that a user may pass by mistake, and what to do with these files.
_OTHER_FILES = {
  b"\x93NUMPY": "an array of NumPy",
  b"PK\x03\x04": "a zip archive, such as a .keras or .npz file. In Keras, model.export writes a SavedModel",
  b"\x89HDF\r\n\x1a\n": "an HDF5 file, such as a Keras model. In Keras, model.export writes a SavedModel",
  b"\x1f\x8b": "a compressed file. If it is an archive, unpack it",
}


def is_module_file(model: str) -> bool:
  """Returns whether a path is that of a file of StableHLO rather than of a model of TensorFlow."""
  return not is_saved_model(model) and not model.endswith(_GRAPH_SUFFIXES)


def is_saved_model(model: str) -> bool:
  """Returns whether a path is that of a SavedModel: of its folder, or of the file in it."""
  return os.path.isdir(model) or os.path.basename(model).startswith("saved_model.")


def folder_of(model: str) -> str:
  """Returns the folder of a SavedModel, given its path or the path of the file in it."""
  return model if os.path.isdir(model) else os.path.dirname(model) or "."


def read_module(path: str) -> Module:
  """Returns the module of a file: of `Module.save` or `jax.export`, a portable artifact, bytecode, or text.

  Raises:
    CommandError: the file holds something else, or a module that this version does not read.
  """
  data = read_regular_file(path, "the model")
  if not is_saved(data) and (what := _other(data)):
    raise CommandError(f"{path} is {what}. {EXPECTED}.")
  try:
    return _module(data)
  except DecodeError as e:
    raise CommandError(f"{path} cannot be read as StableHLO: {str(e).rstrip('.')}. {EXPECTED}.") from e
  except StableHloError as e:
    raise CommandError(f"{path}: {e}") from e


def _is_safetensors(data: bytes) -> bool:
  """Returns whether a file begins with the size of a JSON object, and the object follows."""
  size = int.from_bytes(data[:8], "little")
  return data[8:10] == b'{"' and size <= len(data) - 8


def _other(data: bytes) -> str | None:
  """Returns what else a file is, or None if it may be StableHLO."""
  if _is_safetensors(data):
    return "a file of safetensors, which holds weights without a program"
  return next((what for beginning, what in _OTHER_FILES.items() if data.startswith(beginning)), None)


def is_saved(data: bytes) -> bool:
  """Returns whether bytes begin as what `Module.save` writes does."""
  return data.startswith(b"PK\x03\x04") and data[30 : 30 + len(_SAVED)] == _SAVED


def _module(data: bytes) -> Module:
  if is_saved(data):
    return Module.load(data)
  # Text is UTF-8, and a serialized Exported begins with binary offsets.
  is_text = b"\0" not in data[:100]
  return Module.from_bytes(data) if is_text or data.startswith(_BYTECODE) else Module.from_exported(data)


def input_names(module: Module) -> list[str]:
  """Returns a name for each argument of a module: its path in the exported function if that is known.

  No two of them are the same.
  """
  if module.signature is None:
    return [f"input_{i}" for i in range(len(module.inputs))]
  names: dict[str, None] = {}
  for number, leaf in enumerate(module.signature.inputs):
    name = re.sub(r"\W+", "_", leaf.path).strip("_").lower()
    while name in names:
      name = f"{name}_input_{number}"
    names[name] = None
  return list(names)
