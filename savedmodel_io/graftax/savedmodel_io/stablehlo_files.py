"""`write_stablehlo`: models and JAX functions as files of StableHLO, for IREE and other compilers."""

import contextlib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import jax
import numpy as np

from graftax.convert import ConvertOptions, MissingInputError
from graftax.convert.rewriting import CompiledFunction, Consumer, write_module
from graftax.graphdef_ir import GraftaxError, TensorSpec
from graftax.savedmodel_io.errors import SaveInputError
from graftax.savedmodel_io.parameters.safetensors_files import write_safetensors
from graftax.savedmodel_io.pytrees import Json, KeyPath, Leaf, PyTree
from graftax.savedmodel_io.saved_model import SavedModel
from graftax.savedmodel_io.signatures import Signature
from graftax.savedmodel_io.writing.atomic import check_new_folder, new_folder
from graftax.savedmodel_io.writing.jax_function import JaxFunction, as_traces, symbolic_arguments
from graftax.savedmodel_io.writing.parameter_tree import ParameterTree, parameter_tree

__all__ = ["write_stablehlo"]

_MANIFEST = "manifest.json"
_PARAMETERS = "parameters.safetensors"
_SUFFIX = ".mlirbc"
# File systems take names of 255 bytes.
_MOST_BYTES_OF_NAME = 100
_CONSUMER = "stablehlo"
_RNG = "rng"
_RNG_SPEC = jax.ShapeDtypeStruct((2,), np.uint32)
# Nodes may be for another platform than this process has.
_OPTIONS = ConvertOptions(xlacallmodule_strict_checks=False)

Weights = Literal["inside", "beside"]


@dataclass(frozen=True, slots=True)
class _Entry:
  """A function of parameters by name and flat inputs.

  Attributes:
    function: `function(params, *inputs)` returns nested results.
    params: the parameters.
    inputs: shape and dtype of each input, by name.
  """

  function: Callable[..., Any]
  params: Mapping[str, Leaf]
  inputs: Mapping[str, jax.ShapeDtypeStruct]


