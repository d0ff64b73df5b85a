"""Finds the tensors at which a model's work for the host (text, files, images) ends and numbers begin."""

import dataclasses
from collections.abc import Collection, Mapping

import numpy as np

from graftax.convert.host_split.min_vertex_cut import narrowest_cut
from graftax.convert.planning.effects import EffectAnalysis
from graftax.convert.program import Program, UnavailableCapture
from graftax.convert.subgraph import inlined
from graftax.graphdef_ir import (
  DType,
  Function,
  GraftaxError,
  Node,
  OpSignatures,
  TensorRef,
  ancestors,
  topological_order,
)

__all__ = ["host_boundary"]

# Parts of the names of host ops without strings: Python code and input pipelines.
_HOST_WORDS = ("PyFunc", "Dataset", "Iterator", "Queue", "Reader", "Barrier", "Stage", "Decode", "Encode")

_NOT_NUMBERS = frozenset({DType.STRING, DType.RESOURCE, DType.VARIANT})
# Dtypes of indices, sizes and masks.
_COUNTING = frozenset({DType.INT32, DType.INT64, DType.UINT32, DType.UINT64, DType.BOOL})


def host_boundary(program: Program, missing: Mapping[str, list[tuple[str, str]]]) -> tuple[str, ...]:
  """Returns the names of tensors, for `convert_subgraph`, after which everything can be converted.

  Args:
    program: the program.
    missing: its ops without a lowering.

  Returns:
    The tensors that the host would have to compute, then the program's own inputs that are still needed after them.
    Empty if such tensors do not exist, or if a missing op is not work for the host.
  """
  try:
    function = inlined(program)
  except GraftaxError:
    return ()
  needed = EffectAnalysis(program.library, program.signatures).needed_nodes(function)
  nodes = {node.name: node for node in function.nodes if node.name in needed}
  unavailable = _capturing(program, function, UnavailableCapture)
  reads_unavailable = {name for name, node in nodes.items() if any(ref.node in unavailable for ref in node.inputs)}
  on_host = reads_unavailable | {name for name, node in nodes.items() if node.op in missing}
  if not on_host or not all(_is_host_work(nodes[name], program) for name in on_host - reads_unavailable):
    return ()
  # The host runs these nodes and everything that they need.
  above = ancestors(nodes, on_host, control=False)
  below = _descendants(on_host, nodes)
  crossing = _crossing(function, nodes, above, below)
  if not crossing or not all(_may_be_number(ref, nodes, program.signatures) for ref in crossing):
    return ()
  crossing = _narrowed(crossing, program, function, nodes, above)
  inputs = _remaining_inputs(program, function, nodes, crossing)
  return (*(str(ref) for ref in crossing), *inputs)


def _capturing(program: Program, function: Function, kind: type) -> set[str]:
  """Returns the names of the parameters that are bound to captures of one kind."""
  start = len(function.parameters) - len(program.captures)
  captures = zip(function.parameters[start:], program.captures, strict=True)
  return {parameter.name for parameter, capture in captures if isinstance(capture, kind)}


def _is_host_work(node: Node, program: Program) -> bool:
  if any(word in node.op for word in _HOST_WORDS):
    return True
  signature = program.signatures.get(node.op)
  if signature is None:
    return False
  try:
    attrs = signature.with_defaults(node.attrs)
    return DType.STRING in {*signature.input_types(attrs), *signature.output_types(attrs)}
  except GraftaxError:
    return False


def _descendants(names: Collection[str], nodes: Mapping[str, Node]) -> set[str]:
  readers: dict[str, list[str]] = {}
  for node in nodes.values():
    for ref in node.inputs:
      readers.setdefault(ref.node, []).append(node.name)
  seen: set[str] = set()
  stack = list(names)
  while stack:
    name = stack.pop()
    if name not in seen:
      seen.add(name)
      stack += readers.get(name, ())
  return seen


def _crossing(function: Function, nodes: Mapping[str, Node], above: set[str], below: set[str]) -> tuple[TensorRef, ...]:
  """Returns the tensors that only the host can compute and that other nodes read."""
  read = [ref for node in nodes.values() if node.name not in above for ref in node.inputs]
  read += (result.ref for result in function.results)
  return tuple(dict.fromkeys(ref for ref in read if ref.node in above and ref.node in below))


def _narrowed(
  crossing: tuple[TensorRef, ...], program: Program, function: Function, nodes: Mapping[str, Node], above: set[str]
) -> tuple[TensorRef, ...]:
  """Returns as few tensors as possible, if the host also combines the integers that it computes.

  For example, the index of a word in a vocabulary combines a look-up, a hash and the size of the table.
  """
  constants = {node.name for node in nodes.values() if node.op == "Const"} | _capturing(program, function, np.ndarray)
  made = dict.fromkeys(crossing)
  following: dict[TensorRef, list[TensorRef]] = {ref: [] for ref in crossing}
  combining: set[str] = set()
  for node in topological_order(tuple(nodes.values())):
    if node.name in above or not any(ref in made for ref in node.inputs):
      continue
    types = _output_types(node, program.signatures)
    refs = [TensorRef(node.name, i) for i in range(len(types))]
    known = all(ref in made or ref.node in constants for ref in node.inputs)
    if known and refs and _COUNTING.issuperset(types):
      combining.add(node.name)
      made.update(dict.fromkeys(refs))
      for ref in node.inputs:
        if ref in made:
          following.setdefault(ref, []).extend(refs)
  outside = (node for node in nodes.values() if node.name not in above and node.name not in combining)
  read = {ref for node in outside for ref in node.inputs} | {result.ref for result in function.results}
  return narrowest_cut(crossing, following, read & set(made))


def _output_types(node: Node, signatures: OpSignatures) -> tuple[DType, ...]:
  """Returns the element types of a node's outputs, or `()` if they are unknown."""
  signature = signatures.get(node.op)
  try:
    return () if signature is None else tuple(signature.output_types(node.attrs))
  except GraftaxError:
    return ()


def _may_be_number(ref: TensorRef, nodes: Mapping[str, Node], signatures: OpSignatures) -> bool:
  """Returns whether a tensor holds numbers, as far as its element type is known."""
  types = _output_types(nodes[ref.node], signatures)
  return ref.index >= len(types) or types[ref.index] not in _NOT_NUMBERS


def _remaining_inputs(
  program: Program, function: Function, nodes: Mapping[str, Node], crossing: Collection[TensorRef]
) -> tuple[str, ...]:
  """Returns the program's own inputs that are still read if `crossing` is given."""
  given = set(crossing)
  cut = {
    name: dataclasses.replace(node, inputs=tuple(ref for ref in node.inputs if ref not in given))
    for name, node in nodes.items()
  }
  roots = {result.ref.node for result in function.results if result.ref not in given}
  read = roots | {ref.node for name in ancestors(cut, roots, control=False) for ref in cut[name].inputs}
  own = function.parameters[: len(function.parameters) - len(program.captures)]
  return tuple(parameter.name for parameter in own if parameter.name in read)
