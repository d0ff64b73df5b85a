"""Makes the functions of signatures: tensors in by name, tensors out by name, around the function of a program."""

import inspect
import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tree

from graftax.convert import CompositeTensor, Program
from graftax.graphdef_ir import (
  AttrValue,
  DType,
  Function,
  FunctionRef,
  GraphError,
  Node,
  Parameter,
  Result,
  Tensor,
  TensorRef,
  TensorSpec,
)
from graftax.savedmodel_io.errors import SaveInputError
from graftax.savedmodel_io.pytrees import PyTree
from graftax.savedmodel_io.writing.messages.function_records import flat_arguments

__all__ = ["SignatureFunction", "call_node", "signature_function"]

_CALL = "StatefulPartitionedCall"
_CALL_NAME = "call"
_NODE_NAME = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True, slots=True)
class SignatureFunction:
  """A signature and the function that computes it.

  Attributes:
    name: the signature.
    function: takes the inputs in the order of their names, then the captures of `program`; returns the outputs in the
      order of their names.
    program: the program whose function it calls.
    inputs: name -> spec.
    outputs: name -> spec.
    defaults: values of inputs that may be left out.
  """

  name: str
  function: Function
  program: Program
  inputs: Mapping[str, TensorSpec]
  outputs: Mapping[str, TensorSpec]
  defaults: Mapping[str, Tensor]


def signature_function(name: str, program: Program, function_name: str) -> SignatureFunction:
  """Returns the function of a signature.

  An input is named after its argument, and an output after its key in the dict that the program returns; nested ones
  like `"x_a_0"`. Outputs without a key are `"output_0"`, `"output_1"`, ... Python values in the result are left out.

  Args:
    name: the signature.
    program: what it computes.
    function_name: name of the new function.

  Raises:
    SaveInputError: the program takes or returns something that is not a tensor, or two of one name.
  """
  where = f"signature {name!r} (program {program.name!r})"
  flat_inputs, defaults = _inputs(program, where)
  flat_outputs = _outputs(program, where)
  inner = program.function
  ordered = sorted(flat_inputs)
  position = {key: i for i, key in enumerate(flat_inputs)}
  captured = inner.parameters[len(flat_inputs) :]
  captures = [Parameter(f"capture_{i}", p.dtype, p.shape, handle_spec=p.handle_spec) for i, p in enumerate(captured)]
  # The converter of TF.js names inputs and results of one shape and dtype after their nodes.
  taken = {_CALL_NAME, *(capture.name for capture in captures)}
  input_names = _node_names(ordered, "input", taken)
  parameters = [Parameter(input_names[key], flat_inputs[key].dtype, flat_inputs[key].shape) for key in ordered]
  by_position = sorted(ordered, key=lambda key: position[key])
  call = call_node(
    _CALL_NAME,
    inner,
    [TensorRef(name) for name in (*(input_names[key] for key in by_position), *(p.name for p in captures))],
  )
  index = {key: i for i, key in enumerate(flat_outputs)}
  result_names = _node_names(sorted(flat_outputs), "result", taken)
  # TF.js reads only the first output of a node as a result, so there is one node for each result.
  # TensorFlow inlines a call with effects only if results wait for it.
  effects = (_CALL_NAME,) if inner.control_results else ()
  copies = [
    Node(name, "Identity", (TensorRef(_CALL_NAME, index[key]),), effects, {"T": flat_outputs[key].dtype})
    for key, name in result_names.items()
  ]
  results = [
    Result(f"output_{i}", TensorRef(copy.name), flat_outputs[key].dtype)
    for i, (copy, key) in enumerate(zip(copies, sorted(flat_outputs), strict=True))
  ]
  nodes = (call, *copies)
  function = Function(function_name, (*parameters, *captures), tuple(results), nodes, effects, is_stateful=True)
  return SignatureFunction(
    name, function, program, {key: flat_inputs[key] for key in ordered}, dict(sorted(flat_outputs.items())), defaults
  )


def _node_names(keys: Sequence[str], kind: str, taken: set[str]) -> dict[str, str]:
  """Returns the name of a node for each key, and adds it to those that are taken: the key if that is allowed."""
  names = {key: key for key in keys if _NODE_NAME.fullmatch(key) and key not in taken}
  taken.update(names)
  numbers = itertools.count()
  for key in keys:
    if key not in names:
      names[key] = next(name for name in (f"{kind}_{number}" for number in numbers) if name not in taken)
      taken.add(names[key])
  return {key: names[key] for key in keys}


def call_node(name: str, function: Function, inputs: list[TensorRef]) -> Node:
  """Returns a node that calls a function."""
  attrs: dict[str, AttrValue] = {
    "Tin": tuple(parameter.dtype for parameter in function.parameters),
    "Tout": tuple(result.dtype for result in function.results),
    "f": FunctionRef(function.name),
  }
  return Node(name, _CALL, tuple(inputs), attrs=attrs)


def _inputs(program: Program, where: str) -> tuple[dict[str, TensorSpec], dict[str, Tensor]]:
  specs: dict[str, TensorSpec] = {}
  defaults: dict[str, Tensor] = {}
  loaded: dict[str, str] = {}
  for key, leaf, default in flat_arguments(program.inputs):
    if isinstance(leaf, CompositeTensor):
      raise SaveInputError(f"{where}: input {key!r} is a {type(leaf).__name__}; expected a tensor")
    if not isinstance(leaf, TensorSpec):
      continue  # a Python value that is part of the program
    if key in specs:
      raise SaveInputError(f"{where}: two inputs are named {key!r}; rename one of the arguments")
    specs[key] = leaf
    other = loaded.setdefault(_name_in_python(key), key)
    if other != key:
      raise SaveInputError(
        f"{where}: the inputs {other!r} and {key!r} have one name, {_name_in_python(key)!r}, when TensorFlow loads "
        "them; rename one of the arguments"
      )
    value = _default(default, leaf)
    if value is not None:
      defaults[key] = value
  return specs, defaults


def _name_in_python(name: str) -> str:
  """Returns the name that TensorFlow gives an input of a loaded signature, whose names must differ."""
  text = "".join(character if character.isalnum() else "_" for character in name)
  return text if text[:1].isalpha() else f"arg_{text}"


def _default(value: object, spec: TensorSpec) -> Tensor | None:
  """Returns the default of an input as a tensor; None if it has none that is a tensor."""
  if value is inspect.Parameter.empty or value is None:
    return None
  try:
    array = np.asarray(value)
    text = spec.dtype is DType.STRING
    return Tensor.from_numpy(array.astype(object if text else spec.dtype.numpy), spec.dtype)
  except (TypeError, ValueError, GraphError):
    return None


def _outputs(program: Program, where: str) -> dict[str, TensorSpec]:
  nested = program.outputs.nested
  specs: dict[str, TensorSpec] = {}
  for path, leaf in tree.flatten_with_path(nested):
    if isinstance(leaf, CompositeTensor):
      raise SaveInputError(f"{where}: an output is a {type(leaf).__name__}; expected tensors")
    if not isinstance(leaf, TensorSpec):
      continue
    key = _output_name(path, nested)
    if key in specs:
      raise SaveInputError(f"{where}: two outputs are named {key!r}; rename a key of the result")
    specs[key] = leaf
  return specs


def _output_name(path: tuple[Any, ...], nested: PyTree) -> str:
  if not path:
    return "output_0"
  is_named = isinstance(nested, Mapping) or hasattr(nested, "_fields")
  parts = [str(part) for part in path]
  return "_".join(parts if is_named else ["output", *parts])
