"""Replaces calls by the bodies of the functions they call.

A call starts after its control inputs and ends after its effects. Inlining keeps that order:

- nodes of the body that wait for nothing else in the body wait for the call's control inputs;
- if something waits for the call itself, a NoOp of the call's name remains and waits for the body's effects.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import TypeAlias

from graftax.graphdef_ir._unique_names import unique_name
from graftax.graphdef_ir.attributes import AttrValue, FunctionRef
from graftax.graphdef_ir.budget import Budget, Limits
from graftax.graphdef_ir.errors import (
  ArityError,
  GraphError,
  MissingFunctionError,
  OutputIndexError,
  RecursiveFunctionError,
)
from graftax.graphdef_ir.graph import Function, Node, NodeOrigin, TensorRef
from graftax.graphdef_ir.graph.traverse import topological_order
from graftax.graphdef_ir.op_traits import traits_of
from graftax.graphdef_ir.passes.attribute_binding import bind_attributes
from graftax.graphdef_ir.signatures import OpSignatures

__all__ = ["ShouldInline", "inline_calls"]

ShouldInline: TypeAlias = Callable[[Node, Function], bool]

# Names get longer with every level.
_MAX_MEAN_NAME_LENGTH = 1024


def inline_calls(
  function: Function,
  library: Mapping[str, Function],
  *,
  should_inline: ShouldInline | None = None,
  signatures: OpSignatures | None = None,
  limits: Limits | Budget | None = None,
) -> Function:
  """Returns the function with its calls, and the calls in those, replaced by the called bodies.

  Inlined are PartitionedCall, StatefulPartitionedCall, and nodes whose op is the name of a library function. Branches
  and loop bodies of If, While and Case are not calls and stay. A node `inner` of a call `outer` becomes `outer/inner`;
  its `source` records its origin.

  Args:
    function: the function.
    library: the functions it calls.
    should_inline: given a call and its function, returns whether to inline it. All are inlined if None.
    signatures: tell which ops have effects, for functions older than control results; TensorFlow's if None.
    limits: how many nodes are copied, as `steps` and `steps_per_node`, and how deep calls are nested; or what is left
      of them.

  Raises:
    MissingFunctionError: a called function is not in the library.
    RecursiveFunctionError: functions call each other in a cycle.
    ArityError: a call has more or fewer inputs than its function has parameters.
    LimitExceededError: forty functions that each call the next one twice would give 2**40 nodes, with long names; or
      calls are nested too deep.

  Example:
    >>> from graftax.graphdef_ir import DType, FunctionRef, Node, Parameter, Result, TensorRef
    >>> x, neg = Parameter("x", DType.FLOAT), Node("neg", "Neg", (TensorRef("x"),), attrs={"T": DType.FLOAT})
    >>> called = Function("negative", (x,), (Result("y", TensorRef("neg"), DType.FLOAT),), (neg,))
    >>> call = Node("call", "PartitionedCall", (TensorRef("x"),), attrs={"f": FunctionRef("negative")})
    >>> caller = Function("f", (x,), (Result("y", TensorRef("call"), DType.FLOAT),), (call,))
    >>> [node.name for node in inline_calls(caller, {"negative": called}).nodes]
    ['call/neg']
  """
  num_nodes = len(function.nodes) + sum(len(called.nodes) for called in library.values())
  budget = limits if isinstance(limits, Budget) else Budget(limits, num_nodes=num_nodes)
  inliner = _Inliner(library, should_inline, OpSignatures() if signatures is None else signatures, budget)
  return inliner.inline(function, ())


@dataclasses.dataclass(frozen=True, slots=True)
class _Call:
  """A node that calls a function."""

  node: Node
  function: Function


class _Inliner:
  def __init__(
    self,
    library: Mapping[str, Function],
    should_inline: ShouldInline | None,
    signatures: OpSignatures,
    budget: Budget,
  ) -> None:
    self._library = library
    self._should_inline = should_inline
    self._signatures = signatures
    self._budget = budget
    self._inlined: dict[str, Function] = {}

  def inline(self, function: Function, callers: tuple[str, ...]) -> Function:
    """Returns the function with its calls inlined; `callers` are the functions around it, outermost first."""
    calls = {}
    for node in function.nodes:
      call = self._find_call(node, function.name)
      if call is not None:
        body = self._inlined_body(call.function, (*callers, function.name))
        calls[node.name] = _Call(node, bind_attributes(body, _call_attributes(node)))
    if not calls:
      return function
    num_nodes = sum(len(call.function.nodes) for call in calls.values())
    num_chars = sum(_num_name_chars(call) for call in calls.values())
    num_steps = max(num_nodes, num_chars // _MAX_MEAN_NAME_LENGTH)
    self._budget.spend_steps(num_steps, f"function {function.name!r}, for the bodies of its calls,")
    return _Splicer(function, calls, self._has_effects).splice()

  def _inlined_body(self, function: Function, callers: tuple[str, ...]) -> Function:
    if function.name in callers:
      cycle = " -> ".join([*callers[callers.index(function.name) :], function.name])
      raise RecursiveFunctionError(f"functions call each other in a cycle: {cycle}; such calls cannot be inlined.")
    self._budget.check_depth(len(callers), f"function {callers[0]!r}, for its calls,")
    if function.name not in self._inlined:
      self._inlined[function.name] = self.inline(function, callers)
    return self._inlined[function.name]

  def _find_call(self, node: Node, where: str) -> _Call | None:
    name = _called_name(node, self._library)
    if name is None:
      return None
    function = self._library.get(name)
    if function is None:
      raise MissingFunctionError(
        f"function {where!r}, node {node.name!r} ({node.op}): calls {name!r}, which is not in the library."
      )
    if self._should_inline is not None and not self._should_inline(node, function):
      return None
    if len(node.inputs) != len(function.parameters):
      raise ArityError(
        f"function {where!r}, node {node.name!r} ({node.op}): has {len(node.inputs)} inputs; {name!r} has "
        f"{len(function.parameters)} parameters."
      )
    return _Call(node, function)

  def _has_effects(self, node: Node) -> bool:
    signature = self._signatures.get(node.op)
    return signature is None or signature.is_stateful


def _called_name(node: Node, library: Mapping[str, Function]) -> str | None:
  if traits_of(node.op).calls == "function":
    reference = node.attrs.get("f")
    return reference.name if isinstance(reference, FunctionRef) else None
  return node.op if node.op in library else None


def _call_attributes(node: Node) -> Mapping[str, AttrValue]:
  reference = node.attrs.get("f") if traits_of(node.op).calls == "function" else None
  return reference.attrs if isinstance(reference, FunctionRef) else node.attrs


def _num_name_chars(call: _Call) -> int:
  own = len(call.node.name) + 1
  return sum(own + len(node.name) for node in call.function.nodes)


class _Splicer:
  """Copies the bodies of calls into one function. The bodies contain no calls that are to be inlined."""

  def __init__(self, caller: Function, calls: Mapping[str, _Call], has_effects: Callable[[Node], bool]) -> None:
    self._caller = caller
    self._calls = calls
    self._has_effects = has_effects
    self._taken = {node.name for node in caller.nodes} | {parameter.name for parameter in caller.parameters}
    self._waited_for = set(caller.control_results).union(*(node.control_inputs for node in caller.nodes))
    self._names = {name: self._name_body(call) for name, call in calls.items()}
    self._arguments = {
      name: {p.name: ref for p, ref in zip(call.function.parameters, call.node.inputs, strict=True)}
      for name, call in calls.items()
    }
    self._resolved: dict[TensorRef, TensorRef] = {}

  def splice(self) -> Function:
    nodes: list[Node] = []
    for node in self._caller.nodes:
      if node.name in self._calls:
        nodes += self._body(self._calls[node.name])
      else:
        inputs = tuple(map(self._resolve, node.inputs))
        nodes.append(node if inputs == node.inputs else dataclasses.replace(node, inputs=inputs))
    results = tuple(dataclasses.replace(result, ref=self._resolve(result.ref)) for result in self._caller.results)
    return dataclasses.replace(self._caller, nodes=tuple(nodes), results=results)

  def _name_body(self, call: _Call) -> dict[str, str]:
    return {node.name: unique_name(f"{call.node.name}/{node.name}", self._taken) for node in call.function.nodes}

  def _resolve(self, ref: TensorRef) -> TensorRef:
    """Returns the tensor behind a call's result, through any number of calls in a row."""
    path: dict[TensorRef, None] = {}
    while ref.node in self._calls and ref not in self._resolved:
      if ref in path:
        raise GraphError(f"function {self._caller.name!r}: calls feed each other in a cycle at {str(ref)!r}.")
      path[ref] = None
      ref = self._step_into(ref)
    found = self._resolved.get(ref, ref)
    self._resolved.update(dict.fromkeys(path, found))
    return found

  def _step_into(self, ref: TensorRef) -> TensorRef:
    """Returns the tensor behind a call's result: one of the body, or of the caller if the body only passes it on."""
    call = self._calls[ref.node]
    if ref.index >= len(call.function.results):
      raise OutputIndexError(
        f"function {self._caller.name!r}: {str(ref)!r}: {call.function.name!r} has only "
        f"{len(call.function.results)} results."
      )
    inner = call.function.results[ref.index].ref
    name = self._names[ref.node].get(inner.node)
    return self._argument(call, inner.node) if name is None else TensorRef(name, inner.index)

  def _argument(self, call: _Call, parameter: str) -> TensorRef:
    ref = self._arguments[call.node.name].get(parameter)
    if ref is None:
      raise GraphError(
        f"function {call.function.name!r}: {parameter!r} is neither a node nor a parameter; validate the graph first."
      )
    return ref

  def _body(self, call: _Call) -> list[Node]:
    names = self._names[call.node.name]
    held_back: set[str] = set()
    nodes = [self._body_node(node, call, names, held_back) for node in topological_order(call.function.nodes)]
    if call.node.name in self._waited_for:
      nodes.append(Node(call.node.name, "NoOp", control_inputs=self._ends(call, names), source=call.node.source))
    return nodes

  def _body_node(self, node: Node, call: _Call, names: Mapping[str, str], held_back: set[str]) -> Node:
    inputs = tuple(
      TensorRef(names[ref.node], ref.index) if ref.node in names else self._resolve(self._argument(call, ref.node))
      for ref in node.inputs
    )
    control_inputs = [
      names[name] if name in names else self._resolve(self._argument(call, name)).node for name in node.control_inputs
    ]
    # A Const need not wait. Its readers wait instead, so that constants stay recognizable.
    if node.op != "Const":
      if held_back.isdisjoint(ref.node for ref in node.inputs) and held_back.isdisjoint(node.control_inputs):
        control_inputs += call.node.control_inputs
      held_back.add(node.name)
    return dataclasses.replace(
      node,
      name=names[node.name],
      inputs=inputs,
      control_inputs=tuple(dict.fromkeys(control_inputs)),
      device=node.device or call.node.device,
      source=node.source or NodeOrigin((node.name,), (call.function.name,)),
    )

  def _ends(self, call: _Call, names: Mapping[str, str]) -> tuple[str, ...]:
    """Returns the nodes that have to run before the call has ended."""
    body = call.function
    effects = body.control_results or [node.name for node in body.nodes if self._has_effects(node)]
    ends = [names[name] for name in effects if name in names]
    ends += [names[result.ref.node] for result in body.results if result.ref.node in names]
    return tuple(dict.fromkeys([*ends, *call.node.control_inputs]))
