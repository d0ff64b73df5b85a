"""`graftax rewrite`: a model of any form as a SavedModel for the program that will run it."""

import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax

from graftax.convert.rewriting import Consumer
from graftax.graphdef_ir import read_regular_file
from graftax.savedmodel_io import JaxFunction, load, rewrite, save, write_saved_model
from graftax.savedmodel_io.writing.atomic import check_new_folder
from graftax.tools.errors import CommandError
from graftax.xla_call_module import DecodeError, Module, StableHloError, lift
from graftax.xla_call_module.rewriting import open_arguments

__all__ = ["input_names", "is_module_file", "read_module", "rewrite_model"]

_MODEL_FILE = "saved_model.pb"
_GRAPH_SUFFIXES = (".pb", ".pbtxt", ".meta")
_HOW_TO_REPLACE = "pass --force"
_BYTECODE = b"ML\xefR"
_EXPECTED = (
  "Expected the folder of a SavedModel, a frozen graph (.pb, .pbtxt), the .meta file of a TF1 checkpoint, or a file of "
  "StableHLO: what jax.export serializes, a portable artifact, bytecode, or text"
)
# First bytes of other kinds of files that a user may pass by mistake, and what to do with these files.
_OTHER_FILES = {
  b"\x93NUMPY": "an array of NumPy",
  b"PK\x03\x04": "a zip archive, such as a .keras or .npz file. In Keras, model.export writes a SavedModel",
  b"\x89HDF\r\n\x1a\n": "an HDF5 file, such as a Keras model. In Keras, model.export writes a SavedModel",
  b"\x1f\x8b": "a compressed file. If it is an archive, unpack it",
}
# For files that name no platform.
_ANY_PLATFORM = ("cpu",)


def rewrite_model(
  model: str,
  out: Path,
  consumer: str,
  *,
  platforms: Sequence[str] | None,
  gradient_order: int,
  force: bool,
  allow_files_in: Sequence[str],
) -> str:
  """Writes a SavedModel for a consumer and returns what was done; see the command's help.

  Args:
    model: the folder of a SavedModel; a frozen graph, or a TF1 checkpoint with its graph; or a file of StableHLO: what
      `jax.export` serializes, a portable artifact, bytecode, or text.
    out: the folder to create.
    consumer: see `Consumer.of`.
    platforms: where the result will run; None keeps the platforms of the model.
    gradient_order: how often TensorFlow can differentiate the result, if the model is a file of StableHLO.
    force: replace a SavedModel that is there.
    allow_files_in: folders whose files the model may read besides its own.

  Raises:
    GraftaxError: the model cannot be read, or not be written for the consumer.
  """
  check_new_folder(out, replaces=_MODEL_FILE if force else None, how_to_replace=_HOW_TO_REPLACE)
  wanted = Consumer.of(consumer)
  if not os.path.exists(model):
    raise CommandError(f"{model}: no such file or folder. {_EXPECTED}.")
  if _is_saved_model(model):
    folder = model if os.path.isdir(model) else os.path.dirname(model) or "."
    report = rewrite(folder, out, consumer, platforms=platforms, overwrite=force, allow_files_in=allow_files_in)
    return str(report)
  if not is_module_file(model):
    return _rewrite_graph(model, out, consumer, platforms, force, allow_files_in)
  _save_module(read_module(model), out, wanted, platforms, gradient_order, force)
  return f"written for {wanted.name}"


def is_module_file(model: str) -> bool:
  """Returns whether a path is that of a file of StableHLO rather than of a model of TensorFlow."""
  return not _is_saved_model(model) and not model.endswith(_GRAPH_SUFFIXES)


def _is_saved_model(model: str) -> bool:
  return os.path.isdir(model) or os.path.basename(model).startswith("saved_model.")


def _rewrite_graph(
  model: str, out: Path, consumer: str, platforms: Sequence[str] | None, force: bool, allow_files_in: Sequence[str]
) -> str:
  """Writes a single graph as a SavedModel, and rewrites that for the consumer."""
  with tempfile.TemporaryDirectory() as folder:
    copy = os.path.join(folder, "model")
    write_saved_model(
      copy,
      {"__call__": load(model, allow_files_in=allow_files_in).program()},
      signatures={"serving_default": "__call__"},
    )
    return str(rewrite(copy, out, consumer, platforms=platforms, overwrite=force))


def read_module(path: str) -> Module:
  """Returns the module of a file: what `jax.export` serialized, a portable artifact, bytecode, or text.

  Raises:
    CommandError: the file holds something else, or a module that this version does not read.
  """
  data = read_regular_file(path, "the model")
  for beginning, what in _OTHER_FILES.items():
    if data.startswith(beginning):
      raise CommandError(f"{path} is {what}. {_EXPECTED}.")
  # Text is UTF-8, and a serialized Exported begins with binary offsets.
  is_text = b"\0" not in data[:100]
  try:
    return Module.from_bytes(data) if is_text or data.startswith(_BYTECODE) else Module.from_exported(data)
  except DecodeError as e:
    raise CommandError(f"{path} cannot be read as StableHLO: {str(e).rstrip('.')}. {_EXPECTED}.") from e
  except StableHloError as e:
    raise CommandError(f"{path}: {e}") from e


def _save_module(
  module: Module, out: Path, consumer: Consumer, platforms: Sequence[str] | None, gradient_order: int, force: bool
) -> None:
  specs = dict(zip(input_names(module), open_arguments(module), strict=True))
  # The types of the file are kept, even if 64-bit types are off in this process.
  lifted = lift(module, check_platform=False, x64="enable")

  def call(**inputs: Any) -> dict[str, Any]:
    return {f"output_{i}": value for i, value in enumerate(lifted(*(inputs[name] for name in specs)))}

  is_plain = consumer.form == "tf_ops"
  with jax.enable_x64(True):
    save(
      out,
      {"__call__": JaxFunction(call, kwargs=specs, takes_params=False, with_gradient=gradient_order > 0 or is_plain)},
      target=consumer.converter if is_plain else consumer.target,
      platforms=None if is_plain else platforms or module.platforms or _ANY_PLATFORM,
      gradient_order=0 if consumer.converter else gradient_order,
      lowering=consumer.form,
      overwrite=force,
    )


def input_names(module: Module) -> list[str]:
  """Returns a name for each argument of a module: its path in the exported function if that is known."""
  if module.signature is None:
    return [f"input_{i}" for i in range(len(module.inputs))]
  names: list[str] = []
  for number, leaf in enumerate(module.signature.inputs):
    name = re.sub(r"\W+", "_", leaf.path).strip("_").lower()
    names.append(name if name not in names else f"{name}_input_{number}")
  return names
