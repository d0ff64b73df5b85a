"""`graftax convert`: a signature as a jax.export artifact and its parameters as safetensors."""

import contextlib
import dataclasses
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax import export

from graftax.convert import AnnotatedFunction, MissingInputError, Variable, compiler_options
from graftax.graphdef_ir import GraftaxError, TensorSpec
from graftax.hub_io import load
from graftax.ops_jax import InvalidInputError
from graftax.savedmodel_io import SavedModel, write_safetensors
from graftax.savedmodel_io.errors import OutputExistsError
from graftax.savedmodel_io.writing.atomic import check_new_folder, new_folder
from graftax.tools.commands.loading_code import loading_code
from graftax.tools.console import progress, remarks
from graftax.tools.errors import ExportError, notes_of
from graftax.tools.inputs.open_sizes import is_traced, open_sizes_advice, with_numbers
from graftax.tools.inputs.shape_options import input_shapes
from graftax.tools.pytrees import Json, Leaf, PyTree
from graftax.xla_call_module import Module, PlatformError

__all__ = ["MODULE_FILE", "PARAMETERS_FILE", "PROGRAM_FILE", "ExportedModel", "export_model"]

PROGRAM_FILE = "program.jax"
MODULE_FILE = "program.stablehlo.zip"
PARAMETERS_FILE = "parameters.safetensors"
_MANIFEST_FILE = "manifest.json"
_CODE_FILE = "load.py"
_HOW_TO_REPLACE = "pass --force"
# What programs are exported for by default.
_PLATFORMS = ("cpu", "cuda", "tpu")


@dataclasses.dataclass(frozen=True, slots=True)
class ExportedModel:
  """An exported model on disk.

  Attributes:
    folder: where.
    code: Python code that loads and calls it with JAX alone; also in `load.py`.
    size_bytes: of the program and of the parameters.
  """

  folder: Path
  code: str
  size_bytes: Mapping[str, int]


def export_model(
  handle: str | os.PathLike[str],
  out: Path,
  *,
  signature: str | None,
  tags: Sequence[str] | None,
  batch: str,
  shapes: Sequence[str],
  constraints: Sequence[str] = (),
  platforms: Sequence[str] | None,
  gradient: bool,
  force: bool,
  with_compiler_options: bool = True,
  load_options: Mapping[str, Any] | None = None,
) -> ExportedModel:
  """Writes a folder that JAX loads without graftax; see the command's help.

  Raises:
    GraftaxError: the model cannot be read, converted, or exported with these shapes.
  """
  replaces = _MANIFEST_FILE if force else None
  check_new_folder(out, replaces=replaces, how_to_replace=_HOW_TO_REPLACE)
  bar = progress()
  task = bar.add_task(f"reading {handle}", total=None)
  with bar:
    model = load(
      handle,
      tags or None,
      progress=lambda done, total: bar.update(task, completed=done, total=total),
      **(load_options or {}),
    )
  if Path(model.path).resolve().is_relative_to(out.resolve()):
    raise OutputExistsError(f"{out} holds the model {model.path!r} itself; choose another folder to write to.")
  signature = model.default_entry if signature is None else signature
  specs = model.signatures[signature].inputs
  arguments = input_shapes(specs, batch=batch, shapes=shapes, constraints=constraints)
  _note_narrowed("input", specs, arguments)
  with bar:
    bar.update(task, description=f"converting {signature}")
    fn, variables = model.convert(signature)
    bar.remove_task(task)
    task = bar.add_task("exporting", total=None)
    parameters = {name: _as_jax_holds_it(name, value) for name, value in variables.items()}
    with _without_source_locations():
      exported, options = _export_for(fn, parameters, arguments, platforms)
      program = bytes(exported.serialize(vjp_order=1 if gradient else 0))
    _note_narrowed("output", model.signatures[signature].outputs, _unflattened(exported)[1])
    bar.update(task, description="writing parameters")
    manifest = _manifest(model, signature, exported, variables, gradient)
    manifest["compiler_options"] = {"cpu": options} if options and with_compiler_options else {}
    code = loading_code(manifest)
    with new_folder(out, replaces=replaces, how_to_replace=_HOW_TO_REPLACE) as folder:
      (folder / PROGRAM_FILE).write_bytes(program)
      Module.from_exported(program, guard=False).save(folder / MODULE_FILE)
      (folder / _MANIFEST_FILE).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
      (folder / _CODE_FILE).write_text(code, encoding="utf-8")
      write_safetensors(folder / PARAMETERS_FILE, parameters, metadata={"format": "jax"})
      sizes = {name: (folder / name).stat().st_size for name in (PROGRAM_FILE, PARAMETERS_FILE)}
  return ExportedModel(out, code, sizes)


