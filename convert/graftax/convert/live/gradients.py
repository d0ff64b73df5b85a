"""Traces the custom gradients of live functions, which TensorFlow holds as Python functions."""

import contextlib
import dataclasses
import functools
import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from graftax.convert._tensorflow import (
  TensorFlow,
  TfFunction,
  TfGraph,
  TfTensor,
  import_gradient_registry,
  import_tensorflow,
  outside_of_graphs,
)
from graftax.convert.errors import ConversionError
from graftax.convert.live.captures import read_capture
from graftax.convert.live.variables import LiveVariables
from graftax.convert.program import CapturedTensor, CustomGradient, GradientCapture, LateGradients, UnavailableCapture
from graftax.graphdef_ir import (
  Function,
  FunctionLibrary,
  Graph,
  TensorRef,
  function_from_proto,
  graph_from_proto,
  implementations_for_cpu,
  validate_reachable,
)
from graftax.ops_jax import ResourceHandle

__all__ = ["LiveGradients"]

_Captures = tuple[GradientCapture, ...]

_OP_TYPE = "_gradient_op_type"

# Each gradient function may have a custom gradient. Beyond this order, gradient functions are differentiated directly.
_MAX_ORDER = 3


class LiveGradients(LateGradients):
  """The custom gradients that the graphs of a ConcreteFunction name, and those inside of their gradient functions.

  Those of the program itself are traced at once. Each of them may contain several others, as those of Bessel functions
  do, so these are traced when a derivative of higher order looks them up. After the last one, nothing of TensorFlow is
  kept.
  """

  def __init__(self, concrete: TfFunction, library: FunctionLibrary, variables: LiveVariables):
    """Traces the gradients of the first order.

    Args:
      concrete: the ConcreteFunction.
      library: its function library.
      variables: the variables of the program; those that only gradient functions of the first order read are added.
    """
    self.functions: dict[str, Function] = {}
    self._made: dict[str, CustomGradient] = {}
    self._waiting: dict[str, _Node] = {}
    self._seen: set[str] = set()
    self._lock = threading.RLock()
    self._tracer: _Tracer | None = _Tracer(library, variables)
    self._add(_graphs(concrete.graph, concrete.function_def), 1)
    for name in tuple(self._waiting):
      self._make(name, None)
    self._variables = frozenset(variables.values)
    self._forget_when_done()

  def __getitem__(self, name: str) -> CustomGradient:
    with self._lock:
      if name in self._waiting:
        self._make(name, self._variables)
    return self._made[name]

  def make_all(self) -> None:
    """Traces the gradients that were not looked up so far."""
    with self._lock:
      while self._waiting:
        self._make(next(iter(self._waiting)), self._variables)

  def __iter__(self) -> Iterator[str]:
    self.make_all()
    return iter(tuple(self._made))

  def __len__(self) -> int:
    self.make_all()
    return len(self._made)

  def __bool__(self) -> bool:
    return bool(self._waiting or self._made)

  def __reduce__(self) -> tuple[Any, ...]:
    return dict, (dict(self.items()),)

  def _add(self, graphs: "Iterable[_Forward]", order: int) -> None:
    """Notes the nodes of graphs that name gradients."""
    assert self._tracer is not None, "internal: all gradients were traced"
    for forward in graphs:
      self._tracer.graphs[id(forward.graph)] = forward
      for op in forward.graph.get_operations():
        name = _op_type(op)
        if name is not None and name not in self._seen:
          self._seen.add(name)
          self._waiting[name] = _Node(op, forward, order)

  def _make(self, name: str, parameters: frozenset[str] | None) -> None:
    """Traces a gradient that waits.

    Args:
      name: its registered name.
      parameters: the variables that it may read; None for any.
    """
    assert self._tracer is not None, "internal: all gradients were traced"
    node = self._waiting[name]
    made = self._tracer.trace(name, node, parameters)
    del self._waiting[name]
    if made is not None:
      self._made[name] = made.gradient
      self.functions.update(made.functions)
      if node.order < _MAX_ORDER:
        self._add(made.graphs, node.order + 1)
    self._forget_when_done()

  def _forget_when_done(self) -> None:
    if not self._waiting:
      self._tracer = None


@dataclasses.dataclass(frozen=True, slots=True)
class _Node:
  """A node that names a gradient.

  Attributes:
    op: the node.
    forward: the graph that has it.
    order: the order of the derivative that its gradient computes.
  """

  op: Any
  forward: "_Forward"
  order: int


