"""Replace what only depends on constants by constants.

For tools that rewrite or write graphs; the evaluator is theirs, for this package computes nothing. Converting does not
go through here: `graftax.convert` folds while it walks a plan, where shapes and arguments that are known for one call
count as constants too.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from graftax.graphdef_ir._unique_names import unique_name
from graftax.graphdef_ir.dtypes import DType
from graftax.graphdef_ir.errors import GraphError
from graftax.graphdef_ir.graph import Function, Node, Source, TensorRef
from graftax.graphdef_ir.signatures import OpSignature, OpSignatures
from graftax.graphdef_ir.tensors import Tensor
from graftax.graphdef_ir.traverse import topological_order

__all__ = ["Evaluate", "fold_constants"]

_Array: TypeAlias = "np.ndarray[Any, Any]"
Evaluate: TypeAlias = Callable[[Node, tuple[_Array, ...]], tuple[_Array, ...] | None]

# In a TF1 loop or conditional, "all inputs are constant" does not mean that the node runs once, or at all.
_CONTROL_FLOW = frozenset({
  "Enter", "Exit", "LoopCond", "Merge", "NextIteration", "Switch",
  "RefEnter", "RefExit", "RefMerge", "RefNextIteration", "RefSwitch",
})  # fmt: skip


def fold_constants(
  function: Function,
  evaluate: Evaluate,
  *,
  signatures: OpSignatures | None = None,
  max_size_bytes: int = 1 << 20,
) -> Function:
  """The function with nodes whose inputs are all constant replaced by `Const` nodes of the same name.

  Control inputs move to the constants, so the order of side effects stays. Constants that are no longer read stay too;
  `prune` removes them.

  Args:
    function: the function.
    evaluate: computes the outputs of a node from the values of its inputs, or returns None where it cannot. Not asked
      about stateful ops, unknown ops, or the ops of TF1 loops.
    signatures: the ops that are known; TensorFlow's if None.
    max_size_bytes: outputs larger than this stay computed, so that `tf.zeros([1000, 1000, 1000])` does not become data.

  Raises:
    GraphError: `evaluate` returned as many or such arrays as the op does not have.
    CycleError: the nodes cannot be ordered.
  """
  folder = _Folder(evaluate, OpSignatures() if signatures is None else signatures, max_size_bytes, function)
  for node in topological_order(function.nodes):
    folder.visit(node)
  return folder.finish()


@dataclasses.dataclass(frozen=True, slots=True)
class _Folded:
  """A node that was evaluated: its outputs, and what had to run before it."""

  outputs: tuple[Tensor, ...]
  control_inputs: tuple[str, ...]


class _Folder:
  def __init__(self, evaluate: Evaluate, signatures: OpSignatures, max_size_bytes: int, function: Function) -> None:
    self._evaluate = evaluate
    self._signatures = signatures
    self._max_size_bytes = max_size_bytes
    self._function = function
    self._constants: dict[TensorRef, Tensor] = {}
    self._folded: dict[str, _Folded] = {}
    self._control_inputs = {node.name: node.control_inputs for node in function.nodes}

  def visit(self, node: Node) -> None:
    if node.op == "Const":
      value = node.attrs.get("value")
      if isinstance(value, Tensor) and value.dtype.base not in (DType.RESOURCE, DType.VARIANT):
        self._constants[TensorRef(node.name)] = value
      return
    signature = self._signatures.find(node.op)
    if signature is None or not self._can_fold(node, signature):
      return
    arrays = self._evaluate(node, tuple(self._constants[ref].numpy() for ref in node.inputs))
    if arrays is None or sum(np.asarray(array).nbytes for array in arrays) > self._max_size_bytes:
      return
    outputs = self._as_tensors(node, arrays, signature)
    self._folded[node.name] = _Folded(outputs, self._inherited_control_inputs(node))
    for index, tensor in enumerate(outputs):
      self._constants[TensorRef(node.name, index)] = tensor

  def finish(self) -> Function:
    renamed = self._new_names()
    nodes: list[Node] = []
    for node in self._function.nodes:
      if node.name in self._folded:
        nodes += self._constants_for(node, renamed)
      else:
        nodes.append(self._rewire(node, renamed))
    results = tuple(
      dataclasses.replace(result, ref=renamed.get(result.ref, result.ref)) for result in self._function.results
    )
    control_results = self._live_controls(self._function.control_results)
    return dataclasses.replace(self._function, nodes=tuple(nodes), results=results, control_results=control_results)

  def _can_fold(self, node: Node, signature: OpSignature) -> bool:
    is_pure = not signature.is_stateful and not any(arg.is_ref for arg in (*signature.inputs, *signature.outputs))
    if not is_pure or not signature.outputs or node.op in _CONTROL_FLOW:
      return False
    return bool(node.inputs) and all(ref in self._constants for ref in node.inputs)

  def _as_tensors(self, node: Node, arrays: tuple[_Array, ...], signature: OpSignature) -> tuple[Tensor, ...]:
    dtypes = signature.output_types(node.attrs)
    where = f"function {self._function.name!r}, node {node.name!r} ({node.op})"
    if len(arrays) != len(dtypes):
      raise GraphError(f"{where}: evaluate returned {len(arrays)} arrays; expected {len(dtypes)}.")
    for array, dtype in zip(arrays, dtypes, strict=True):
      if np.asarray(array).dtype != dtype.numpy:
        raise GraphError(f"{where}: evaluate returned {np.asarray(array).dtype.name!r}; expected {dtype.numpy.name!r}.")
    return tuple(Tensor.from_numpy(array, dtype) for array, dtype in zip(arrays, dtypes, strict=True))

  def _inherited_control_inputs(self, node: Node) -> tuple[str, ...]:
    """What the node waited for, itself or through the constants it reads."""
    names = dict.fromkeys(node.control_inputs)
    for ref in node.inputs:
      folded = self._folded.get(ref.node)
      names |= dict.fromkeys(folded.control_inputs if folded else self._control_inputs.get(ref.node, ()))
    return tuple(names)

  def _new_names(self) -> dict[TensorRef, TensorRef]:
    """A name for each output of a node that had several, which become one constant each."""
    taken = {node.name for node in self._function.nodes} | {p.name for p in self._function.parameters}
    renamed = {}
    for name, folded in self._folded.items():
      for index in range(len(folded.outputs)) if len(folded.outputs) > 1 else ():
        renamed[TensorRef(name, index)] = TensorRef(unique_name(f"{name}/output_{index}", taken))
    return renamed

  def _constants_for(self, node: Node, renamed: Mapping[TensorRef, TensorRef]) -> list[Node]:
    folded = self._folded[node.name]
    control_inputs = self._live_controls(folded.control_inputs)
    return [
      Node(
        name=renamed.get(TensorRef(node.name, index), TensorRef(node.name)).node,
        op="Const",
        control_inputs=control_inputs,
        attrs={"dtype": tensor.dtype, "value": tensor},
        device=node.device,
        source=node.source or Source((node.name,), ("",)),
      )
      for index, tensor in enumerate(folded.outputs)
    ]

  def _live_controls(self, names: tuple[str, ...]) -> tuple[str, ...]:
    """Control inputs with nodes that dissolved into several constants replaced by what they waited for."""
    live: dict[str, None] = {}
    pending = list(reversed(names))
    seen = set()
    while pending:
      name = pending.pop()
      folded = self._folded.get(name)
      if folded is None or len(folded.outputs) == 1:
        live[name] = None
      elif name not in seen:
        seen.add(name)
        pending += reversed(folded.control_inputs)
    return tuple(live)

  def _rewire(self, node: Node, renamed: Mapping[TensorRef, TensorRef]) -> Node:
    inputs = tuple(renamed.get(ref, ref) for ref in node.inputs)
    control_inputs = self._live_controls(node.control_inputs)
    if inputs == node.inputs and control_inputs == node.control_inputs:
      return node
    return dataclasses.replace(node, inputs=inputs, control_inputs=control_inputs)
