"""`graftax rewrite`: a model of any form, for the program that will run it."""

import dataclasses
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax

from graftax.convert.rewriting import Consumer
from graftax.savedmodel_io import JaxFunction, load, rewrite, save, write_saved_model
from graftax.savedmodel_io.writing.atomic import check_new_folder
from graftax.tools.commands.compiled_files import FileOptions, module_function, write_files, write_function
from graftax.tools.commands.export_function import read_function
from graftax.tools.errors import CommandError
from graftax.tools.inputs.module_files import EXPECTED, folder_of, is_module_file, is_saved_model, read_module
from graftax.tools.inputs.shape_options import SYMBOLIC
from graftax.xla_call_module import Module

__all__ = ["rewrite_model"]

_MODEL_FILE = "saved_model.pb"
_MANIFEST = "manifest.json"
_HOW_TO_REPLACE = "pass --force"
# For files that name no platform.
_ANY_PLATFORM = ("cpu",)
_DEFAULT_GRADIENT_ORDER = 1


def rewrite_model(
  model: str,
  out: Path,
  consumer: str,
  *,
  platforms: Sequence[str] | None,
  gradient_order: int | None,
  force: bool,
  allow_files_in: Sequence[str],
  inputs: Sequence[str] = (),
  params: str | None = None,
  files: FileOptions | None = None,
) -> str:
  """Writes a model for a consumer and returns what was done; see the command's help.

  Args:
    model: the folder of a SavedModel; a frozen graph, or a TF1 checkpoint with its graph; a file of StableHLO: what
      `jax.export` serializes, a portable artifact, bytecode, or text; or `FILE.py:FUNCTION`, a JAX function.
    out: the folder to create.
    consumer: see `Consumer.of`.
    platforms: where the result will run; None keeps the platforms of the model.
    gradient_order: of a file of StableHLO or a JAX function: how often TensorFlow can differentiate the result. None is
      1 for TensorFlow, and no derivatives for other consumers.
    force: replace a SavedModel that is there.
    allow_files_in: folders whose files the model may read besides its own.
    inputs: of a JAX function: each `name=dtype[sizes]`.
    params: of a JAX function: a file of parameters, or a name in the Python file; None if it takes none.
    files: choices if the consumer reads files of StableHLO.

  Raises:
    GraftaxError: the model cannot be read, or not be written for the consumer; or an option is given that this kind of
      model, or this consumer, does not have.
  """
  wanted = Consumer.of(consumer)
  choices = FileOptions() if files is None else files
  is_function = not os.path.exists(model) and ":" in model
  _check_options(wanted, choices, platforms, gradient_order)
  _check_options_of_models(model, is_function, choices, gradient_order, allow_files_in, inputs, params)
  order = _DEFAULT_GRADIENT_ORDER if gradient_order is None else gradient_order
  written = _MANIFEST if wanted.form == "files" else _MODEL_FILE
  check_new_folder(out, replaces=written if force else None, how_to_replace=_HOW_TO_REPLACE)
  if is_function:
    function, values = read_function(model, inputs, params, choices.constraints)
    if wanted.form == "files":
      return write_function(function, values, out, wanted, choices, platforms, force)
    _save(function, values, out, wanted, platforms or _ANY_PLATFORM, order, force)
    return f"written for {wanted.name}"
  if wanted.form == "files":
    return write_files(model, out, wanted, choices, platforms=platforms, force=force, allow_files_in=allow_files_in)
  if is_saved_model(model):
    report = rewrite(
      folder_of(model), out, consumer, platforms=platforms, overwrite=force, allow_files_in=allow_files_in
    )
    return str(report)
  if not is_module_file(model):
    return _rewrite_graph(model, out, consumer, platforms, force, allow_files_in)
  _save_module(read_module(model), out, wanted, platforms, order, force)
  return f"written for {wanted.name}"


def _check_options(
  consumer: Consumer, files: FileOptions, platforms: Sequence[str] | None, gradient_order: int | None
) -> None:
  """Raises if an option is given that a consumer does not have."""
  consumer.check_platforms(platforms)
  if files != FileOptions() and consumer.form != "files":
    raise CommandError(
      f"--batch, --shape, --constraint and --weights are for --for stablehlo, not for {consumer.name}."
    )
  if gradient_order is not None and (consumer.form == "files" or consumer.converter):
    raise CommandError(
      "--gradient-order is for TensorFlow, which differentiates what it reads: --for tensorflow, a release of it, or "
      f"plain, not for {consumer.name}."
    )


def _check_options_of_models(
  model: str,
  is_function: bool,
  files: FileOptions,
  gradient_order: int | None,
  allow_files_in: Sequence[str],
  inputs: Sequence[str],
  params: str | None,
) -> None:
  """Raises if an option is given that this kind of model does not have."""
  if is_function and (files.batch != SYMBOLIC or files.shapes):
    raise CommandError("--batch and --shape are for models; the sizes of a JAX function are those of --input.")
  if not is_function and (inputs or params is not None):
    raise CommandError("--input and --params are for a JAX function, FILE.py:FUNCTION.")
  if not is_function and not os.path.exists(model):
    raise CommandError(f"{model}: no such file or folder. {EXPECTED}.")
  is_single = is_function or (not is_saved_model(model) and is_module_file(model))
  if is_single and allow_files_in:
    raise CommandError("--allow-files-in is for SavedModels and graphs; others read no files but their own.")
  if is_single and params is None and files.weights == "beside":
    raise CommandError(
      "--weights beside is for models and functions with parameters. Those of a file of StableHLO are "
      "constants in its code; pass parameters of a function with --params."
    )
  if not is_single and gradient_order is not None:
    raise CommandError(
      "--gradient-order is for files of StableHLO and JAX functions; other models keep the derivatives that they have."
    )


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


def _save_module(
  module: Module, out: Path, consumer: Consumer, platforms: Sequence[str] | None, gradient_order: int, force: bool
) -> None:
  function = module_function(module, FileOptions())
  chosen = platforms or module.platforms or _ANY_PLATFORM
  with jax.enable_x64(True):  # the types of the file are kept
    _save(function, None, out, consumer, chosen, gradient_order, force)


def _save(
  function: JaxFunction,
  params: Any,
  out: Path,
  consumer: Consumer,
  platforms: Sequence[str],
  gradient_order: int,
  force: bool,
) -> None:
  is_plain = consumer.form == "tf_ops"
  # TensorFlow differentiates plain ops by itself. Forbidding that takes an op that converters do not have.
  function = dataclasses.replace(function, with_gradient=gradient_order > 0 or consumer.converter is not None)
  save(
    out,
    {"__call__": function},
    params,
    target=consumer.converter if is_plain else consumer.target,
    platforms=None if is_plain else platforms,
    gradient_order=0 if consumer.converter else gradient_order,
    lowering="tf_ops" if is_plain else "stablehlo",
    overwrite=force,
  )