@dataclasses.dataclass(frozen=True, slots=True)
class _Traced:
  """A gradient that was traced.

  Attributes:
    gradient: the gradient.
    functions: its function and those that it calls, by name.
    graphs: TensorFlow's graphs of these functions that may hold nodes with custom gradients.
  """

  gradient: CustomGradient
  functions: dict[str, Function]
  graphs: "list[_Forward]"


class _Tracer:
  """What tracing needs of TensorFlow.

  Attributes:
    graphs: all graphs of the program and of the gradients that were traced, by id.
  """

  def __init__(self, library: FunctionLibrary, variables: LiveVariables):
    self._tf = import_tensorflow("Converting a custom gradient")
    self._registry = import_gradient_registry()
    self._library = library
    self._variables = variables
    self.graphs: dict[int, _Forward] = {}

  def trace(self, name: str, node: _Node, parameters: frozenset[str] | None) -> _Traced | None:
    """Returns the gradient of a node; None if TensorFlow does not have it. See `LiveGradients._make`.

    Raises:
      ConversionError: a capture has no JAX counterpart.
    """
    with contextlib.nullcontext() if parameters is None else outside_of_graphs(self._tf):
      traced = _trace(self._tf, self._registry, name, node.op, node.order)
      if traced is None or _is_of_another_trace(traced, node.forward, self.graphs):
        return None
      graph = graph_from_proto(traced.graph.as_graph_def())
      function = function_from_proto(traced.function_def, library=graph.library)
      captures = _captures(self._tf, traced, function, graph, (node.forward, self.graphs), self._variables)
    if parameters is not None:
      captures = _with_parameters_alone(captures, parameters, node.order)
    validate_reachable(function, graph.library, graph.signatures)
    gradient = CustomGradient(function.name, (True,) * len(node.op.outputs), _results(traced), captures)
    called = {name: graph.library[name] for name in graph.library if name not in self._library}
    called |= implementations_for_cpu(called, graph.library)
    graphs = [] if _is_lifted(traced.graph) else _graphs(traced.graph, traced.function_def)
    return _Traced(gradient, {**called, function.name: function}, graphs)


def _with_parameters_alone(captures: _Captures, parameters: frozenset[str], order: int) -> _Captures:
  """Returns captures of a gradient of higher order; what reads a variable that is not a parameter raises."""
  return tuple(
    UnavailableCapture(
      f"variable {capture.name!r}, which a gradient of order {order} reads and neither the function nor its first "
      "gradient does, so that it is not among the parameters"
    )
    if isinstance(capture, ResourceHandle) and capture.kind == "variable" and capture.name not in parameters
    else capture
    for capture in captures
  )


@dataclasses.dataclass(frozen=True)
class _Forward:
  """TensorFlow's graph of a function that may hold nodes with custom gradients.

  Attributes:
    graph: the graph.
    definitions: the FunctionDefs in the library that were made from the graph. There are several if a
      `tf.GradientTape` has differentiated the function, since TensorFlow then adds a copy with further results.
  """

  graph: TfGraph
  definitions: tuple[Any, ...]

  @functools.cached_property
  def positions(self) -> dict[str, int]:
    """Returns op name in the graph -> position of its node in each FunctionDef. Names may differ in a FunctionDef."""
    inputs = {tensor.op.name for tensor in self.graph.inputs}
    names = [op.name for op in self.graph.get_operations() if op.name not in inputs]
    return {name: position for position, name in enumerate(names)}


def _graphs(graph: TfGraph, definition: Any) -> list[_Forward]:
  """Returns `graph` and the graphs of all functions in its library."""
  graphs, definitions = {id(graph): graph}, {id(graph): [definition]}
  for name in graph._functions:
    function = graph._get_function(name)
    inner = getattr(function, "graph", None)
    if inner is not None:
      graphs[id(inner)] = inner
      definitions.setdefault(id(inner), []).append(function.definition)
  return [_Forward(graphs[key], tuple(definitions[key])) for key in graphs]


def _is_lifted(graph: TfGraph) -> bool:
  """Returns whether the graph contains StableHLO, which JAX differentiates after it is lifted."""
  return any(op.type == "XlaCallModule" for op in graph.get_operations())


def _op_type(op: Any) -> str | None:
  if op.type != "IdentityN":
    return None
  try:
    name: bytes = op.get_attr(_OP_TYPE)
  except ValueError:
    return None
  return name.decode()


