"""Plans a function: a flat list of steps over numbered slots, which each call runs in order.

Planning orders the nodes, decodes constants, drops nodes that are not needed and pass-through nodes, and determines
when each value can be freed.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import ml_dtypes
import numpy as np

from graftax.convert.options import ConvertOptions
from graftax.convert.planning.compiled_ops import compiled_lowering
from graftax.convert.planning.custom_gradient import apply_custom_gradient, attach_custom_gradients, gradient_of
from graftax.convert.planning.effects import EffectAnalysis
from graftax.convert.program import CustomGradient
from graftax.graphdef_ir import (
  UNRESOLVED_OUTPUT,
  Budget,
  DType,
  Function,
  FunctionLibrary,
  FunctionRef,
  ModelFolder,
  Node,
  OpArg,
  OpSignature,
  OpSignatures,
  Tensor,
  TensorRef,
  referenced_functions,
  restore_dilations,
  topological_order,
  traits_of,
)
from graftax.graphdef_ir.errors import AttributeValueError, DanglingInputError, UnknownOpError
from graftax.ops_jax import (
  Context,
  InvalidInputError,
  Kernel,
  Lowering,
  MissingOp,
  UnsupportedOpError,
  Value,
  bind,
  context_kernel,
  lowering,
)

__all__ = ["FindLowering", "Plan", "Planner", "Step", "as_new_object"]

# Returns the implementation of a node, or None if there is none.
FindLowering = Callable[[Node, OpSignature | None], Lowering | None]

# What a kernel runs: `(context, inputs) -> outputs`.
_Run = Callable[[Context, Sequence[Value]], tuple[Value, ...]]


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
  """One node that is ready to run.

  Attributes:
    node: the node, whose name is used in messages.
    kernel: the function to run.
    inputs: slots of its inputs.
    outputs: slots of its outputs.
    frees: slots that nothing reads after this step.
    scope: TensorFlow's name scope of the node, without the node's own name.
  """

  node: Node
  kernel: Kernel
  inputs: tuple[int, ...]
  outputs: tuple[int, ...]
  frees: tuple[int, ...]
  scope: str


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
  """The plan of one function.

  Attributes:
    name: the function's name.
    num_slots: the number of slots.
    parameters: slots of the parameters.
    constants: maps slots to values, filled in before the first step.
    wide_constants: the same memory as other NumPy arrays, for calls with 64-bit types on; see `as_new_object`.
    steps: the steps, in the order in which they run.
    results: slots of the results.
  """

  name: str
  num_slots: int
  parameters: tuple[int, ...]
  constants: Mapping[int, np.ndarray]
  wide_constants: Mapping[int, np.ndarray]
  steps: tuple[Step, ...]
  results: tuple[int, ...]

  @property
  def passes_through(self) -> tuple[int | None, ...]:
    """Returns, for each result, the position of the parameter that it equals, or None."""
    positions = {slot: position for position, slot in enumerate(self.parameters)}
    return tuple(positions.get(slot) for slot in self.results)

  def parameters_of(self, results: Iterable[int]) -> frozenset[int]:
    """Returns the positions of the parameters that the results at some positions are computed from."""
    needed = {self.results[position] for position in results}
    for step in reversed(self.steps):
      if needed.intersection(step.outputs):
        needed.update(step.inputs)
    return frozenset(position for position, slot in enumerate(self.parameters) if slot in needed)


def as_new_object(value: Value) -> Value:
  """Returns the same memory as another NumPy array, if its elements have 64 bits or more.

  While a trace or a jitted function lives, JAX keeps the buffer of an array that it closes over, by the identity of the
  array. If 64-bit types are off, the numbers are cut there, and that buffer is used again while 64-bit types are on: in
  JAX 0.12, after `f = jit(lambda: jnp.abs(x)); f()`, `jnp.abs(x)` raises or is cut under `jax.enable_x64(True)`.
  """
  return value.view() if isinstance(value, np.ndarray) and value.dtype.itemsize >= 8 else value


class Planner:
  """Plans for one program: each function is planned once, when it is first needed."""

  def __init__(
    self,
    library: FunctionLibrary,
    signatures: OpSignatures,
    options: ConvertOptions,
    gradients: Mapping[str, CustomGradient] | None = None,
    find_lowering: FindLowering | None = None,
    folder: ModelFolder | None = None,
  ):
    """Creates the planner of one program.

    Args:
      library: the functions that nodes call.
      signatures: signatures of all ops.
      options: options of the conversion.
      gradients: the custom gradients of the program.
      find_lowering: finds the implementation of each node; by default JAX's, and with the option `fallback` that which
        TensorFlow compiles.
      folder: the files that nodes may read; by default none.
    """
    self.folder = folder or ModelFolder()
    self.find_lowering = find_lowering or self._jax_lowering
    self.library = library
    self.signatures = signatures
    self.options = options
    self.gradients = (gradients or {}) if options.convert_custom_gradient else {}
    self.effects = EffectAnalysis(library, signatures, keep_asserts=options.enable_checkify_for_asserts)
    self._plans: dict[str, Plan] = {}
    self._root: Function | None = None

  def plan_root(self, function: Function) -> Plan:
    """Returns the plan of a program's function, as `check_program` returns it."""
    self._root = function
    return self._build(function)

  def plan(self, name: str) -> Plan:
    """Returns the plan of a library function."""
    if name not in self._plans:
      self._plans[name] = self._build(self.library[name])
    return self._plans[name]

  def _jax_lowering(self, node: Node, signature: OpSignature | None) -> Lowering | None:
    found = lowering(node.op)
    if found is None and signature is not None and self.options.fallback:
      return compiled_lowering(node, signature)
    return found

  def _build(self, function: Function) -> Plan:
    attached = attach_custom_gradients(function, self.gradients, self._all_functions)
    return _Builder(restore_dilations(attached), self).build()

  def _all_functions(self) -> Iterator[Function]:
    if self._root is not None:
      yield self._root
    yield from (self.library[name] for name in self.library.known())


