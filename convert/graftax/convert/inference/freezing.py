"""`freeze`: a converted function with fixed parameters, as a smaller program for inference."""

import dataclasses
import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import jax
import numpy as np

from graftax.convert.annotated import AnnotatedFunction
from graftax.convert.conversion import conversion_of, with_program
from graftax.convert.errors import ConversionError, ParameterError
from graftax.convert.inference.branches import decide_branches
from graftax.convert.inference.known_parts import KnownParts, read_only_variables
from graftax.convert.inference.scaling import FoldedChain, find_chains, folded
from graftax.convert.inference.transposes import cancelled_transposes
from graftax.convert.planning.effects import EffectAnalysis
from graftax.convert.program import Capture, Program
from graftax.convert.shown_names import shown
from graftax.convert.subgraph import inlined
from graftax.convert.variable import Variable, variable_name
from graftax.graphdef_ir import (
  Budget,
  DType,
  Function,
  Limits,
  Node,
  Parameter,
  PartialShape,
  Tensor,
  TensorRef,
  TensorSpec,
  ancestors,
  reachable_functions,
  traits_of,
)
from graftax.ops_jax import ResourceHandle, Value

__all__ = ["FreezeReport", "Frozen", "freeze"]

# A known result that is larger than the variables behind it is computed in each call instead.
_MOST_GROWTH, _SMALL_BYTES = 2, 1 << 12
# Integers become constants of the program up to this size.
_MOST_INTEGERS = 1 << 10
# A branch that runs may have conditionals that are decided in their turn.
_MOST_ROUNDS = 64


@dataclasses.dataclass(frozen=True, slots=True)
class FreezeReport:
  """What `freeze` did.

  Attributes:
    folded: convolutions and dots whose filters were scaled, such as by a batch normalization.
    precomputed: other tensors that depend on parameters alone, and are parameters or constants now.
    branches: conditionals of which one branch was left.
    transposes: transposes that were left out.
    bytes_before: size of the parameters that were given.
    bytes_after: size of the parameters that were returned. Those that were not changed are the same objects.
  """

  folded: int
  precomputed: int
  branches: int
  transposes: int
  bytes_before: int
  bytes_after: int


class Frozen(NamedTuple):
  """What `freeze` returns.

  Attributes:
    fn: the function, `fn(params, *args, rng=None, **kwargs) -> (outputs, new_params)`.
    params: its parameters.
    report: what was done.
  """

  fn: AnnotatedFunction
  params: dict[str, Value]
  report: FreezeReport


