"""Replaces the stacks of TF1's loop gradients by tensor lists that loops and conditionals pass on.

TF1 saves the values that the gradient of a loop needs in stacks. A stack is a resource that two loops share. A tensor
list is a value: each push returns a new one, and conditionals and loops return the one at their end.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from graftax.graphdef_ir._unique_names import unique_name
from graftax.graphdef_ir.attributes import AttrValue, FunctionRef
from graftax.graphdef_ir.dtypes import DType
from graftax.graphdef_ir.errors import AttributeValueError
from graftax.graphdef_ir.graph import Function, Node, Result, TensorRef
from graftax.graphdef_ir.graph.traverse import topological_order
from graftax.graphdef_ir.op_traits import traits_of
from graftax.graphdef_ir.tensors import Tensor

__all__ = ["keeps_its_stacks", "stacks_as_lists"]

_STACK_OPS = ("StackV2", "StackPushV2", "StackPopV2", "StackCloseV2", "Identity")


def keeps_its_stacks(function: Function) -> bool:
  """Returns whether a function has stacks, and none is passed to another function or returned."""
  handles = {TensorRef(node.name) for node in function.nodes if node.op == "StackV2"}
  for node in topological_order(function.nodes) if handles else ():
    if handles.isdisjoint(node.inputs):
      continue
    if node.op not in _STACK_OPS:
      return False
    if node.op == "Identity":
      handles.add(TensorRef(node.name))
  return bool(handles) and handles.isdisjoint(result.ref for result in function.results)


def stacks_as_lists(function: Function, functions: Mapping[str, Function]) -> tuple[Function, dict[str, Function]]:
  """Returns a raised function and its branches and bodies, with tensor lists for stacks.

  Args:
    function: the function that creates the stacks.
    functions: its branches, conditions and bodies, each used by one node.
  """
  changed = dict(functions)
  if not any(node.op == "StackV2" for node in function.nodes):
    return function, changed
  threaded, _ = _Threader(changed).thread(function, ())
  return threaded, changed


class _Threader:
  def __init__(self, functions: dict[str, Function]) -> None:
    self._functions = functions

  def thread(self, function: Function, parameters: Sequence[str]) -> tuple[Function, list[TensorRef]]:
    """Returns the function with lists for its stacks, and the final lists of the stacks that are its parameters."""
    body = _Body(function, parameters)
    for node in topological_order(function.nodes):
      inputs = tuple(body.renamed.get(ref, ref) for ref in node.inputs)
      self._add(dataclasses.replace(node, inputs=inputs), body)
    results = tuple(
      dataclasses.replace(result, ref=ref, dtype=DType.VARIANT if is_list else result.dtype)
      for result in function.results
      for ref, is_list in [body.resolve(result.ref)]
    )
    typed = tuple(
      dataclasses.replace(p, dtype=DType.VARIANT) if p.name in parameters else p for p in function.parameters
    )
    threaded = dataclasses.replace(function, parameters=typed, nodes=tuple(body.nodes), results=results)
    return threaded, [body.current[TensorRef(name)] for name in parameters]

  def _add(self, node: Node, body: "_Body") -> None:
    stack = body.stack_of.get(node.inputs[0]) if node.inputs else None
    own = TensorRef(node.name)
    match node.op:
      case "StackV2":
        attrs = {"element_dtype": node.attrs["elem_type"], "shape_type": DType.INT32}
        body.nodes.append(
          dataclasses.replace(node, op="EmptyTensorList", inputs=(body.any_shape(), *node.inputs), attrs=attrs)
        )
        body.stack_of[own] = body.current[own] = own
      case "StackPushV2" if stack is not None:
        element = node.inputs[1]
        self._replace(node, "TensorListPushBack", (body.current[stack], element), node.attrs["T"], body)
        body.current[stack] = own
        body.renamed[own] = element
      case "StackPopV2" if stack is not None:
        inputs = (body.current[stack], body.any_shape())
        self._replace(node, "TensorListPopBack", inputs, node.attrs["elem_type"], body)
        body.current[stack] = own
        body.renamed[own] = TensorRef(node.name, 1)
      case "StackCloseV2":
        body.nodes.append(dataclasses.replace(node, op="NoOp", inputs=(), attrs={}))
      case "Identity" if stack is not None:
        body.stack_of[own] = stack
      case _:
        taken = {i: body.stack_of[ref] for i, ref in enumerate(node.inputs) if ref in body.stack_of}
        body.nodes.append(self._caller(node, taken, body) if taken else node)

  def _replace(self, node: Node, op: str, inputs: tuple[TensorRef, ...], dtype: AttrValue, body: "_Body") -> None:
    body.nodes.append(dataclasses.replace(node, op=op, inputs=inputs, attrs={"element_dtype": dtype}))

  def _caller(self, node: Node, taken: Mapping[int, TensorRef], body: "_Body") -> Node:
    inputs = tuple(body.current[taken[i]] if i in taken else ref for i, ref in enumerate(node.inputs))
    match traits_of(node.op).calls:
      case "while":
        attrs = self._loop(node, taken, body)
      case "if":
        attrs = self._conditional(node, taken, body)
      case _:
        attrs = dict(node.attrs)
    return dataclasses.replace(node, inputs=inputs, attrs=attrs)

  def _loop(self, node: Node, taken: Mapping[int, TensorRef], body: "_Body") -> dict[str, AttrValue]:
    for role in traits_of(node.op).functions:
      self._thread_callee(node, role, sorted(taken))
    for position, stack in taken.items():
      body.current[stack] = TensorRef(node.name, position)
    types = _types(node, "T")
    return {**node.attrs, "T": tuple(DType.VARIANT if i in taken else t for i, t in enumerate(types))}

  def _conditional(self, node: Node, taken: Mapping[int, TensorRef], body: "_Body") -> dict[str, AttrValue]:
    positions = sorted(taken)
    for role in traits_of(node.op).functions:
      name, ends = self._thread_callee(node, role, [position - 1 for position in positions])
      branch = self._functions[name]
      first = len(branch.results)
      ends_as_results = (Result(f"result_{first + k}", ref, DType.VARIANT) for k, ref in enumerate(ends))
      self._functions[name] = dataclasses.replace(branch, results=(*branch.results, *ends_as_results))
    given, results = _types(node, "Tin"), _types(node, "Tout")
    for k, position in enumerate(positions):
      body.current[taken[position]] = TensorRef(node.name, len(results) + k)
    types = tuple(DType.VARIANT if i + 1 in taken else t for i, t in enumerate(given))
    return {**node.attrs, "Tin": types, "Tout": (*results, *[DType.VARIANT] * len(positions))}

  def _thread_callee(self, node: Node, role: str, positions: Sequence[int]) -> tuple[str, list[TensorRef]]:
    reference = node.attrs.get(role)
    if not isinstance(reference, FunctionRef):
      raise AttributeValueError(f"{node.op} node {node.name!r}: {role} is {reference!r}; expected a function.")
    callee = self._functions[reference.name]
    names = [callee.parameters[position].name for position in positions]
    self._functions[reference.name], ends = self.thread(callee, names)
    return reference.name, ends


def _types(node: Node, name: str) -> tuple[Any, ...]:
  """Returns an attribute that is a list of types; the nodes may not have been validated."""
  value = node.attrs.get(name)
  if not isinstance(value, tuple):
    raise AttributeValueError(f"{node.op} node {node.name!r}: {name} is {value!r}; expected a list of types.")
  return value


class _Body:
  """A function body while its stacks are replaced: which tensors are handles, and the current list of each stack."""

  def __init__(self, function: Function, parameters: Sequence[str]) -> None:
    self.nodes: list[Node] = []
    self.stack_of = {TensorRef(name): TensorRef(name) for name in parameters}
    self.current = dict(self.stack_of)
    self.renamed: dict[TensorRef, TensorRef] = {}
    self._taken = {node.name for node in function.nodes} | {parameter.name for parameter in function.parameters}
    self._any_shape: TensorRef | None = None

  def any_shape(self) -> TensorRef:
    """Returns the constant for an unknown element shape."""
    if self._any_shape is None:
      value = Tensor.from_numpy(np.array(-1, np.int32))
      name = unique_name("element_shape", self._taken)
      self.nodes.append(Node(name, "Const", attrs={"dtype": DType.INT32, "value": value}))
      self._any_shape = TensorRef(name)
    return self._any_shape

  def resolve(self, ref: TensorRef) -> tuple[TensorRef, bool]:
    """Returns the final tensor of a result, and whether it is a list."""
    if ref in self.stack_of:
      return self.current[self.stack_of[ref]], True
    return self.renamed.get(ref, ref), False