class _Slots(dict[TensorRef, int]):
  """Maps the tensors of a function to slots.

  Raises:
    DanglingInputError: a key is neither a parameter nor the output of a node.
  """

  def __init__(self, function: str):
    self._function = function

  def __missing__(self, ref: TensorRef) -> int:
    raise DanglingInputError(
      f"function {self._function!r}: {str(ref)!r} is read, but is neither a parameter nor the output of a node."
    )


class _Builder:
  """Collects the slots and steps of one function."""

  def __init__(self, function: Function, planner: Planner):
    self.function = function
    self.signatures = planner.signatures
    self.library = planner.library
    self.options = planner.options
    self.effects = planner.effects
    self.find_lowering = planner.find_lowering
    self.gradients = planner.gradients
    self.slots = _Slots(function.name)
    self.num_slots = 0
    self.references: set[TensorRef] = set()
    self.constants: dict[int, np.ndarray] = {}
    self.drafts: list[Step] = []

  def build(self) -> Plan:
    parameters = tuple(self._new_slot(TensorRef(parameter.name)) for parameter in self.function.parameters)
    self.references.update(TensorRef(p.name) for p in self.function.parameters if p.dtype.is_ref)
    needed = self.effects.needed_nodes(self.function)
    for node in topological_order(self.function.nodes):
      if node.name in needed:
        self._add(node)
    # A result is a reference only if a loop returns a reference that was passed to it.
    results = tuple(self.slots[r.ref] if r.dtype.is_ref else self._read(r.ref) for r in self.function.results)
    frees = _last_reads([draft.inputs for draft in self.drafts], keep={*results})
    steps = tuple(dataclasses.replace(draft, frees=free) for draft, free in zip(self.drafts, frees, strict=True))
    wide_constants = {slot: as_new_object(constant) for slot, constant in self.constants.items()}
    return Plan(self.function.name, self.num_slots, parameters, self.constants, wide_constants, steps, results)

  def _add(self, node: Node) -> None:
    if node.op == "Const":
      self.constants[self._new_slot(TensorRef(node.name))] = _constant(node, self.options)
      return
    gradient = gradient_of(node, self.gradients)
    if traits_of(node.op).is_alias and gradient is None:
      # An alias needs no step, only another name for the slot.
      for index, ref in enumerate(node.inputs):
        self._alias(TensorRef(node.name, index), ref)
      return
    inputs = self._inputs(node)
    outputs = tuple(self._new_slot(TensorRef(node.name, i)) for i in range(self._num_outputs(node, gradient)))
    kernel = self._kernel(node, gradient)
    if node.op not in self.library and self.signatures.get(node.op) is None:
      kernel = dataclasses.replace(kernel, stages=(_OutputsThatAreRead(len(outputs), kernel.where), *kernel.stages))
    self._add_step(node, kernel, inputs, outputs)

  def _alias(self, name: TensorRef, ref: TensorRef) -> None:
    self.slots[name] = self.slots[ref]
    if ref in self.references:
      # As in TensorFlow, reading through the alias returns the value of the variable at that time.
      self.references.add(name)

  def _inputs(self, node: Node) -> tuple[int, ...]:
    """Returns the slots of the node's inputs. If it reads a TF1 reference by value, adds a step that reads it."""
    signature = self.signatures.get(node.op)
    makes_reference = signature is not None and any(arg.is_ref for arg in signature.outputs)
    if signature is None or not (makes_reference or any(ref in self.references for ref in node.inputs)):
      return tuple(self.slots[ref] for ref in node.inputs)
    attrs = signature.with_defaults(node.attrs)
    gives_reference = _per_tensor(signature.outputs, signature.output_sizes(attrs))
    self.references.update(TensorRef(node.name, i) for i, is_ref in enumerate(gives_reference) if is_ref)
    takes_reference = self._parameters_that_are_references(node)
    takes_reference = takes_reference or _per_tensor(signature.inputs, signature.input_sizes(attrs))
    return tuple(
      self.slots[ref] if is_ref else self._read(ref) for ref, is_ref in zip(node.inputs, takes_reference, strict=True)
    )

  def _parameters_that_are_references(self, node: Node) -> list[bool]:
    """Returns, for each input of a node that calls functions, whether it is a reference; `[]` for other nodes."""
    callee = next(referenced_functions(node, self.library), None)
    if callee is None:
      return []
    return [False] * traits_of(node.op).first_argument + [p.dtype.is_ref for p in self.library[callee].parameters]

  def _read(self, ref: TensorRef) -> int:
    """Returns the slot of a value; for a TF1 reference, adds a step that reads the variable."""
    if ref not in self.references:
      return self.slots[ref]
    handle = self.slots[ref]
    slot = self._new_slot(TensorRef(f"{ref.node}/read", len(self.drafts)))
    kernel = context_kernel(f"read of {ref.node!r}", lambda context, variable: context.read(variable))
    self._add_step(Node(ref.node, "ReadVariableOp"), kernel, (handle,), (slot,))
    return slot

  def _add_step(self, node: Node, kernel: Kernel, inputs: tuple[int, ...], outputs: tuple[int, ...]) -> None:
    self.drafts.append(Step(node, kernel, inputs, outputs, (), node.name.rpartition("/")[0]))

  def _new_slot(self, ref: TensorRef) -> int:
    self.slots[ref] = self.num_slots
    self.num_slots += 1
    return self.num_slots - 1

  def _num_outputs(self, node: Node, gradient: CustomGradient | None) -> int:
    if gradient is not None:
      return len(gradient.results)
    if node.op in self.library:
      return len(self.library[node.op].results)
    signature = self.signatures.get(node.op)
    if signature is None:
      # Only the user has registered this op, so the number of outputs is that of the outputs that are read.
      last = max((ref.index for n in self.function.nodes for ref in n.inputs if ref.node == node.name), default=0)
      if last == UNRESOLVED_OUTPUT:
        raise UnknownOpError(
          f"node {node.name!r} (function {self.function.name!r}): op {node.op!r} has no known signature, so its "
          "outputs cannot be told apart."
        )
      return 1 + last
    return signature.num_outputs(node.attrs)

  def _kernel(self, node: Node, gradient: CustomGradient | None) -> Kernel:
    if gradient is not None:
      return _custom_gradient_kernel(gradient)
    if node.op in self.library:
      return _call_kernel(node.op)
    signature = self.signatures.get(node.op)
    entry = self.find_lowering(node, signature)
    if entry is None:
      raise UnsupportedOpError(
        f"node {node.name!r} (function {self.function.name!r}): op {node.op!r} is implemented neither in JAX nor for "
        "the host. Register a lowering with @register, or leave the node out of what is converted.",
        ops=[MissingOp(node.op, ((node.name, self.function.name),), "", "@graftax.ops_jax.register(op)")],
      )
    return bind(node, signature, entry, self.function.name)


