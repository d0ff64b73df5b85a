"""The tensors of a program that depend on constants and fixed parameters alone, and their values."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from graftax.convert.evaluation.known_values import known_values
from graftax.convert.planning.custom_gradient import gradient_name
from graftax.convert.program import Program
from graftax.convert.variable import variable_name
from graftax.graphdef_ir import (
  Budget,
  DType,
  Function,
  Limits,
  Node,
  OpTraits,
  Parameter,
  Result,
  TensorRef,
  ancestors,
  consumers,
  reachable_functions,
  referenced_functions,
  traits_of,
)
from graftax.ops_jax import ResourceHandle, argument_bytes, lowering

__all__ = ["KnownParts", "read_only_variables"]

_READ = "ReadVariableOp"
_PASSED_ON = ("Identity", "Snapshot")
# Other traits say that a node has a state or runs functions, or that its result is much larger than its inputs.
_PURE = (OpTraits(), OpTraits(same_elements=True), OpTraits(is_alias=True, same_elements=True))


def read_only_variables(program: Program, function: Function) -> dict[TensorRef, str]:
  """Returns the handles in `function`, without calls, of the variables that nothing does anything with but read.

  Args:
    program: the program.
    function: its function, with all calls inlined.

  Returns:
    handle -> variable name.
  """
  captured = function.parameters[len(function.parameters) - len(program.captures) :]
  handles = {
    TensorRef(parameter.name): capture.name
    for parameter, capture in zip(captured, program.captures, strict=True)
    if isinstance(capture, ResourceHandle) and capture.kind == "variable"
  }
  handles |= {TensorRef(node.name): variable_name(node) for node in function.nodes if node.op == "VarHandleOp"}
  readers = consumers(function.nodes)
  used_otherwise = {
    name for handle, name in handles.items() if any(node.op != _READ for node in readers.get(handle, ()))
  }
  used_otherwise |= {handles[result.ref] for result in function.results if result.ref in handles}
  for name in reachable_functions(function, program.library):
    used_otherwise |= {variable_name(node) for node in program.library[name].nodes if node.op == "VarHandleOp"}
  for gradient in program.gradients.values():
    used_otherwise |= {capture.name for capture in gradient.captures if isinstance(capture, ResourceHandle)}
  return {handle: name for handle, name in handles.items() if name not in used_otherwise}


class KnownParts:
  """What is known of a function without calls, if the variables that it only reads are fixed."""

  def __init__(self, program: Program, function: Function, values: Mapping[str, np.ndarray], limits: Limits):
    """Finds what is known.

    Args:
      program: for its library, signatures and captures.
      function: its function, with all calls inlined.
      values: variable name -> value.
      limits: of what is computed.
    """
    self._program = program
    self._nodes = {node.name: node for node in function.nodes}
    self._values = values
    self._limits = limits
    handles = read_only_variables(program, function)
    self._reads = {
      node.name: handles[node.inputs[0]]
      for node in function.nodes
      if node.op == _READ and node.inputs and handles.get(node.inputs[0]) in values
    }
    captured = function.parameters[len(function.parameters) - len(program.captures) :]
    self._captures = {
      parameter.name: capture
      for parameter, capture in zip(captured, program.captures, strict=True)
      if isinstance(capture, np.ndarray) and capture.dtype != object
    }
    self._known = self._find_known(function)
    self._varying = self._find_varying(function)

  def _find_known(self, function: Function) -> set[str]:
    known = set(self._captures) | set(self._reads)
    waiting = {node.name: len({ref.node for ref in node.inputs}) for node in function.nodes if self._is_pure(node)}
    known |= {node.name for node in function.nodes if node.op == "Const" and self._is_numeric(node)}
    readers: dict[str, list[str]] = {}
    for node in function.nodes:
      for name in {ref.node for ref in node.inputs}:
        readers.setdefault(name, []).append(node.name)
    found = list(known)
    while found:
      for reader in readers.get(found.pop(), ()):
        if reader in waiting and reader not in known:
          waiting[reader] -= 1
          if not waiting[reader]:
            known.add(reader)
            found.append(reader)
    return known

  def _find_varying(self, function: Function) -> set[str]:
    """Returns the known nodes whose values depend on variables."""
    readers = consumers(function.nodes)
    found = [*self._reads]
    varying = set(found)
    while found:
      node = self._nodes[found.pop()]
      for index in range(self._num_outputs(node)):
        for reader in readers.get(TensorRef(node.name, index), ()):
          if reader.name in self._known and reader.name not in varying:
            varying.add(reader.name)
            found.append(reader.name)
    return varying

  def _num_outputs(self, node: Node) -> int:
    return self._program.signatures[node.op].num_outputs(node.attrs)

  def _is_pure(self, node: Node) -> bool:
    signature = self._program.signatures.get(node.op)
    return (
      bool(node.inputs)
      and traits_of(node.op) in _PURE
      and signature is not None
      and not signature.is_stateful
      and node.op not in self._program.library
      and node.op != "XlaCallModule"
      and gradient_name(node) is None
      and not any(True for _ in referenced_functions(node, self._program.library))
      and lowering(node.op) is not None
      and self._is_numeric(node)
    )

  def _is_numeric(self, node: Node) -> bool:
    types = self._program.signatures[node.op].output_types(node.attrs)
    return all(dtype not in (DType.STRING, DType.RESOURCE, DType.VARIANT, DType.INVALID) for dtype in types)

  def is_known(self, ref: TensorRef) -> bool:
    """Returns whether the value of a tensor is known."""
    return ref.node in self._known

  def depends_on_variables(self, ref: TensorRef) -> bool:
    """Returns whether a known value is not one of the graph's own constants."""
    return ref.node in self._varying

  def variable_of(self, ref: TensorRef) -> str | None:
    """Returns the name of the variable whose value a tensor is, if it is just that."""
    while ref.node in self._nodes and self._nodes[ref.node].op in _PASSED_ON:
      ref = self._nodes[ref.node].inputs[0]
    return self._reads.get(ref.node)

  def variables_behind(self, ref: TensorRef) -> list[str]:
    """Returns the names of the variables on which a tensor depends."""
    return sorted({self._reads[name] for name in ancestors(self._nodes, [ref.node], control=False) & set(self._reads)})

  def values(self, refs: Iterable[TensorRef]) -> dict[TensorRef, np.ndarray]:
    """Returns the values of known tensors."""
    found, computed = {}, []
    for ref in dict.fromkeys(refs):
      variable = self.variable_of(ref)
      if variable is not None:
        found[ref] = self._values[variable]
      else:
        computed.append(ref)
    return found | dict(zip(computed, self._computed(computed), strict=True))

  def _computed(self, refs: Sequence[TensorRef]) -> list[np.ndarray]:
    if not refs:
      return []
    given = {name: np.asarray(self._given(name)) for name in self._reads | self._captures}
    nodes = {name: node for name, node in self._nodes.items() if name not in given}
    needed = ancestors(nodes, [ref.node for ref in refs], control=False)
    body = tuple(dataclasses.replace(node, control_inputs=()) for name, node in nodes.items() if name in needed)
    results = tuple(Result(f"result_{i}", ref, DType.INVALID) for i, ref in enumerate(refs))
    parameters = tuple(Parameter(name, DType.from_numpy(value.dtype)) for name, value in given.items())
    program = self._program
    function = Function(program.function.name, parameters, results, body)
    # As in a call of the function: it may make more of large parameters.
    budget = Budget(self._limits, num_nodes=len(body), argument_bytes=argument_bytes(given.values()))
    return known_values(function, refs, [*given.values()], program.library, program.signatures, budget)

  def _given(self, name: str) -> np.ndarray:
    return self._captures[name] if name in self._captures else self._values[self._reads[name]]