def freeze(fn: AnnotatedFunction, params: Mapping[str, Value]) -> Frozen:
  """Returns a converted function for inference with fixed parameters, and the fewer parameters that it needs.

  The values of `params` are used now: batch normalization with known statistics is folded into the filter of the
  convolution or dot before it, what depends on parameters alone is computed, conditionals with a known predicate are
  replaced by the branch that runs, and pairs of transposes that cancel are left out. The result is a converted function
  like the other, for any transformation of JAX: derivatives with respect to its inputs are those of the original.

  This works on the TensorFlow graph rather than on a jaxpr. The graph does not depend on the shapes of arguments, so
  one rewrite serves all batch sizes. The result is again a program, which can be pickled and written as source. What
  is inside of StableHLO modules (`XlaCallModule`) and of loops is not folded.

  Args:
    fn: a function that `convert`, or `convert` of a SavedModel, returned.
    params: values of its parameters.

  Returns:
    `(fn, params, report)`. Parameters that are used as they are keep their names and are the same objects, so freezing
    needs memory only for the changed ones. Variables that the program writes or uses in loops stay parameters.

  Raises:
    ConversionError: `fn` is not a converted function with parameters, or the option `max_sizes` names a node of
      a function that the program calls. Calls are inlined, which renames such nodes.
    ParameterError: `params` does not have the names of its parameters.
    LimitExceededError: known values are larger, or known branches multiply more, than the option `limits` allows.

  Differs from the original: scaled filters round differently. Results of ResNet50, MobileNetV2, DenseNet121 and
  EfficientNetB0 with random weights differ by at most 2e-5 of their largest element. Random numbers differ, because
  they depend on the names of nodes, and these change.

  Example:
    >>> import numpy as np
    >>> from graftax.convert import convert, freeze
    >>> from graftax.graphdef_ir import schema
    >>> from google.protobuf import text_format
    >>> graph = text_format.Parse(
    ...   '''
    ...   node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }
    ...   node { name: "w" op: "VarHandleOp" attr { key: "dtype" value { type: DT_FLOAT } }
    ...          attr { key: "shape" value { shape { dim { size: 2 } dim { size: 2 } } } } }
    ...   node { name: "read" op: "ReadVariableOp" input: "w" attr { key: "dtype" value { type: DT_FLOAT } } }
    ...   node { name: "square" op: "Mul" input: "read" input: "read" attr { key: "T" value { type: DT_FLOAT } } }
    ...   node { name: "y" op: "Mul" input: "x" input: "square" attr { key: "T" value { type: DT_FLOAT } } }
    ...   ''',
    ...   schema.GraphDef(),
    ... )
    >>> variables = {"w": np.float32([[1, 2], [3, 4]])}
    >>> fn, params = convert(graph.SerializeToString(), inputs="x", outputs="y", variables=variables)
    >>> fn, params, report = freeze(fn, params)
    >>> {name: value.tolist() for name, value in params.items()}
    {'square/value': [[1.0, 4.0], [9.0, 16.0]]}
    >>> report.precomputed
    1
  """
  found = conversion_of(fn)
  if found is None:
    raise ConversionError(
      f"freeze: got {fn!r:.200}; expected a function with parameters that graftax.convert.convert, or convert of a "
      f"SavedModel, returned. Compile afterwards: fn, params = model.convert(); frozen = freeze(fn, params); "
      f"predict = graftax.convert.jit(frozen.fn)."
    )
  program, options = found
  if not isinstance(params, Mapping) or set(params) != set(program.variables):
    raise ParameterError(
      f"freeze: the parameters do not have the names of the variables of {program.name}; expected a dict with "
      f"{shown(program.variables)}."
    )
  effects = EffectAnalysis(program.library, program.signatures, keep_asserts=options.enable_checkify_for_asserts)
  function, branches = _without_calls(program, params, effects, options.limits)
  known = _known(program, function, params, options.limits)
  draft = _Draft(program, function, known, effects)
  for chain in _chains(function, known, program):
    draft.replace_chain(chain)
  transposes = cancelled_transposes(function, known)
  draft.replaced.update(transposes)
  precomputed = draft.precompute()
  new_fn, new_params = with_program(fn, draft.finished())
  # The program has the shapes of the given variables; the values are those of the caller.
  new_params |= {name: params[name] for name in new_params if name in params}
  report = FreezeReport(
    draft.num_folded,
    precomputed,
    branches,
    len(transposes),
    _num_bytes(params.values()),
    _num_bytes(new_params.values()),
  )
  return Frozen(new_fn, new_params, report)


def _num_bytes(values: Iterable[Value]) -> int:
  return sum(getattr(value, "nbytes", 0) for value in values)


def _without_calls(
  program: Program, params: Mapping[str, Value], effects: EffectAnalysis, limits: Limits
) -> tuple[Function, int]:
  """Returns the program's function with calls inlined and decided conditionals, and how many of these there were.

  Nodes that nothing needs are left out: they must not be computed, nor count as readers of what others compute.
  """
  functions = [program.function, *program.library.values()]
  # One for all rounds: branches whose branches are decided may multiply, as calls of calls do.
  budget = Budget(limits, num_nodes=sum(len(function.nodes) for function in functions))
  function, total = _pruned(program, inlined(program, budget), effects), 0
  for _ in range(_MOST_ROUNDS):
    function, decided = decide_branches(function, _known(program, function, params, limits))
    if not decided:
      break
    total += decided
    function = _pruned(program, inlined(dataclasses.replace(program, function=function), budget), effects)
  return function, total


def _pruned(program: Program, function: Function, effects: EffectAnalysis) -> Function:
  needed = _needed(program, function, effects)
  nodes = tuple(
    dataclasses.replace(node, control_inputs=tuple(name for name in node.control_inputs if name in needed))
    for node in function.nodes
    if node.name in needed
  )
  control_results = tuple(name for name in function.control_results if name in needed)
  return dataclasses.replace(function, nodes=nodes, control_results=control_results)