@contextlib.contextmanager
def _without_source_locations() -> Iterator[None]:
  """Exports without the files and lines of this machine; the names of operations stay."""
  limit = jax.config.jax_traceback_in_locations_limit
  jax.config.update("jax_traceback_in_locations_limit", 0)
  try:
    yield
  finally:
    jax.config.update("jax_traceback_in_locations_limit", limit)


def _export_for(
  fn: AnnotatedFunction,
  parameters: Mapping[str, np.ndarray],
  arguments: Mapping[str, jax.ShapeDtypeStruct],
  platforms: Sequence[str] | None,
) -> tuple[export.Exported, dict[str, str]]:
  """Exports for the given platforms; for None, for the usual ones that the model has code for."""
  if platforms is not None:
    return _export(fn, parameters, arguments, platforms)
  try:
    return _export(fn, parameters, arguments, _PLATFORMS)
  except ExportError as e:
    if not isinstance(e.__cause__, PlatformError):
      raise
    allowed = [platform for platform in _PLATFORMS if _has_code_for(fn, parameters, arguments, platform)]
    if not allowed:
      raise
  _note(f"the program runs on {', '.join(allowed)} alone: the model holds code for no other platform")
  return _export(fn, parameters, arguments, allowed)


def _has_code_for(
  fn: AnnotatedFunction,
  parameters: Mapping[str, np.ndarray],
  arguments: Mapping[str, jax.ShapeDtypeStruct],
  platform: str,
) -> bool:
  try:
    _export(fn, parameters, arguments, (platform,))
  except ExportError:
    return False
  return True


def _export(
  fn: AnnotatedFunction,
  parameters: Mapping[str, np.ndarray],
  arguments: Mapping[str, jax.ShapeDtypeStruct],
  platforms: Sequence[str],
) -> tuple[export.Exported, dict[str, str]]:
  """Exports `(params, inputs) -> outputs`, or `(params, inputs, rng)` for a function that draws random numbers.

  Returns what was exported, and the options with which XLA should compile it for the CPU.
  """

  def call(params: Mapping[str, Leaf], inputs: Mapping[str, Leaf], *rng: jax.Array) -> dict[str, Leaf]:
    key = jax.random.wrap_key_data(rng[0]) if rng else None
    outputs, new_params = fn(params, **{fn.rng_name: key}, **inputs)
    assigned[:] = [name for name in new_params if new_params[name] is not params[name]]
    return outputs

  assigned: list[str] = []
  specs = {name: jax.ShapeDtypeStruct(value.shape, value.dtype) for name, value in parameters.items()}
  compiled = jax.jit(call)
  exporter = export.export(compiled, platforms=tuple(platforms) or None)
  given: tuple[PyTree, ...] = (specs, dict(arguments))
  try:
    try:
      exported = exporter(*given)
    except MissingInputError:
      given = (*given, jax.ShapeDtypeStruct((2,), np.uint32))
      exported = exporter(*given)
  except InvalidInputError as e:
    # Sizes that JAX cannot decide look to a lowering like inputs that do not fit; with numbers they may.
    advice = _advice(e, call, specs, arguments, platforms)
    if not advice:
      raise
    raise _export_error(e, fn.name, arguments, advice) from e
  except PlatformError as e:
    raise _export_error(e, fn.name, arguments, _advice(e, call, specs, arguments, platforms)) from e
  except GraftaxError:
    raise
  except Exception as e:  # whatever JAX says of sizes it cannot decide, or of platforms it does not know
    raise _export_error(e, fn.name, arguments, _advice(e, call, specs, arguments, platforms)) from e
  if assigned:
    _note(f"the signature assigns the variables {assigned}; the exported program does not return their new values")
  # JAX keeps the trace that was exported.
  runs_on_cpu = "cpu" in exported.platforms
  return exported, compiler_options("cpu", compiled.trace(*given).jaxpr) if runs_on_cpu else {}


def _export_error(
  error: Exception, signature: str, arguments: Mapping[str, jax.ShapeDtypeStruct], advice: str
) -> ExportError:
  shapes = ", ".join(f"{name}{_shape_text(argument)}" for name, argument in arguments.items())
  reason = str(error).strip().partition("\n")[0]
  text = f"signature {signature!r} cannot be exported for {shapes}: {type(error).__name__}: {reason}"
  return ExportError("\n".join([text, *notes_of(error), *([advice] if advice else [])]))


