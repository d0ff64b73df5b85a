"""The content of a SavedModel before it is put into messages, and the checks of what a user passes."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import jax
import numpy as np

from graftax.convert import PlacedVariable, Program, ResourceHandle
from graftax.graphdef_ir import DType, PartialShape, TensorSpec
from graftax.savedmodel_io.errors import SaveInputError, VariableValueError
from graftax.savedmodel_io.objects.spec_text import listed, structure_text
from graftax.savedmodel_io.pytrees import Leaf, PyTree
from graftax.savedmodel_io.signatures import RESERVED_SIGNATURES
from graftax.savedmodel_io.writing.bundles.stored_tensor import StoredTensor, stored_tensor

__all__ = [
  "ModelContent",
  "SavedVariable",
  "checked_assets",
  "checked_attributes",
  "checked_functions",
  "checked_losses",
  "checked_signatures",
  "collected_variables",
]

_RESERVED = ("signatures", "variables", "trainable_variables", "regularization_losses", "assets", "_lookup_tables")


@dataclass(frozen=True, slots=True)
class SavedVariable:
  """A variable to save.

  Attributes:
    spec: shape, which may be partial, and element type.
    trainable: whether TensorFlow trains it.
    tensor: its value.
  """

  spec: TensorSpec
  trainable: bool
  tensor: StoredTensor


@dataclass(frozen=True, slots=True)
class ModelContent:
  """Everything that a SavedModel holds.

  Attributes:
    functions: attribute path -> traces.
    signatures: name -> program.
    losses: regularization losses, functions without arguments.
    variables: name -> variable.
    attributes: attribute -> nested dicts and lists of names of variables.
    assets: file name -> file.
  """

  functions: Mapping[str, tuple[Program, ...]]
  signatures: Mapping[str, Program]
  losses: tuple[Program, ...]
  variables: Mapping[str, SavedVariable]
  attributes: Mapping[str, PyTree]
  assets: Mapping[str, Path]


def checked_functions(functions: Mapping[str, Program | Sequence[Program]]) -> dict[str, tuple[Program, ...]]:
  """Returns the traces of each function.

  Raises:
    SaveInputError: a name cannot be an attribute path, or a function is not a program or has none.
  """
  checked: dict[str, tuple[Program, ...]] = {}
  known: dict[tuple[int, ...], tuple[Program, ...]] = {}
  for path, value in functions.items():
    _check_path(path)
    traces = (value,) if isinstance(value, Program) else tuple(value) if isinstance(value, Sequence) else ()
    if not traces or not all(isinstance(trace, Program) for trace in traces):
      raise SaveInputError(f"function {path!r} is {value!r:.80}; expected a Program, or a list of at least one")
    _check_same_parameters(path, traces)
    checked[path] = known.setdefault(tuple(map(id, traces)), traces)
  for path in checked:
    parts = path.split(".")
    for end in range(1, len(parts)):
      if ".".join(parts[:end]) in checked:
        raise SaveInputError(
          f"function {path!r} would be an attribute of function {'.'.join(parts[:end])!r}; rename one"
        )
  return checked


def checked_signatures(
  signatures: Mapping[str, str | Program], functions: Mapping[str, tuple[Program, ...]]
) -> dict[str, Program]:
  """Returns the program of each signature.

  Raises:
    SaveInputError: a name is reserved, or a signature is neither a program nor the name of a function with one trace.
  """
  checked: dict[str, Program] = {}
  for name, value in signatures.items():
    if not isinstance(name, str) or not name or name in RESERVED_SIGNATURES:
      raise SaveInputError(
        f"signature {name!r}: expected a name, as a string that is none of {list(RESERVED_SIGNATURES)}"
      )
    if isinstance(value, Program):
      checked[name] = value
      continue
    if not isinstance(value, str) or value not in functions:
      raise SaveInputError(f"signature {name!r} is {value!r:.80}; expected a Program, or one of {list(functions)}")
    if len(functions[value]) != 1:
      raise SaveInputError(
        f"signature {name!r}: function {value!r} has {len(functions[value])} traces; pass the Program of one of them"
      )
    checked[name] = functions[value][0]
  return checked


def checked_losses(losses: Sequence[Program]) -> tuple[Program, ...]:
  """Returns the regularization losses.

  Raises:
    SaveInputError: one is not a program, has arguments, or does not return a scalar.
  """
  for loss in losses:
    if not isinstance(loss, Program):
      raise SaveInputError(f"a regularization loss is {loss!r:.80}; expected a Program")
    result = loss.outputs.nested
    is_scalar = isinstance(result, TensorSpec) and result.shape.is_compatible_with(PartialShape(()))
    if loss.inputs.specs or not is_scalar:
      raise SaveInputError(
        f"regularization loss {loss.name!r} has {len(loss.inputs.specs)} arguments and returns "
        f"{structure_text(result)}; expected no arguments, and a scalar"
      )
  return tuple(losses)


def checked_assets(assets: Mapping[str, str | os.PathLike[str]] | Sequence[str | os.PathLike[str]]) -> dict[str, Path]:
  """Returns file name -> file.

  Raises:
    SaveInputError: a file does not exist, the names of two differ in nothing or in case only, or a name leads out of
      the folder.
  """
  pairs = list(assets.items()) if isinstance(assets, Mapping) else [(Path(path).name, path) for path in assets]
  checked: dict[str, Path] = {}
  by_folded_name: dict[str, str] = {}
  for name, path in pairs:
    parts = Path(name).parts
    if not parts or Path(name).is_absolute() or ".." in parts or "\0" in name:
      raise SaveInputError(f"asset {name!r}: expected the name of a file within the folder of assets")
    # On Windows and macOS the second file would replace the first.
    other = by_folded_name.setdefault(Path(name).as_posix().casefold(), name)
    if other in checked:
      names = repr(name) if name == other else f"{other!r} and {name!r}, which Windows and macOS take for one name"
      raise SaveInputError(f"two assets are named {names}: {checked[other]} and {path}; pass a dict of other names")
    if not Path(path).is_file():
      raise SaveInputError(f"asset {name!r}: {path} is not a file")
    checked[name] = Path(path)
  return checked


def checked_attributes(attributes: Mapping[str, PyTree], variables: Mapping[str, Leaf]) -> Mapping[str, PyTree]:
  """Returns the attributes.

  Raises:
    SaveInputError: the name of an attribute is reserved or not an identifier, a dict has a key that is not a string, or
      a leaf is not the name of a variable.
  """
  for name in attributes:
    if name in _RESERVED or not isinstance(name, str) or not name.isidentifier():
      raise SaveInputError(f"attribute {name!r}: expected a name that is none of {list(_RESERVED)}")
    _check_nested(name, attributes[name], variables)
  return attributes


def collected_variables(
  programs: Sequence[Program], params: Mapping[str, Leaf], trainable: Mapping[str, bool]
) -> dict[str, SavedVariable]:
  """Returns all variables: those that programs capture, and those that only `params` has.

  Args:
    programs: the programs. Variables of one name are one variable.
    params: name -> value, in place of the one that the programs have.
    trainable: name -> whether TensorFlow trains it, in place of what the programs say.

  Raises:
    VariableValueError: a variable has no value, values that differ, or one that does not fit.
    TensorValueError: a value cannot be stored.
    SaveInputError: `trainable` names a variable that does not exist.
  """
  specs: dict[str, TensorSpec] = {}
  values: dict[str, Leaf] = dict(params)
  flags: dict[str, bool] = {}
  for program in programs:
    for name, spec in _captured(program):
      if spec is not None:
        _check_same_spec(name, spec, specs.setdefault(name, spec), program)
      if name in program.variables:
        flags.setdefault(name, program.variables[name].trainable)
        if name not in params:
          _check_same_value(name, values.setdefault(name, _value(program, name)), program)
      elif name not in params:
        raise VariableValueError(f"variable {name!r} of program {program.name!r} has no value; pass one in params")
  unknown = sorted(trainable.keys() - values.keys())
  if unknown:
    raise SaveInputError(f"trainable names the variables {unknown}; {listed(unknown[0], values)}")
  flags.update(trainable)
  return {name: _variable(name, value, specs.get(name), flags.get(name, True)) for name, value in values.items()}


def _check_nested(path: str, nested: PyTree, variables: Mapping[str, Leaf]) -> None:
  if isinstance(nested, Mapping):
    for key, value in nested.items():
      if not isinstance(key, str) or not key:
        raise SaveInputError(f"attribute {path!r} has a dict with the key {key!r}; expected strings")
      _check_nested(f"{path}.{key}", value, variables)
  elif isinstance(nested, list | tuple):
    for position, value in enumerate(nested):
      _check_nested(f"{path}.{position}", value, variables)
  elif not isinstance(nested, str) or nested not in variables:
    raise SaveInputError(f"attribute {path!r}: no variable {nested!r:.80}; {listed(str(nested), variables)}")


def _check_path(path: object) -> None:
  if not isinstance(path, str) or not all(part.isidentifier() or part.isdecimal() for part in path.split(".")):
    raise SaveInputError(f"function {path!r}: expected an attribute path, such as 'predict' or 'encoder.call'")
  first = path.split(".")[0]
  if first in _RESERVED:
    raise SaveInputError(f"function {path!r}: SavedModels keep something else in {first!r}; choose another name")


def _check_same_parameters(path: str, traces: Sequence[Program]) -> None:
  first = traces[0].inputs.signature
  for trace in traces[1:]:
    if list(trace.inputs.signature.parameters) != list(first.parameters):
      raise SaveInputError(
        f"function {path!r}: its traces have the signatures {first} and {trace.inputs.signature}; expected the same "
        "arguments for all"
      )


def _captured(program: Program) -> Iterator[tuple[str, TensorSpec | None]]:
  """Yields the variables that a program and its gradients capture."""
  gradients = [(program.library[g.function], g.captures) for g in program.gradients.values()]
  for function, captures in ((program.function, program.captures), *gradients):
    bound = function.parameters[len(function.parameters) - len(captures) :]
    for parameter, capture in zip(bound, captures, strict=True):
      if isinstance(capture, ResourceHandle) and capture.kind == "variable":
        value = program.variables.get(capture.name)
        spec = parameter.handle_spec
        if value is not None and (spec is None or spec.dtype.numpy != value.dtype):
          spec = TensorSpec(PartialShape(value.shape), DType.from_numpy(value.dtype))
        yield capture.name, None if spec is None else TensorSpec(spec.shape, spec.dtype)


def _check_same_spec(name: str, spec: TensorSpec, other: TensorSpec, program: Program) -> None:
  if spec.dtype != other.dtype or not spec.shape.is_compatible_with(other.shape):
    raise VariableValueError(
      f"variable {name!r} is {other} in one program and {spec} in program {program.name!r}; rename one of them"
    )


def _check_same_value(name: str, value: Leaf, program: Program) -> None:
  other = _value(program, name)
  if value is other or _is_same_memory(value, other):
    return
  if value.dtype != other.dtype or value.shape != other.shape or not _is_equal(value, other):
    raise VariableValueError(
      f"variable {name!r} has another value in program {program.name!r}; pass its value in params, or rename it"
    )


def _value(program: Program, name: str) -> np.ndarray | jax.Array:
  variable = program.variables[name]
  return variable.value if isinstance(variable, PlacedVariable) else variable


def _is_same_memory(value: Leaf, other: Leaf) -> bool:
  is_host = isinstance(value, np.ndarray) and isinstance(other, np.ndarray)
  return is_host and np.shares_memory(value, other) and value.strides == other.strides


def _is_equal(value: Leaf, other: Leaf) -> bool:
  # The parts that other processes hold are compared there.
  if isinstance(value, jax.Array) and isinstance(other, jax.Array) and value.sharding == other.sharding:
    pairs = zip(value.addressable_shards, other.addressable_shards, strict=True)
    return all(np.asarray(a.data).tobytes() == np.asarray(b.data).tobytes() for a, b in pairs)
  return np.asarray(value).tobytes() == np.asarray(other).tobytes()


def _variable(name: str, value: Leaf, spec: TensorSpec | None, trainable: bool) -> SavedVariable:
  what = f"variable {name!r}"
  if isinstance(value, jax.ShapeDtypeStruct):
    raise VariableValueError(f"{what} has only a shape and a dtype; pass its value in params")
  tensor = stored_tensor(value, what)
  if spec is None:
    spec = TensorSpec(PartialShape(tensor.shape), tensor.dtype)
  if tensor.dtype != spec.dtype.base or not spec.shape.is_compatible_with(tensor.shape):
    raise VariableValueError(
      f"{what} is {spec}, but its value is {tensor.dtype.tf_name} {list(tensor.shape)}; pass a value that fits"
    )
  return SavedVariable(spec, trainable, tensor)
