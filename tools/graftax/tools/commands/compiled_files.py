"""`graftax rewrite --for stablehlo`: a model of any form as files of StableHLO."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import jax

from graftax.convert.rewriting import Consumer
from graftax.graphdef_ir import DType, PartialShape, TensorSpec
from graftax.savedmodel_io import JaxFunction, SavedModel, load, write_stablehlo
from graftax.tools.errors import CommandError, ShapeOptionError
from graftax.tools.inputs.module_files import folder_of, input_names, is_module_file, is_saved_model, read_module
from graftax.tools.inputs.shape_options import SYMBOLIC, input_shapes
from graftax.tools.pytrees import Leaf, PyTree
from graftax.xla_call_module import Module, lift
from graftax.xla_call_module.rewriting import open_arguments

__all__ = ["FileOptions", "module_function", "write_files", "write_function"]


@dataclasses.dataclass(frozen=True, slots=True)
class FileOptions:
  """Choices for files of StableHLO.

  Attributes:
    batch: a number for open first dimensions, or "symbolic".
    shapes: each `name=2,?,width,3`, see `input_shapes`.
    constraints: conditions on open sizes.
    weights: whether parameters are constants of the files, or arguments with a safetensors file.
  """

  batch: str = SYMBOLIC
  shapes: Sequence[str] = ()
  constraints: Sequence[str] = ()
  weights: Literal["inside", "beside"] = "inside"


def write_files(
  model: str,
  out: Path,
  consumer: Consumer,
  options: FileOptions,
  *,
  platforms: Sequence[str] | None,
  force: bool,
  allow_files_in: Sequence[str],
) -> str:
  """Writes a folder of StableHLO for the signatures of a model, or for a module, and returns what was done.

  Raises:
    GraftaxError: the model cannot be read, or not be written.
  """
  if is_module_file(model):
    with jax.enable_x64(True):  # the types of the file are kept
      return write_function(
        module_function(read_module(model), options), None, out, consumer, options, platforms, force
      )
  loaded = load(folder_of(model) if is_saved_model(model) else model, allow_files_in=allow_files_in)
  inputs = {name: _shapes(signature.inputs, options) for name, signature in loaded.signatures.items()}
  _check_names(options, {name for signature in loaded.signatures.values() for name in signature.inputs})
  return _write(loaded, None, out, consumer, options, platforms, force, inputs=inputs)


def write_function(
  function: JaxFunction,
  params: PyTree,
  out: Path,
  consumer: Consumer,
  options: FileOptions,
  platforms: Sequence[str] | None,
  force: bool,
) -> str:
  """Writes a JAX function and returns what was done; see `write_files`."""
  return _write({"main": function}, params, out, consumer, options, platforms, force)


def _write(
  functions: SavedModel | Mapping[str, JaxFunction],
  params: PyTree,
  out: Path,
  consumer: Consumer,
  options: FileOptions,
  platforms: Sequence[str] | None,
  force: bool,
  **inputs: Any,
) -> str:
  chosen = tuple(platforms or ("cpu",))
  if len(chosen) != 1:
    raise CommandError(f"--platforms {','.join(chosen)}: a file of StableHLO is for one platform; name one.")
  version = consumer.name.partition("-")[2] or None
  written = write_stablehlo(
    out, functions, params, version=version, platform=chosen[0], weights=options.weights, overwrite=force, **inputs
  )
  return f"StableHLO {', '.join(written)} for {chosen[0]}, with weights {options.weights}"


def module_function(module: Module, options: FileOptions) -> JaxFunction:
  """Returns the function of a module by names of its arguments, with the sizes that the options give.

  Types are those of the file; the caller enables 64-bit types while it traces the function.
  """
  lifted = lift(module, check_platform=False, x64="enable")
  names = input_names(module)
  if options == FileOptions(weights=options.weights):
    specs = dict(zip(names, open_arguments(module), strict=True))
  else:
    declared = (TensorSpec(PartialShape(x.shape), DType.from_numpy(x.dtype)) for x in module.inputs)
    specs = _shapes(dict(zip(names, declared, strict=True)), options)
    _check_names(options, names)

  def call(**inputs: Leaf) -> dict[str, Leaf]:
    return {f"output_{i}": value for i, value in enumerate(lifted(*(inputs[name] for name in names)))}

  return JaxFunction(call, kwargs=specs, takes_params=False)


def _shapes(inputs: Mapping[str, Leaf], options: FileOptions) -> dict[str, jax.ShapeDtypeStruct]:
  mine = [shape for shape in options.shapes if shape.partition("=")[0] in inputs]
  return input_shapes(inputs, batch=options.batch, shapes=mine, constraints=options.constraints)


def _check_names(options: FileOptions, names: Sequence[str] | set[str]) -> None:
  unknown = [shape for shape in options.shapes if shape.partition("=")[0] not in names]
  if unknown:
    raise ShapeOptionError(f"--shape {unknown[0]!r}: no input has this name; the inputs are {sorted(names)}.")
