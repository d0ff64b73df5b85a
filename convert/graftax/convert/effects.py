"""Which nodes of a function must run: what results need, and the side effects that outlive the call."""

from collections.abc import Iterator

from graftax.graphdef_ir import (
  Function,
  FunctionLibrary,
  Node,
  OpSignatures,
  TensorRef,
  function_references,
  topological_order,
)

__all__ = ["first_argument", "needed_nodes", "referenced_functions", "written_parameters"]

# Effects on the host that JAX has no place for. They are dropped, and with them what only they read: string formatting,
# summaries, progress prints. (`Assert` is kept where checkify is asked for; see `options`.)
_DROPPED_EFFECTS = frozenset({
  "Assert", "FlushSummaryWriter", "CloseSummaryWriter", "CreateSummaryFileWriter", "ImportEvent", "Print", "PrintV2",
  "WriteAudioSummary", "WriteGraphSummary", "WriteHistogramSummary", "WriteImageSummary", "WriteRawProtoSummary",
  "WriteScalarSummary", "WriteSummary",
})  # fmt: skip

# Ops that TensorFlow marks stateful, although nobody notices when an unread one does not run.
_UNNOTICED = frozenset({
  "AnonymousHashTable", "AnonymousMutableDenseHashTable", "AnonymousMutableHashTable",
  "AnonymousMutableHashTableOfTensors", "HashTableV2", "IsVariableInitialized", "LookupTableExportV2",
  "LookupTableFindV2", "LookupTableSizeV2", "Multinomial", "MutableDenseHashTableV2", "MutableHashTableOfTensorsV2",
  "MutableHashTableV2", "ParameterizedTruncatedNormal", "Placeholder", "RandomGamma", "RandomPoissonV2",
  "RandomShuffle", "RandomStandardNormal", "RandomUniform", "RandomUniformInt", "ReadVariableOp", "ResourceGather",
  "ResourceGatherNd", "StackV2", "SummaryWriter", "TensorArrayV3", "TruncatedNormal", "VarHandleOp",
  "VarIsInitializedOp", "Variable", "VariableShape", "VariableV2",
})  # fmt: skip

# Stateful in TensorFlow; here the flow edge carries what is in the array.
_TENSOR_ARRAYS = frozenset({
  "TensorArrayCloseV3", "TensorArrayConcatV3", "TensorArrayGatherV3", "TensorArrayGradV3", "TensorArrayReadV3",
  "TensorArrayScatterV3", "TensorArraySizeV3", "TensorArraySplitV3", "TensorArrayV3", "TensorArrayWriteV3",
})  # fmt: skip

_CALLS_WITH_EFFECTS_OF_THEIR_FUNCTIONS = frozenset({
  "Case", "For", "If", "PartitionedCall", "RemoteCall", "StatefulPartitionedCall", "StatelessCase", "StatelessIf",
  "StatelessWhile", "SymbolicGradient", "While",
})  # fmt: skip

# Node inputs before the first that is handed to the function; `For` hands over its counter in place of its bounds.
_FIRST_ARGUMENT = {"Case": 1, "For": 2, "If": 1, "StatelessCase": 1, "StatelessIf": 1}

_PASS_THROUGH = frozenset({"Identity", "IdentityN", "StatelessWhile", "While"})


def needed_nodes(
  function: Function, library: FunctionLibrary, signatures: OpSignatures, *, keep_asserts: bool = False
) -> frozenset[str]:
  """Names of the nodes that a call must run.

  A node is needed when a result depends on its data, or when it has a side effect that TensorFlow would run and that
  outlives the call, such as assigning a variable; then its inputs are needed too. Control edges order nodes, but do not
  make a pure node needed.

  Args:
    function: the function.
    library: the functions that it calls.
    signatures: signatures of all ops.
    keep_asserts: whether an `Assert` is such a side effect.
  """
  nodes = {node.name: node for node in function.nodes}
  roots = [result.ref.node for result in function.results]
  dropped = _DROPPED_EFFECTS - {"Assert"} if keep_asserts else _DROPPED_EFFECTS
  roots += (
    name
    for name in _executed(function, nodes)
    if _node_has_effects(nodes[name], library, signatures, frozenset(), dropped)
  )
  return frozenset(_data_ancestors(roots, nodes))


