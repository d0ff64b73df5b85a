"""`graftax export`: a JAX function from a Python file as a SavedModel, without TensorFlow."""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from graftax.savedmodel_io import JaxFunction, save
from graftax.savedmodel_io.writing.atomic import check_new_folder
from graftax.tools.console import progress
from graftax.tools.errors import ArrayFileError, PythonObjectError
from graftax.tools.inputs.input_options import arguments_of
from graftax.tools.inputs.parameter_files import SUFFIXES, read_parameters
from graftax.tools.inputs.python_objects import attribute_of, load_module, split_name
from graftax.tools.pytrees import PyTree

__all__ = ["export_function", "read_function"]

_MODEL_FILE = "saved_model.pb"
_HOW_TO_REPLACE = "pass --force"


def export_function(
  function: str,
  out: Path,
  *,
  inputs: Sequence[str],
  params: str | None,
  constraints: Sequence[str],
  signature: str,
  trainable: bool,
  gradient_order: int,
  target: str | None,
  platforms: Sequence[str] | None,
  lowering: Literal["stablehlo", "tf_ops"],
  force: bool,
) -> None:
  """Writes a SavedModel; see the command's help.

  Args:
    function: `FILE.py:FUNCTION` or `MODULE:FUNCTION`.
    out: the folder to create.
    inputs: each `name=dtype[sizes]`.
    params: a .npz or .safetensors file, or a name in the Python file; None if the function takes no parameters.
    constraints: conditions on symbolic sizes.
    signature: the name of the signature.
    trainable: whether TensorFlow trains the parameters.
    gradient_order: how often TensorFlow can differentiate the function; 0 for not at all.
    target: the TensorFlow that will load it, such as `"tensorflow-2.16"`.
    platforms: the platforms to compile for; None for plain ops.
    lowering: "stablehlo", or "tf_ops" for plain TensorFlow ops.
    force: replace a SavedModel that is there.

  Raises:
    GraftaxError: the function is not found, its arguments are not known, or it cannot be converted.
  """
  check_new_folder(out, replaces=_MODEL_FILE if force else None, how_to_replace=_HOW_TO_REPLACE)
  with progress() as bar:
    task = bar.add_task(f"running {function}", total=None)
    exported, values = read_function(function, inputs, params, constraints)
    bar.update(task, description=f"converting {function}")
    # TensorFlow differentiates plain ops by itself. Forbidding that takes an op that their consumers do not have.
    with_gradient = gradient_order > 0 or lowering == "tf_ops"
    save(
      out,
      {"__call__": dataclasses.replace(exported, with_gradient=with_gradient)},
      values,
      signatures={signature: "__call__"},
      trainable=trainable,
      gradient_order=gradient_order,
      target=target,
      platforms=platforms,
      lowering=lowering,
      overwrite=force,
      progress=lambda done, total: bar.update(task, description="writing", completed=done, total=total),
    )


def read_function(
  function: str, inputs: Sequence[str], params: str | None, constraints: Sequence[str]
) -> tuple[JaxFunction, PyTree]:
  """Returns a function of a Python file, which is run, and its parameters; see `export_function`."""
  where, name = split_name(function)
  module = load_module(where)
  called = _function(attribute_of(module, name, where), function)
  values = None if params is None else _parameters(params, module, where)
  args, kwargs = arguments_of(called, inputs, constraints, has_params=params is not None)
  return JaxFunction(called, args, kwargs, takes_params=values is not None), values


def _function(found: object, text: str) -> Callable[..., Any]:
  if not callable(found):
    raise PythonObjectError(f"{text} is of type {type(found).__name__}, which cannot be called; name a function.")
  return found


def _parameters(text: str, module: ModuleType, where: str) -> PyTree:
  """Returns the parameters of a file, or of a name in the module: a value, or a function that returns it."""
  path = Path(text)
  if path.suffix in SUFFIXES:
    return read_parameters(path)
  if path.is_file():
    raise ArrayFileError(f"--params {path}: expected a file of type {' or '.join(SUFFIXES)}, or a name in {where}.")
  found = attribute_of(module, text, where)
  return found() if callable(found) else found