@dataclasses.dataclass(frozen=True, slots=True)
class _OutputsThatAreRead:
  """Leaves out the outputs of an op without a signature that no node reads.

  Attributes:
    num_outputs: the number of outputs up to the last one that is read.
    where: op, node and function, for messages.
  """

  num_outputs: int
  where: str

  def __str__(self) -> str:
    return f"outputs that are read: {self.num_outputs}"

  def wrap(self, run: _Run) -> _Run:
    """Returns a function that calls `run` and returns the outputs that are read."""

    def first(context: Context, inputs: Sequence[Value]) -> tuple[Value, ...]:
      outputs = run(context, inputs)
      if len(outputs) < self.num_outputs:
        raise InvalidInputError(f"{self.where}: output {self.num_outputs - 1} is read; it has {len(outputs)} outputs.")
      return outputs[: self.num_outputs]

    return first


def _call_kernel(function_name: str) -> Kernel:
  """Returns a kernel for a node whose op is the name of a library function."""
  return context_kernel(
    f"call of {function_name!r}", lambda context, *inputs: context.call(FunctionRef(function_name, {}), inputs)
  )


def _custom_gradient_kernel(gradient: CustomGradient) -> Kernel:
  def run(context: Context, *inputs: Value) -> tuple[Value, ...]:
    call = context.detached(FunctionRef(gradient.function))
    return apply_custom_gradient(gradient, inputs, context.read, call, context.key)

  return context_kernel(f"custom gradient of {gradient.function!r}", run)