def written_parameters(function: Function, library: FunctionLibrary, signatures: OpSignatures) -> frozenset[int]:
  """Positions of the parameters through which `function`, or a function that it calls, may write a resource."""
  return _written_parameters(function, library, signatures, frozenset())


def first_argument(node: Node) -> int:
  """Position of the node input that is the first argument of the function it calls."""
  return _FIRST_ARGUMENT.get(node.op, 0)


def referenced_functions(node: Node, library: FunctionLibrary) -> Iterator[str]:
  """Names of the library functions that a node's op or attributes name."""
  if node.op in library:
    yield node.op
  yield from (reference.name for reference in function_references(node.attrs))


def _function_has_effects(
  function: Function,
  library: FunctionLibrary,
  signatures: OpSignatures,
  callers: frozenset[str],
  dropped: frozenset[str],
) -> bool:
  nodes = {node.name: node for node in function.nodes}
  inside = callers | {function.name}
  return any(
    _node_has_effects(nodes[name], library, signatures, inside, dropped) for name in _executed(function, nodes)
  )


def _node_has_effects(
  node: Node,
  library: FunctionLibrary,
  signatures: OpSignatures,
  callers: frozenset[str],
  dropped: frozenset[str] = _DROPPED_EFFECTS,
) -> bool:
  if node.op in dropped or node.op in _UNNOTICED or node.op in _TENSOR_ARRAYS:
    return False
  if node.op in library or node.op in _CALLS_WITH_EFFECTS_OF_THEIR_FUNCTIONS:
    return any(
      name not in callers
      and name in library
      and _function_has_effects(library[name], library, signatures, callers, dropped)
      for name in referenced_functions(node, library)
    )
  signature = signatures.get(node.op)
  return signature is not None and (signature.is_stateful or any(arg.is_ref for arg in signature.outputs))


def _written_parameters(
  function: Function, library: FunctionLibrary, signatures: OpSignatures, callers: frozenset[str]
) -> frozenset[int]:
  inside = callers | {function.name}
  origins = {TensorRef(parameter.name): position for position, parameter in enumerate(function.parameters)}
  written: set[int] = set()
  for node in topological_order(function.nodes):
    reached = {i: origins[ref] for i, ref in enumerate(node.inputs) if ref in origins}
    if not reached:
      continue
    if node.op in _PASS_THROUGH:
      # Resources pass through unchanged, so what is written to the output is written to the input.
      origins.update((TensorRef(node.name, i), position) for i, position in reached.items())
    if not _node_has_effects(node, library, signatures, callers):
      continue
    if 0 in reached and _gives_reference(node, signatures):
      origins[TensorRef(node.name)] = reached[0]
    offset = first_argument(node)
    callees = [name for name in referenced_functions(node, library) if name in library and name not in inside]
    if not callees:
      written.update(reached.values())
    for name in callees:
      inner = _written_parameters(library[name], library, signatures, inside)
      written.update(position for i, position in reached.items() if i - offset in inner)
  return frozenset(written)


def _gives_reference(node: Node, signatures: OpSignatures) -> bool:
  """Whether the node's first output is the TF1 reference that is its first input, as that of an assignment is."""
  signature = signatures.get(node.op)
  return signature is not None and bool(signature.outputs) and signature.outputs[0].is_ref


def _executed(function: Function, nodes: dict[str, Node]) -> Iterator[str]:
  """Names of the nodes that TensorFlow would run: those that a result or a control result depends on in any way."""
  stack = [result.ref.node for result in function.results] + list(function.control_results)
  seen = set()
  while stack:
    name = stack.pop()
    if name in seen or name not in nodes:
      continue
    seen.add(name)
    yield name
    stack.extend(ref.node for ref in nodes[name].inputs)
    stack.extend(nodes[name].control_inputs)


def _data_ancestors(roots: list[str], nodes: dict[str, Node]) -> set[str]:
  stack = list(roots)
  seen: set[str] = set()
  while stack:
    name = stack.pop()
    if name not in seen:
      seen.add(name)
      if name in nodes:
        stack.extend(ref.node for ref in nodes[name].inputs)
  return seen