def _needed(program: Program, function: Function, effects: EffectAnalysis) -> set[str]:
  """Returns the nodes that results and effects need, and those that only keep effects in their order."""

  def acts(node: Node) -> bool:
    signature = program.signatures.get(node.op)
    return traits_of(node.op).effect is None and (signature is None or signature.is_stateful)

  needed = effects.needed_nodes(function)
  nodes = {node.name: node for node in function.nodes}
  # In TF1 control flow, control edges determine the branch or loop of a constant.
  ordered = any(acts(nodes[name]) or traits_of(nodes[name].op).control_flow_v1 for name in needed)
  return ancestors(nodes, needed, control=ordered)


def _known(program: Program, function: Function, params: Mapping[str, Value], limits: Limits) -> KnownParts:
  names = set(read_only_variables(program, function).values())
  values = {name: params[name] for name in names if isinstance(params.get(name), np.ndarray | jax.Array)}
  return KnownParts(program, function, values, limits)


def _chains(function: Function, known: KnownParts, program: Program) -> list[FoldedChain]:
  chains = find_chains(function, known, program.signatures)
  values = known.values(ref for chain in chains for ref in chain.refs)
  found = (folded(chain, values, program.signatures) for chain in chains)
  return [result for result in found if result is not None]


class _Draft:
  """A function that is being rewritten: its nodes, new ones, and which tensors replace which."""

  def __init__(self, program: Program, function: Function, known: KnownParts, effects: EffectAnalysis):
    self._program = program
    self._known = known
    self._effects = effects
    self._function = function
    self._taken = {node.name for node in function.nodes} | {parameter.name for parameter in function.parameters}
    self._taken |= set(program.variables)
    self._new_nodes: list[Node] = []
    self._new_values: dict[str, np.ndarray] = {}
    self._filters: list[tuple[str | TensorRef, np.ndarray, TensorRef]] = []
    self.replaced: dict[TensorRef, TensorRef] = {}
    self.num_folded = 0

  def replace_chain(self, chain: FoldedChain) -> None:
    """Replaces a chain by one convolution or dot and a shift."""
    linear = chain.linear
    inputs = list(linear.inputs)
    inputs[chain.filter_position] = self._filter(chain)
    ref = self._add(dataclasses.replace(linear, name=f"{linear.name}/folded", inputs=tuple(inputs)))
    if chain.shift is not None:
      shift = self._parameter(f"{linear.name}/shift", chain.shift)
      ref = self._add(Node(f"{linear.name}/shifted", "AddV2", (ref, shift), attrs={"T": _dtype(chain.shift)}))
    for node in chain.squeezes:
      ref = self._add(dataclasses.replace(node, name=f"{node.name}/folded", inputs=(ref,)))
    self.replaced[chain.end] = ref
    self.num_folded += 1

  def _filter(self, chain: FoldedChain) -> TensorRef:
    """Returns the scaled filter; one for all calls of a layer."""
    ref = chain.linear.inputs[chain.filter_position]
    original = self._known.variable_of(ref) or ref
    for other, value, made in self._filters:
      if other == original and np.array_equal(value, chain.filter):
        return made
    made = self._parameter(f"{chain.linear.name}/filter", chain.filter)
    self._filters.append((original, chain.filter, made))
    return made

  def precompute(self) -> int:
    """Replaces what depends on parameters alone by its values, and returns the number of tensors."""
    known, function = self._known, self._rewired()
    needed = _needed(self._program, function, self._effects)
    read = [
      ref
      for node in function.nodes
      if node.name in needed and not known.is_known(TensorRef(node.name))
      for ref in node.inputs
    ]
    read += [result.ref for result in function.results]
    refs = [ref for ref in dict.fromkeys(read) if known.depends_on_variables(ref) and known.variable_of(ref) is None]
    number = 0
    for ref, value in known.values(refs).items():
      new = self._precomputed(ref, value)
      if new is not None:
        self.replaced[ref] = new
        number += 1
    return number

  def _precomputed(self, ref: TensorRef, value: np.ndarray) -> TensorRef | None:
    if value.dtype.kind in "iub":
      if value.size > _MOST_INTEGERS:
        return None
      tensor = Tensor.from_numpy(value)
      return self._add(Node(f"{ref.node}/constant", "Const", attrs={"dtype": tensor.dtype, "value": tensor}))
    if value.nbytes > _SMALL_BYTES and value.nbytes > _MOST_GROWTH * self._num_bytes_behind(ref):
      return None
    return self._parameter(f"{ref.node}/value", value)

  def _num_bytes_behind(self, ref: TensorRef) -> int:
    variables = (self._program.variables[name] for name in self._known.variables_behind(ref))
    return sum(variable.dtype.itemsize * math.prod(variable.shape) for variable in variables)

  def _parameter(self, name: str, value: np.ndarray) -> TensorRef:
    """Adds a parameter, and returns its value."""
    name = self._name(name)
    self._new_values[name] = value
    return self._add(Node(f"{name}/read", "ReadVariableOp", (TensorRef(name),), attrs={"dtype": _dtype(value)}))

  def _add(self, node: Node) -> TensorRef:
    node = dataclasses.replace(node, name=self._name(node.name))
    self._new_nodes.append(node)
    return TensorRef(node.name)

  def _name(self, wanted: str) -> str:
    name, number = wanted, 0
    while name in self._taken:
      number += 1
      name = f"{wanted}_{number}"
    self._taken.add(name)
    return name

  def _rewired(self) -> Function:
    """Returns the function with all replacements, and with nodes that nothing needs any more."""

    def resolved(ref: TensorRef) -> TensorRef:
      while (new := self.replaced.get(ref)) is not None:
        # Shortens chains of replacements, so that the nodes after a long one do not follow all of it again.
        self.replaced[ref] = self.replaced.get(new, new)
        ref = new
      return ref

    nodes = tuple(
      dataclasses.replace(node, inputs=tuple(map(resolved, node.inputs)))
      for node in (*self._function.nodes, *self._new_nodes)
    )
    results = tuple(dataclasses.replace(result, ref=resolved(result.ref)) for result in self._function.results)
    return dataclasses.replace(self._function, nodes=nodes, results=results)

  def finished(self) -> Program:
    """Returns the rewritten program, without the nodes, captures and variables that it does not need."""
    program = self._program
    function = _pruned(program, self._rewired(), self._effects)
    nodes = function.nodes
    num_inputs = len(function.parameters) - len(program.captures)
    read = {ref.node for node in nodes for ref in node.inputs} | {result.ref.node for result in function.results}
    kept = [
      (parameter, capture)
      for parameter, capture in zip(function.parameters[num_inputs:], program.captures, strict=True)
      if parameter.name in read
    ]
    new = {name: value for name, value in self._new_values.items() if name in read}
    parameters = [*function.parameters[:num_inputs], *(parameter for parameter, _ in kept), *map(_handle, new.items())]
    captures = [*(capture for _, capture in kept), *map(ResourceHandle, new)]
    function = dataclasses.replace(function, parameters=tuple(parameters))
    names = _variables_of(program, function, captures)
    variables = {name: variable for name, variable in program.variables.items() if name in names}
    variables |= {name: Variable(value, f"{name}:0", trainable=False) for name, value in new.items()}
    # The conversion of the original validated all nodes; since inlining, those with a custom gradient have more inputs.
    return dataclasses.replace(
      program, function=function, captures=tuple(captures), variables=variables, is_validated=True
    )


def _handle(variable: tuple[str, np.ndarray]) -> Parameter:
  name, value = variable
  spec = TensorSpec(PartialShape(value.shape), _dtype(value), name)
  return Parameter(name, DType.RESOURCE, PartialShape(()), handle_spec=spec)


def _dtype(value: np.ndarray) -> DType:
  return Tensor.from_numpy(value).dtype


def _variables_of(program: Program, function: Function, captures: Iterable[Capture]) -> set[str]:
  """Returns the names of the variables that a function, its branches and loops, and derivatives refer to."""
  names = {capture.name for capture in captures if isinstance(capture, ResourceHandle)}
  functions = [function, *(program.library[name] for name in reachable_functions(function, program.library))]
  for gradient in program.gradients.values():
    names |= {capture.name for capture in gradient.captures if isinstance(capture, ResourceHandle)}
    functions.append(program.library[gradient.function])
  makers = (node for function in functions for node in function.nodes if traits_of(node.op).makes == "variable")
  return names | {variable_name(node) for node in makers}
