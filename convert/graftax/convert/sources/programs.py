"""Makes a `Program` of anything that can be converted: live functions, graphs and files."""

import inspect
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from graftax.convert._saved_model import program_from_saved_model
from graftax.convert.annotated import AnnotatedFunction
from graftax.convert.errors import ConversionError
from graftax.convert.live.function import EXPECTED, program_from_concrete_function, trace
from graftax.convert.options import current_options
from graftax.convert.program import Program
from graftax.convert.pytrees import PyTree
from graftax.convert.sources.graph_def import program_from_graph_def
from graftax.convert.subgraph import cut
from graftax.graphdef_ir import Graph, ModelFolder, ParseError, graph_from_proto, parse_graph, read_regular_file

__all__ = ["is_jax_function", "program_from"]

_SAVED_MODELS = "graftax.savedmodel_io."
# First bytes of files that are often mistaken for graphs -> what reads such files.
_OTHER_FILES = {
  b"PK\x03\x04": "It is a zip archive, as .keras files are: load it with keras.models.load_model, or its weights with "
  "graftax.savedmodel_io.read_weights.",
  b"\x89HDF\r\n": "It is an HDF5 file, as Keras writes them: load it with keras.models.load_model, or its weights with "
  "graftax.savedmodel_io.read_weights.",
}

_GRAPH_OPTIONS = ("inputs", "outputs", "variables", "allow_files_in", "extra_ops")


def program_from(source: Any, args: tuple[PyTree, ...], kwargs: Mapping[str, PyTree]) -> Program:
  """Returns the `Program` of anything that `convert` accepts.

  Raises:
    ConversionError: `source` cannot be converted, or the arguments do not fit it.
  """
  _refuse(source)
  if isinstance(source, Program):
    _refuse_arguments(source.name, args, kwargs, ())
    return source
  if isinstance(source, str | os.PathLike):
    return _program_from_file(Path(source), args, kwargs)
  if isinstance(source, Graph | bytes | bytearray | memoryview) or _is_graph_def(source):
    return _program_from_graph(source, "GraphDef", args, kwargs)
  return program_from_concrete_function(*trace(source, args, kwargs))


def _refuse(source: Any) -> None:
  if isinstance(source, AnnotatedFunction):
    raise ConversionError(
      f"convert: {source.name!r} is a JAX function already, the result of a conversion; call it directly."
    )
  if inspect.isclass(source):
    raise ConversionError(f"convert: got the class {source.__name__}, {EXPECTED}. Pass an instance.")
  if _module(source).startswith(_SAVED_MODELS):
    raise ConversionError(
      f"convert: got {source!r}, which graftax.savedmodel_io has read. Call model.convert(name of a signature or "
      "function) instead; for convert_subgraph, pass model.program(name)."
    )
  if is_jax_function(source):
    raise ConversionError(f"convert: got {source!r}, which is a JAX function already; call it directly.")


def is_jax_function(source: Any) -> bool:
  """Returns whether an object is a function that JAX made, such as the result of `jax.jit`."""
  # Functions made by jax2tf are plain Python functions of a JAX module, but they can be converted.
  module = _module(source) if not inspect.isfunction(source) else ""
  return callable(source) and module.partition(".")[0] in ("jax", "jaxlib")


def _module(source: Any) -> str:
  """Returns the module of the type of an object; messages of our own schema have none."""
  return type(source).__module__ or ""


def _is_graph_def(source: Any) -> bool:
  return getattr(getattr(source, "DESCRIPTOR", None), "name", "") == "GraphDef"


def _program_from_file(path: Path, args: tuple[PyTree, ...], kwargs: Mapping[str, PyTree]) -> Program:
  if path.is_dir() or path.name in ("saved_model.pb", "saved_model.pbtxt"):
    return program_from_saved_model(path if path.is_dir() else path.parent, args, kwargs)
  if path.suffix == ".meta":
    return _program_from_meta_graph(path, args, kwargs)
  try:
    data = read_regular_file(path, f"convert: {str(path)!r}")
  except OSError as e:
    raise ConversionError(
      f"convert: cannot read {str(path)!r} ({e.strerror or e}); expected the folder of a SavedModel or a "
      f"frozen graph's .pb or .pbtxt file."
    ) from e
  return _program_from_graph(data, str(path), args, kwargs)


def _program_from_meta_graph(path: Path, args: tuple[PyTree, ...], kwargs: Mapping[str, PyTree]) -> Program:
  """Returns a program of a MetaGraph, whose variables are in the checkpoint beside it."""
  specs = {key: value for key, value in kwargs.items() if key not in ("inputs", "outputs")}
  program = program_from_saved_model(path, args, specs)
  if len(specs) == len(kwargs):
    return program
  return cut(program, kwargs.get("inputs", ()), kwargs.get("outputs"))


def _program_from_graph(source: Any, name: str, args: tuple[PyTree, ...], kwargs: Mapping[str, PyTree]) -> Program:
  _refuse_arguments(name, args, kwargs, _GRAPH_OPTIONS)
  if isinstance(source, Graph):
    graph = source
  else:
    try:
      extra_ops, limits = _op_list(kwargs.get("extra_ops")), current_options().limits
      graph = (
        graph_from_proto(source, extra_ops=extra_ops, limits=limits)
        if _is_graph_def(source)
        else parse_graph(bytes(source), extra_ops=extra_ops, limits=limits)
      )
    except ParseError as e:
      what = next((hint for start, hint in _OTHER_FILES.items() if _begins_with(source, start)), "")
      # That the data is damaged would mislead if it is a whole file of another kind.
      found = f"{what} Expected" if what else f"{e} Expected"
      raise ConversionError(f"convert: {name}: {found} a serialized GraphDef.") from e
  inputs, outputs = kwargs.get("inputs"), kwargs.get("outputs")
  folder = ModelFolder.of(None, kwargs.get("allow_files_in", ()))
  return program_from_graph_def(
    graph, inputs, outputs, variables=kwargs.get("variables"), name=Path(name).stem, folder=folder
  )


def _op_list(extra_ops: Any) -> bytes | None:
  """Returns an OpList message, ours or TensorFlow's, as bytes."""
  if extra_ops is None or isinstance(extra_ops, bytes):
    return extra_ops
  if getattr(getattr(extra_ops, "DESCRIPTOR", None), "name", "") != "OpList":
    raise ConversionError(
      f"convert: extra_ops is a {type(extra_ops).__name__}; expected an OpList message or its bytes, as "
      "graftax.graphdef_ir.schema.OpList(op=[...]) is."
    )
  data: bytes = extra_ops.SerializeToString()
  return data


def _begins_with(source: Any, start: bytes) -> bool:
  return isinstance(source, bytes | bytearray | memoryview) and bytes(source[: len(start)]) == start


def _refuse_arguments(
  name: str, args: tuple[PyTree, ...], kwargs: Mapping[str, PyTree], known: tuple[str, ...]
) -> None:
  unknown = [key for key in kwargs if key not in known]
  if args or unknown:
    raise ConversionError(
      f"convert: {name}: got {len(args)} positional and the unknown named arguments {unknown!r}; expected only "
      f"{list(known)!r}."
    )