def _trace(tf: TensorFlow, registry: Any, op_type: str, op: Any, order: int) -> TfFunction:
  """Returns the gradient function of a node as a ConcreteFunction; None if TensorFlow does not have it."""
  try:
    gradient = registry.lookup(op_type)
  except LookupError:
    return None  # the model was saved without it
  specs = [tf.TensorSpec(output.shape, output.dtype) for output in op.outputs]
  try:
    return tf.function(lambda *grads: gradient(op, *grads), autograph=False).get_concrete_function(*specs)
  except NotImplementedError:
    if order == 1:
      raise
    return None  # TensorFlow cannot differentiate this gradient function (`tf.recompute_grad`)


def _is_of_another_trace(traced: TfFunction, forward: _Forward, graphs: Mapping[int, _Forward]) -> bool:
  """Returns whether a gradient function reads tensors of a function that is neither in the program nor encloses it.

  This happens if a process loads a model that it saved without gradients. The loaded copy then names the gradients of
  the original functions, which do not apply to the copy.
  """
  known = {*graphs, *(id(outer) for graph in graphs.values() for outer in _outer_graphs(graph.graph))}
  inner = {id(tensor) for tensor, _ in forward.graph.captures}
  tensors = [tensor for tensor in traced.captured_inputs if not hasattr(tensor, "numpy")]
  return any(id(tensor.graph) not in known and id(tensor) not in inner for tensor in tensors)


def _outer_graphs(graph: TfGraph) -> Iterator[TfGraph]:
  while (graph := getattr(graph, "outer_graph", None)) is not None:
    yield graph


def _results(traced: TfFunction) -> tuple[int | None, ...]:
  """Returns, for each input of the node, the index of the result that is its cotangent; None if there is none."""
  results: list[int | None] = []
  for output in traced.structured_outputs:
    results.append(None if output is None else sum(r is not None for r in results))
  return tuple(results)


def _captures(
  tf: TensorFlow,
  traced: TfFunction,
  function: Function,
  graph: Graph,
  forward: tuple[_Forward, Mapping[int, _Forward]],
  variables: LiveVariables,
) -> _Captures:
  """Returns the captures of a gradient function.

  Args:
    tf: TensorFlow.
    traced: the gradient function.
    function: the gradient function as a `Function`.
    graph: the graph that contains it.
    forward: the graph with the differentiated node, and all graphs of the program by id.
    variables: the variables of the program; those that only the gradient function reads are added.
  """
  variables.watch(traced.graph.variables)
  captures: list[GradientCapture] = []
  for position, tensor in enumerate(traced.captured_inputs, len(function.parameters) - len(traced.captured_inputs)):
    if hasattr(tensor, "numpy"):
      capture = read_capture(tf, tensor, position, function, graph, variables)
      if isinstance(capture, UnavailableCapture):
        raise ConversionError(f"gradient function {function.name!r}: {capture.what}, which has no JAX counterpart.")
      captures.append(capture)
    else:
      captures.append(_captured_tensor(tensor, *forward))
  return tuple(captures)


def _captured_tensor(tensor: TfTensor, forward: _Forward, graphs: Mapping[int, _Forward]) -> CapturedTensor:
  if tensor.graph is not forward.graph:
    # If a branch of a conditional reads a tensor of the enclosing graph, the tensor is a parameter of the branch.
    inner = next((inner for outer, inner in forward.graph.captures if outer is tensor), None)
    forward, tensor = (forward, inner) if inner is not None else (graphs.get(id(tensor.graph), forward), tensor)
  if tensor.graph is not forward.graph:
    # The tensor belongs to an enclosing function that is being traced: an error if the program runs the node.
    return CapturedTensor(tensor.graph.name, TensorRef(tensor.op.name, tensor.value_index))
  refs = [(definition.signature.name, _ref(tensor, forward, definition)) for definition in forward.definitions]
  return CapturedTensor(*refs[0], copies=tuple(refs[1:]))


def _ref(tensor: TfTensor, forward: _Forward, definition: Any) -> TensorRef:
  """Returns a tensor of the graph as one of a FunctionDef, which renames a node if a result has the same name."""
  for parameter, argument in zip(forward.graph.inputs, definition.signature.input_arg, strict=True):
    if parameter is tensor:
      return TensorRef(argument.name)
  node = definition.node_def[forward.positions[tensor.op.name]]
  if node.op != tensor.op.type:
    raise AssertionError(f"internal: {tensor.op.name!r} is not at its place in {definition.signature.name!r}.")
  return TensorRef(node.name, tensor.value_index)
