"""Finds the nodes of a function that must run: those that results need, and those whose effects outlive the call."""

import dataclasses
from collections.abc import Iterator, Mapping

from graftax.graphdef_ir import (
  DType,
  Function,
  FunctionLibrary,
  Node,
  OpSignatures,
  TensorRef,
  ancestors,
  follow_calls,
  referenced_functions,
  topological_order,
  traits_of,
)

__all__ = ["EffectAnalysis"]


@dataclasses.dataclass(frozen=True, slots=True)
class _ParameterUses:
  """What a function does with its parameters.

  Attributes:
    written: positions of the parameters through which it may write a resource.
    returned: for each result, the positions of the parameters that it may be.
  """

  written: frozenset[int]
  returned: tuple[frozenset[int], ...]


@dataclasses.dataclass(frozen=True, slots=True)
class _OpKind:
  """What is true of all nodes of an op.

  Attributes:
    calls: the effects of a node are those of the functions that it calls.
    acts: a node that calls no function has an effect.
  """

  calls: bool
  acts: bool


class EffectAnalysis:
  """Finds what must run and what is written in the functions of one program; reads each library function once."""

  def __init__(self, library: FunctionLibrary, signatures: OpSignatures, *, keep_asserts: bool = False):
    """Creates the analysis of one program.

    Args:
      library: the functions that nodes call.
      signatures: signatures of all ops.
      keep_asserts: whether a failing `Assert` is an effect.
    """
    self._library = library
    self._signatures = signatures
    self._keep_asserts = keep_asserts
    self._summaries: dict[str, tuple[bool, frozenset[str]]] = {}
    self._acts: dict[str, bool] = {}
    self._kinds: dict[str, _OpKind] = {}
    self._uses: dict[str, _ParameterUses] = {}

  def needed_nodes(self, function: Function) -> frozenset[str]:
    """Returns the names of the nodes that a call of `function` must run.

    A node is needed when a result depends on its data, or when it has a side effect that TensorFlow would run and that
    outlives the call, such as assigning a variable; then its inputs are needed too. Control edges order nodes, but do
    not make a pure node needed.
    """
    nodes = {node.name: node for node in function.nodes}
    roots = [result.ref.node for result in function.results]
    roots += [name for name in _executed(function, nodes) if self._node_acts(nodes[name])]
    return frozenset(ancestors(nodes, roots, control=False))

  def written_parameters(self, name: str) -> frozenset[int]:
    """Returns the positions of the parameters through which a function, or one that it calls, may write a resource."""
    return self._uses_of(name).written

  def parameters_written_by(self, function: Function) -> frozenset[int]:
    """Returns the positions of the parameters through which a function that is not in the library may write."""
    return self._trace_parameters(function).written

  def function_acts(self, name: str) -> bool:
    """Returns whether a library function, or one that it calls, has an effect."""
    if name not in self._acts:
      seen = []
      for called in follow_calls([name], lambda called: self._summary(called)[1]):
        if self._summary(called)[0]:
          self._acts[name] = True
          return True
        seen.append(called)
      self._acts.update(dict.fromkeys(seen, False))
    return self._acts[name]

  def _uses_of(self, name: str) -> "_ParameterUses":
    if name not in self._uses:
      # Ends the recursion of a function that calls itself; evaluation raises when it reaches the call.
      self._uses[name] = _ParameterUses(frozenset(), ())
      self._uses[name] = self._trace_parameters(self._library[name])
    return self._uses[name]

  def _node_acts(self, node: Node) -> bool:
    kind = self._kind(node.op)
    return any(self.function_acts(name) for name in self._callees(node)) if kind.calls else kind.acts

  def _kind(self, op: str) -> _OpKind:
    if op not in self._kinds:
      self._kinds[op] = _OpKind(op in self._library or traits_of(op).calls is not None, self._op_acts(op))
    return self._kinds[op]

  def _op_acts(self, op: str) -> bool:
    effect = traits_of(op).effect
    if effect is not None and not (self._keep_asserts and effect == "asserts"):
      return False
    signature = self._signatures.get(op)
    # An unknown op may have any effect, so it must not be dropped.
    return signature is None or signature.is_stateful or any(arg.is_ref for arg in signature.outputs)

  def _callees(self, node: Node) -> Iterator[str]:
    return referenced_functions(node, self._library)

  def _summary(self, name: str) -> tuple[bool, frozenset[str]]:
    """Returns `(has_own_effect, callees)` for the nodes that TensorFlow would execute."""
    if name not in self._summaries:
      function = self._library[name]
      nodes = {node.name: node for node in function.nodes}
      executed = [nodes[node] for node in _executed(function, nodes)]
      kinds = [self._kind(node.op) for node in executed]
      calls = [node for node, kind in zip(executed, kinds, strict=True) if kind.calls]
      acts = any(kind.acts for kind in kinds if not kind.calls)
      self._summaries[name] = acts, frozenset(callee for node in calls for callee in self._callees(node))
    return self._summaries[name]

  def _trace_parameters(self, function: Function) -> "_ParameterUses":
    origins = {TensorRef(parameter.name): frozenset({i}) for i, parameter in enumerate(function.parameters)}
    written: set[int] = set()
    for node in topological_order(function.nodes):
      reached = {i: origins[ref] for i, ref in enumerate(node.inputs) if ref in origins}
      if not reached:
        continue
      for output, source in self._passed_on(node):
        if source in reached:
          ref = TensorRef(node.name, output)
          origins[ref] = origins.get(ref, frozenset()) | reached[source]
      if not self._node_acts(node):
        continue
      if 0 in reached and self._gives_reference(node):
        origins[TensorRef(node.name)] = reached[0]
      callees = list(self._callees(node))
      offset = traits_of(node.op).first_argument
      if not callees:
        written.update(*reached.values())
      for callee in callees:
        inner = self.written_parameters(callee)
        written.update(*(positions for i, positions in reached.items() if i - offset in inner))
    returned = tuple(origins.get(result.ref, frozenset()) for result in function.results)
    return _ParameterUses(frozenset(written), returned)

  def _passed_on(self, node: Node) -> Iterator[tuple[int, int]]:
    """Yields `(output, input)` for each output of a node that may be the resource that is an input."""
    traits = traits_of(node.op)
    if traits.is_alias:
      yield from ((i, i) for i in range(len(node.inputs)))
    elif traits.calls in ("while", "for"):
      # A loop keeps its resources. Its variables are its last inputs; a `For` has three bounds before them.
      first = 3 if traits.calls == "for" else 0
      yield from ((i - first, i) for i in range(first, len(node.inputs)))
    else:
      for callee in self._callees(node):
        if any(result.dtype is DType.RESOURCE or result.dtype.is_ref for result in self._library[callee].results):
          for output, positions in enumerate(self._uses_of(callee).returned):
            yield from ((output, position + traits.first_argument) for position in positions)

  def _gives_reference(self, node: Node) -> bool:
    """Returns whether the first output is the TF1 reference that is the first input, as for an assignment."""
    signature = self._signatures.get(node.op)
    return signature is not None and bool(signature.outputs) and signature.outputs[0].is_ref


def _executed(function: Function, nodes: Mapping[str, Node]) -> set[str]:
  """Returns the names of the nodes that TensorFlow would run: all that a result or control result depends on."""
  return ancestors(nodes, [*(result.ref.node for result in function.results), *function.control_results])