def _constant(node: Node, options: ConvertOptions) -> np.ndarray:
  tensor = node.attrs.get("value")
  if not isinstance(tensor, Tensor) or tensor.dtype is not node.attrs.get("dtype", tensor.dtype):
    raise AttributeValueError(
      f"Const node {node.name!r}: its value is {tensor!r}; expected a tensor of type {node.attrs.get('dtype')!s}."
    )
  itemsize_bytes = 1 if tensor.dtype is DType.STRING else tensor.dtype.numpy.itemsize
  if tensor.size * itemsize_bytes > options.limits.array_bytes > 2 * tensor.to_proto().ByteSize():
    # Elements are repeated.
    Budget(options.limits).check_array(tensor.shape, itemsize_bytes, f"Const node {node.name!r}")
  value = tensor.numpy()
  to_bfloat16 = (tensor.dtype is DType.FLOAT and options.force_const_float32_to_bfloat16) or (
    tensor.dtype is DType.DOUBLE and options.force_const_float64_to_bfloat16
  )
  return value.astype(ml_dtypes.bfloat16) if to_bfloat16 else value


def _per_tensor(args: Sequence[OpArg], sizes: Sequence[int]) -> list[bool]:
  """Returns, for each flat tensor, whether it is a reference."""
  return [arg.is_ref for arg, size in zip(args, sizes, strict=True) for _ in range(size)]


def _last_reads(reads: Sequence[Iterable[int]], keep: set[int]) -> list[tuple[int, ...]]:
  """Returns, for each step, the slots that no later step reads."""
  seen = set(keep)
  frees: list[tuple[int, ...]] = []
  for inputs in reversed(reads):
    frees.append(tuple({*inputs} - seen))
    seen.update(inputs)
  return frees[::-1]