def _advice(
  error: Exception,
  call: Callable[..., Any],
  parameters: Mapping[str, jax.ShapeDtypeStruct],
  arguments: Mapping[str, jax.ShapeDtypeStruct],
  platforms: Sequence[str],
) -> str:
  """Returns what would help: numbers for sizes if these can be traced, or one platform if it can be."""
  if isinstance(error, PlatformError):
    return "Name the platforms that the model was lowered for with --platforms."
  key = jax.ShapeDtypeStruct((2,), np.uint32)
  if any(not isinstance(size, int) for argument in arguments.values() for size in argument.shape):

    def by_inputs(inputs: PyTree, params: PyTree, key: Leaf) -> PyTree:
      return call(params, inputs, key)

    return open_sizes_advice(error, by_inputs, arguments, parameters, key)
  can_be_traced = len(platforms) > 1 and is_traced(call, parameters, arguments, key)
  return f"Try one platform of {', '.join(platforms)} alone with --platforms." if can_be_traced else ""


def _note_narrowed(what: str, specs: Mapping[str, Leaf], values: Mapping[str, Leaf]) -> None:
  """Notes which tensors have a narrower type than in the signature, because 64-bit types are off."""
  for name, spec in specs.items():
    if isinstance(spec, TensorSpec) and name in values and not spec.dtype.numpy.hasobject:
      wanted, got = spec.dtype.numpy, values[name].dtype
      if wanted != got:
        _note(f"{what} {name!r} becomes {got.name}; JAX_ENABLE_X64=1 keeps {wanted.name}")


def _note(text: str) -> None:
  remarks().print(f"note: {text}", style="yellow", markup=False)


def _as_jax_holds_it(name: str, value: np.ndarray) -> np.ndarray:
  """Returns the parameter with the dtype that JAX gives it: without 64-bit types unless they are enabled."""
  if value.dtype.hasobject:
    raise ExportError(f"parameter {name!r} holds strings, which JAX programs cannot take.")
  dtype = jax.dtypes.canonicalize_dtype(value.dtype)
  if dtype == value.dtype:
    return np.asarray(value)
  narrow = np.asarray(value).astype(dtype)
  if dtype.kind in "iu" and not np.array_equal(narrow.astype(value.dtype), value):
    raise ExportError(
      f"parameter {name!r} holds {value.dtype.name} values that do not fit {dtype.name}; enable 64-bit types with the "
      f"environment variable JAX_ENABLE_X64=1."
    )
  _note(f"parameter {name!r} becomes {dtype.name}; JAX_ENABLE_X64=1 keeps {value.dtype.name}")
  return narrow


def _manifest(
  model: SavedModel, signature: str, exported: export.Exported, variables: Mapping[str, Variable], gradient: bool
) -> dict[str, Any]:
  args, outputs = _unflattened(exported)
  return {
    "format": "graftax-export",
    "version": 1,
    "signature": signature,
    "inputs": {name: _tensor(aval) for name, aval in args[1].items()},
    "outputs": {name: _tensor(aval) for name, aval in outputs.items()},
    "rng": len(args) > 2,
    "parameters": {name: {"trainable": value.trainable} for name, value in variables.items()},
    "gradient": gradient,
    "platforms": list(exported.platforms),
    "x64": bool(jax.config.jax_enable_x64),
    "jax_version": jax.__version__,
    "calling_convention_version": exported.calling_convention_version,
    "tensorflow_version": model.tensorflow_version,
    "program_file": PROGRAM_FILE,
    "module_file": MODULE_FILE,
    "parameters_file": PARAMETERS_FILE,
  }


def _unflattened(exported: export.Exported) -> tuple[PyTree, PyTree]:
  """Returns the types of the positional arguments and of the outputs. Both are nested."""
  args, _ = jax.tree.unflatten(exported.in_tree, exported.in_avals)
  return args, jax.tree.unflatten(exported.out_tree, exported.out_avals)


def _tensor(aval: Any) -> dict[str, Json]:
  example = list(with_numbers(aval).shape)
  return {"dtype": aval.dtype.name, "shape": [str(size) for size in aval.shape], "example_shape": example}


def _shape_text(argument: jax.ShapeDtypeStruct) -> str:
  return "[" + ", ".join(str(size) for size in argument.shape) + "]"