def write_stablehlo(
  path: str | os.PathLike[str],
  functions: Any,
  params: PyTree = None,
  *,
  inputs: Mapping[str, Mapping[str, Leaf]] | None = None,
  version: str | None = None,
  platform: str = "cpu",
  weights: Weights = "inside",
  overwrite: bool = False,
) -> tuple[str, ...]:
  """Writes a folder with a file of StableHLO for each function, and returns the versions of StableHLO that they have.

  A file is a portable artifact (`NAME.mlirbc`) whose function `main` takes and returns flat arrays. `manifest.json`
  names them, with dtype and shape: first parameters, if they are not inside of the file, then inputs, then `rng`, the
  key data of the random numbers that the function draws. Files contain names of operations, but no source files or
  lines of the machine that wrote them. Derivatives are not written.

  Args:
    path: the folder to write. It is written under another name and renamed when it is complete.
    functions: a model that `load` returned, for all of its signatures. Or JAX functions in the form that `save` takes:
      name -> `JaxFunction`, or a tuple `(function, *args)`; a function alone is "main".
    params: the first argument of the JAX functions, a pytree of arrays; None for a model.
    inputs: of a model: signature -> input -> anything with `shape` and `dtype`, such as a `jax.ShapeDtypeStruct` with
      numbers or symbolic dimensions. By default sizes that the signature leaves open are open in the file.
    version: the version of StableHLO to write, such as "1.9.1". By default the oldest that has everything in the file,
      among those that releases of TensorFlow from 2.16 on read.
    platform: "cpu", "cuda", "rocm" or "tpu": the platform whose operations JAX chooses.
    weights: "inside" makes parameters constants of each file; "beside" makes them arguments, with their values in
      `parameters.safetensors`.
    overwrite: replace a folder that this function wrote.

  Raises:
    SaveInputError: `functions` is empty, or parameters or shapes do not fit the functions.
    ConversionError: the platform or the version is not known.
    UnsupportedOpError: ops of the model have no lowering; one error lists all.
    VersionError: the version is not known to the installed jaxlib, or too old for an op of a function.
    LiftError: a function needs a custom call, which compilers do not have.
    UnsupportedModuleError: a function has side effects or communicates between devices.
    OutputExistsError: something of that name exists and may not be replaced.

  Example:
    >>> import tempfile
    >>> folder = os.path.join(tempfile.mkdtemp(), "compiled")
    >>> x = jax.ShapeDtypeStruct((2, 3), np.float32)
    >>> versions = write_stablehlo(folder, {"double": (lambda x: x * 2, x)})
    >>> sorted(os.listdir(folder))
    ['double.mlirbc', 'manifest.json']
  """
  if weights not in ("inside", "beside"):
    raise SaveInputError(f"weights={weights!r}; expected 'inside' or 'beside'")
  target = Path(path)
  replaces = _MANIFEST if overwrite else None
  check_new_folder(target, replaces=replaces)
  consumer = Consumer.of(_CONSUMER if version is None else f"{_CONSUMER}-{version}")
  manifest: dict[str, Json] = {"format": "graftax-stablehlo", "version": 1, "platform": platform, "functions": {}}
  if weights == "beside":
    manifest["parameters_file"] = _PARAMETERS
  # A model keeps the dtypes of its signatures; JAX functions are traced as the caller traces them.
  x64 = jax.enable_x64(True) if isinstance(functions, SavedModel) else contextlib.nullcontext()
  with new_folder(target, replaces=replaces) as folder, x64:
    files: set[str] = set()
    used: dict[str, Leaf] = {}
    for name, entry in _entries(functions, params, inputs or {}):
      data, record = _exported(name, entry, consumer, platform, weights)
      file = _file_name(name, files)
      (folder / file).write_bytes(data)
      manifest["functions"][name] = {"file": file, **record}
      used |= entry.params
    if weights == "beside":
      write_safetensors(folder / _PARAMETERS, used)
    (folder / _MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
  return tuple(sorted({function["stablehlo_version"] for function in manifest["functions"].values()}))


def _entries(functions: Any, params: PyTree, inputs: Mapping[str, Mapping[str, Leaf]]) -> Iterator[tuple[str, _Entry]]:
  if isinstance(functions, SavedModel):
    if params is not None:
      raise SaveInputError("params are given for a model, which has its own; pass a JAX function of other parameters")
    unknown = sorted(inputs.keys() - functions.signatures.keys())
    if unknown or not functions.signatures:
      raise SaveInputError(f"inputs names {unknown}, but the signatures are {sorted(functions.signatures)}")
    for name, signature in functions.signatures.items():
      yield name, _of_signature(functions, signature, inputs.get(name))
    return
  if inputs:
    raise SaveInputError("inputs are given for JAX functions; pass their shapes with the functions")
  tree = None if params is None else parameter_tree(params, True)
  named = functions if isinstance(functions, Mapping) else {"main": functions}
  if not named:
    raise SaveInputError("there are no functions to write")
  for name, value in named.items():
    what = f"function {name!r}"
    traces = as_traces(value, what)
    if len(traces) != 1 or not isinstance(traces[0], JaxFunction):
      raise SaveInputError(f"{what} has {len(traces)} traces or is a Program; expected one JAX function")
    yield str(name), _of_function(traces[0], tree, what)


def _of_signature(model: SavedModel, signature: Signature, given: Mapping[str, Leaf] | None) -> _Entry:
  what = f"signature {signature.name!r}"
  specs: dict[str, Leaf] = {}
  for name, spec in signature.inputs.items():
    if not isinstance(spec, TensorSpec) or spec.dtype.numpy.hasobject:
      raise SaveInputError(f"{what}: input {name!r} is not an array of numbers; split the model, and write its body")
    if given is None and spec.shape.dims is None:
      raise SaveInputError(f"{what}: input {name!r} has an unknown rank; name its shape")
    specs[name] = _Shaped(tuple(spec.shape.dims or ()), np.dtype(spec.dtype.numpy))
  if given is not None:
    if given.keys() != specs.keys():
      raise SaveInputError(f"{what}: shapes are given for {sorted(given)}; the inputs are {sorted(specs)}")
    specs = {name: given[name] for name in specs}
  _, arrays = symbolic_arguments(JaxFunction(len, kwargs=specs), what)
  fn, params = model.convert(signature, options=_OPTIONS)

  def call(values: Mapping[str, Leaf], *flat: Leaf) -> PyTree:
    named = dict(zip(specs, flat, strict=False))
    if len(flat) > len(specs):
      named[fn.rng_name] = jax.random.wrap_key_data(flat[-1])
    return fn(values, **named)[0]

  return _Entry(call, params, {name: _spec(leaf) for name, leaf in arrays.items()})


def _of_function(function: JaxFunction, tree: ParameterTree | None, what: str) -> _Entry:
  arguments = symbolic_arguments(function, what)
  leaves, structure = jax.tree_util.tree_flatten_with_path(arguments)
  takes_params = tree is not None and function.takes_params
  params = tree.values if tree is not None and takes_params else {}

  def call(values: Mapping[str, Leaf], *flat: Leaf) -> PyTree:
    args, kwargs = jax.tree.unflatten(structure, flat)
    if tree is not None and takes_params:
      args = (jax.tree.unflatten(jax.tree.structure(tree.specs), [values[name] for name in params]), *args)
    return function.function(*args, **kwargs)

  # The path of a leaf begins with 0 for positional arguments, and 1 for keyword arguments.
  names = [_path("" if path[0].idx else "input", path[1:]) for path, _ in leaves]
  if len(set(names)) < len(names):
    raise SaveInputError(f"{what}: two of its inputs have the same name in the manifest: {sorted(names)}")
  return _Entry(call, params, dict(zip(names, (_spec(leaf) for _, leaf in leaves), strict=True)))


@dataclass(frozen=True, slots=True)
class _Shaped:
  shape: tuple[int | None, ...]
  dtype: np.dtype


def _exported(
  name: str, entry: _Entry, consumer: Consumer, platform: str, weights: Weights
) -> tuple[bytes, dict[str, Json]]:
  """Returns the portable artifact of an entry and its record in the manifest."""
  values = {key: np.asarray(value) for key, value in entry.params.items()}
  params = {} if weights == "inside" else {k: jax.ShapeDtypeStruct(v.shape, v.dtype) for k, v in values.items()}
  results: list[str] = []

  def flat(*arguments: Leaf) -> list[Leaf]:
    given, rest = arguments[: len(params)], arguments[len(params) :]
    found = entry.function(values if weights == "inside" else dict(zip(params, given, strict=True)), *rest)
    leaves = jax.tree_util.tree_leaves_with_path(found)  # an array of bounded size is padded values and a length
    results[:] = [_path("", path) or "result" for path, _ in leaves]
    return [leaf for _, leaf in leaves]

  flat.__name__ = re.sub(r"\W", "_", name)

  def export(inputs: Sequence[tuple[str, str, jax.ShapeDtypeStruct]]) -> CompiledFunction:
    specs = [*params.values(), *(spec for _, _, spec in inputs)]
    return write_module(flat, specs, consumer, platform=platform)

  inputs = [("input", name, spec) for name, spec in entry.inputs.items()]
  try:
    try:
      module = export(inputs)
    except MissingInputError:  # it draws random numbers
      inputs.append((_RNG, _RNG, _RNG_SPEC))
      module = export(inputs)
  except GraftaxError as e:
    e.add_note(f"while {name!r} was written as StableHLO")
    raise
  arguments = [*(("parameter", name, spec) for name, spec in params.items()), *inputs]
  return module.module, {
    "stablehlo_version": module.version,
    "arguments": [_described(*argument) for argument in arguments],
    "results": [_described("result", key, spec) for key, spec in zip(results, module.outputs, strict=True)],
  }


def _described(kind: str, name: str, spec: jax.ShapeDtypeStruct) -> dict[str, Json]:
  shape = [size if isinstance(size, int) else str(size) for size in spec.shape]
  return {"kind": kind, "name": name, "dtype": np.dtype(spec.dtype).name, "shape": shape}


def _spec(leaf: Leaf) -> jax.ShapeDtypeStruct:
  return jax.ShapeDtypeStruct(jax.numpy.shape(leaf), jax.dtypes.result_type(leaf))


def _path(first: str, path: KeyPath) -> str:
  """Returns the name of a leaf: the keys on the way to it, after `first`."""
  keys = jax.tree_util.keystr(tuple(path), simple=True, separator="/")
  return "/".join(filter(None, (first, keys)))


def _file_name(name: str, taken: set[str]) -> str:
  """Returns a file name for a function that every system can hold, and adds it to those that are taken."""
  stem = re.sub(r"[^\w\-]+", "_", name).encode()[:_MOST_BYTES_OF_NAME].decode(errors="ignore") or "_"
  candidates = (f"{stem}{'' if number == 0 else f'_{number}'}{_SUFFIX}" for number in range(len(taken) + 1))
  found = next(file for file in candidates if file.lower() not in taken)
  taken.add(found.lower())
  return found
