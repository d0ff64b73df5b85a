"""Makes programs ready to be saved: variables become resources that the function captures."""

import dataclasses
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from graftax.convert import (
  Capture,
  CapturedTensor,
  CustomGradient,
  Program,
  ResourceHandle,
  StringTable,
  UnavailableCapture,
)
from graftax.graphdef_ir import (
  DType,
  Function,
  Node,
  Parameter,
  PartialShape,
  TensorRef,
  TensorSpec,
  reachable_functions,
  traits_of,
)
from graftax.savedmodel_io.errors import UnsupportedSavedModelError

if TYPE_CHECKING:
  from graftax.graphdef_ir import OpSignature

__all__ = ["prepared_program"]

_RESOURCE_VARIABLE = "VarHandleOp"
_INVALID = re.compile(r"[^A-Za-z0-9_]")


def prepared_program(program: Program) -> Program:
  """Returns a program whose function captures each variable as a resource handle, and has names that can be stored.

  TF1 variables (references) become resource variables; variables that nodes of the function create become captures.

  Raises:
    UnsupportedSavedModelError: the function captures something that cannot be stored, or assigns a TF1 variable.
  """
  for capture in program.captures:
    if isinstance(capture, UnavailableCapture) and not isinstance(capture, StringTable):
      raise UnsupportedSavedModelError(
        f"program {program.name!r}: {capture.what}, so the program cannot be saved; copy the model's files, or leave "
        "it out"
      )
  program = _with_valid_names(_with_captured_variables(_with_resource_variables(program)))
  _check_no_variables_inside(program)
  return program


def _with_resource_variables(program: Program) -> Program:
  """Replaces parameters that are TF1 variables by handles, which are read once, at the beginning."""
  function = program.function
  references = {p.name: p for p in function.parameters if p.dtype.is_ref}
  if not references:
    return program
  _check_only_read(program, references)
  names = {name: f"{name}/ReadVariableOp" for name in references}
  reads = tuple(
    Node(names[name], "ReadVariableOp", (TensorRef(name),), attrs={"dtype": parameter.dtype.base})
    for name, parameter in references.items()
  )
  renamed = {TensorRef(name): TensorRef(read) for name, read in names.items()}
  parameters = tuple(
    Parameter(p.name, DType.RESOURCE, PartialShape(()), handle_spec=TensorSpec(p.shape, p.dtype.base))
    if p.name in references
    else p
    for p in function.parameters
  )
  function = dataclasses.replace(
    _rewired(function, renamed), parameters=parameters, nodes=(*reads, *_rewired(function, renamed).nodes)
  )
  return dataclasses.replace(program, function=function)


def _check_only_read(program: Program, references: Mapping[str, Parameter]) -> None:
  for node in program.function.nodes:
    read = [i for i, ref in enumerate(node.inputs) if ref.node in references]
    signature = program.library.signature(node.op) or program.signatures.get(node.op)
    if read and signature is not None and any(_takes_reference(signature, node, i) for i in read):
      raise UnsupportedSavedModelError(
        f"program {program.name!r}: node {node.name!r} ({node.op}) assigns or refers to a TF1 variable, which a "
        "function of a SavedModel cannot do; save a program that only reads its variables"
      )


def _takes_reference(signature: "OpSignature", node: Node, index: int) -> bool:
  start = 0
  for arg, size in zip(signature.inputs, signature.input_sizes(node.attrs), strict=True):
    if start <= index < start + size:
      return arg.is_ref
    start += size
  return False


def _with_captured_variables(program: Program) -> Program:
  """Makes captures of the variables that nodes of the function create."""
  function = program.function
  makers = {node.name: node for node in function.nodes if node.op == _RESOURCE_VARIABLE}
  if not makers:
    return program
  parameters: list[Parameter] = []
  captures: list[Capture] = []
  for name, node in makers.items():
    shared = node.attrs.get("shared_name")
    variable = shared.decode() if isinstance(shared, bytes) and shared else name
    shape, dtype = node.attrs.get("shape"), node.attrs.get("dtype")
    spec = None
    if isinstance(shape, PartialShape) and isinstance(dtype, DType):
      spec = TensorSpec(shape, dtype)
    parameters.append(Parameter(name, DType.RESOURCE, PartialShape(()), handle_spec=spec))
    captures.append(ResourceHandle(variable))
  function = dataclasses.replace(
    function,
    parameters=(*function.parameters, *parameters),
    nodes=tuple(_without_controls(node, makers) for node in function.nodes if node.name not in makers),
    control_results=tuple(name for name in function.control_results if name not in makers),
  )
  return dataclasses.replace(program, function=function, captures=(*program.captures, *captures))


def _without_controls(node: Node, gone: Mapping[str, Node]) -> Node:
  if gone.keys().isdisjoint(node.control_inputs):
    return node
  return dataclasses.replace(node, control_inputs=tuple(name for name in node.control_inputs if name not in gone))


def _check_no_variables_inside(program: Program) -> None:
  for name in reachable_functions(program.function, program.library):
    for node in program.library[name].nodes:
      if traits_of(node.op).makes == "variable":
        raise UnsupportedSavedModelError(
          f"program {program.name!r}: node {node.name!r} of function {name!r} creates a variable, and only the "
          "outermost function may refer to variables by name; pass the variable to the inner function"
        )


def _with_valid_names(program: Program) -> Program:
  """Renames a function cut out of a graph, its parameters and results: `"encoder/x"` cannot be an argument's name."""
  function = program.function
  if function.name in program.library and program.library[function.name] is function:
    return program
  taken = {node.name for node in function.nodes}
  names = {p.name: _free(p.name, taken) for p in function.parameters}
  body = _rewired(function, {TensorRef(old): TensorRef(new) for old, new in names.items()})
  taken = set()
  renamed = dataclasses.replace(
    body,
    name=_INVALID.sub("_", function.name),
    results=tuple(dataclasses.replace(result, name=_free(result.name, taken)) for result in body.results),
    parameters=tuple(dataclasses.replace(p, name=names[p.name]) for p in body.parameters),
  )
  if renamed == function:
    return program
  gradients = {
    name: _capturing_from(gradient, function.name, renamed.name, names) for name, gradient in program.gradients.items()
  }
  return dataclasses.replace(program, function=renamed, gradients=gradients)


def _capturing_from(gradient: CustomGradient, old: str, new: str, names: Mapping[str, str]) -> CustomGradient:
  captures = tuple(
    CapturedTensor(new, TensorRef(names.get(capture.ref.node, capture.ref.node), capture.ref.index))
    if isinstance(capture, CapturedTensor) and capture.function == old
    else capture
    for capture in gradient.captures
  )
  return dataclasses.replace(gradient, captures=captures)


def _free(name: str, taken: set[str]) -> str:
  base = _INVALID.sub("_", name)
  number, free = 1, base
  while free in taken:
    free, number = f"{base}_{number}", number + 1
  taken.add(free)
  return free


def _rewired(function: Function, renamed: Mapping[TensorRef, TensorRef]) -> Function:
  nodes = tuple(
    dataclasses.replace(node, inputs=tuple(renamed.get(ref, ref) for ref in node.inputs)) for node in function.nodes
  )
  results = tuple(dataclasses.replace(result, ref=renamed.get(result.ref, result.ref)) for result in function.results)
  return dataclasses.replace(function, nodes=nodes, results=results)
