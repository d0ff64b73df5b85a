"""Walking a plan: one pass over its steps, under whatever JAX transform is tracing."""

import contextlib
import dataclasses
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from graftax.convert.errors import MissingInputError
from graftax.convert.evaluation.scalar_bounds import BOUNDED_OPS, ScalarBounds
from graftax.convert.evaluation.state import State
from graftax.convert.evaluation.trip_count import BOUNDING_OPS, BRANCHING_OPS, bound_loop, count_loop
from graftax.convert.options import ConvertOptions
from graftax.convert.planning.plan import Plan, Planner, Step
from graftax.graphdef_ir import FunctionRef, UnsupportedError, traits_of
from graftax.ops_jax import (
  CountedLoop,
  InconclusiveError,
  InvalidInputError,
  PureFunction,
  ResourceHandle,
  Value,
  is_known,
  is_symbolic,
)

__all__ = ["Evaluator"]

# Known inputs of at most this many elements are folded while tracing; more is left to XLA, which knows the target.
_MAX_FOLDED_ELEMENTS = 4096

_NOTE = "while evaluating"

_CONSTRAINTS = (
  "JAX could not compare symbolic sizes. Say what is known of them, for example "
  "jax.export.symbolic_shape('b, h, w, 3', constraints=['h >= 32', 'w >= 32', 'mod(h, 32) == 0']), or give numbers in "
  "their place."
)


@dataclasses.dataclass(frozen=True, slots=True)
class Evaluator:
  """Everything that stays the same during one call of a converted function.

  Attributes:
    planner: plans of the functions that may be called.
    options: options that lowerings can read.
    state: variables; replaced inside control flow, where they are explicit operands.
    key: PRNG key of the call, or None.
    path: names of the call nodes that led here, for keys that do not depend on unrelated nodes.
    callers: names of the library functions being evaluated, from the outermost in.
  """

  planner: Planner
  options: ConvertOptions
  state: State
  key: jax.Array | None
  path: str = ""
  callers: tuple[str, ...] = ()

  def enter(self, function_name: str, path: str) -> "Evaluator":
    """The evaluator for a function that is called from the node at `path`.

    Raises:
      UnsupportedError: the function is being called already.
    """
    if function_name in self.callers:
      chain = " -> ".join((*self.callers, function_name))
      raise UnsupportedError(
        f"function {function_name!r} calls itself ({chain}); JAX has no recursion. Write it as a loop."
      )
    return dataclasses.replace(self, path=path, callers=(*self.callers, function_name))

  def run(self, plan: Plan, args: Sequence[Value]) -> tuple[Value, ...]:
    """The plan's results for `args`, one per parameter."""
    slots: list[Value] = [None] * plan.num_slots
    for slot, constant in plan.constants.items():
      slots[slot] = constant
    for slot, value in zip(plan.parameters, args, strict=True):
      slots[slot] = value
    frame = _Frame(self, plan.name)
    bounds = ScalarBounds()
    with _ScopeCursor() as scopes:
      for step in plan.steps:
        frame.step = step
        scopes.move_to(step.scope)
        inputs = [slots[i] for i in step.inputs]
        outputs: Sequence[Value] = _run_step(frame, inputs)
        if step.node.op in BOUNDED_OPS:
          outputs = bounds.narrow(step, inputs, outputs)
        for slot, output in zip(step.outputs, outputs, strict=True):
          slots[slot] = output
        for slot in step.frees:
          slots[slot] = None
    return tuple(slots[i] for i in plan.results)


class _ScopeCursor:
  """The `jax.named_scope` of the current step, entered only when it changes: neighbours share one."""

  def __init__(self) -> None:
    self._name = ""
    self._scope: contextlib.AbstractContextManager[None] | None = None

  def move_to(self, name: str) -> None:
    if name != self._name:
      self.__exit__(None, None, None)
      if name:
        self._scope = jax.named_scope(name)
        self._scope.__enter__()
      self._name = name

  def __enter__(self) -> "_ScopeCursor":
    return self

  def __exit__(self, *error: Any) -> None:
    if self._scope is not None:
      self._scope.__exit__(*error)
      self._scope = None


class _Frame:
  """The `Context` that lowerings see: an evaluator, at one step of one function."""

  __slots__ = ("_evaluator", "function_name", "step")

  step: Step

  def __init__(self, evaluator: Evaluator, function_name: str):
    self._evaluator = evaluator
    self.function_name = function_name

  @property
  def node_name(self) -> str:
    return self.step.node.name

  @property
  def options(self) -> ConvertOptions:
    return self._evaluator.options

  def read(self, handle: ResourceHandle) -> Value:
    return self._evaluator.state.read(self._resource(handle))

  def write(self, handle: ResourceHandle, value: Value) -> None:
    self._evaluator.state.write(self._resource(handle), value)

  def _resource(self, handle: ResourceHandle) -> ResourceHandle:
    if isinstance(handle, ResourceHandle):
      return handle
    raise InvalidInputError(
      f"{self.step.node.op} node {self.node_name!r} (function {self.function_name!r}) takes a variable; its input is a "
      f"{type(handle).__name__}. Where a graph was frozen, a constant stands for the variable: freeze the graph with "
      f"its uses of the variable, or convert it as it was before."
    )

  def call(self, function: FunctionRef, args: Sequence[Value]) -> tuple[Value, ...]:
    evaluator = self._evaluator.enter(function.name, self._path())
    return evaluator.run(evaluator.planner.plan(function.name), args)

  def pure(self, function: FunctionRef, args: Sequence[Value]) -> PureFunction:
    evaluator = self._evaluator.enter(function.name, self._path())
    plan = evaluator.planner.plan(function.name)
    positions = evaluator.planner.effects.written_parameters(function.name)
    written = tuple(dict.fromkeys(args[i] for i in sorted(positions) if isinstance(args[i], ResourceHandle)))

    def apply(
      values: Sequence[Value], call_args: Sequence[Value], key: jax.Array | None
    ) -> tuple[tuple[Value, ...], tuple[Value, ...]]:
      state = evaluator.state.branch(dict(zip(written, values, strict=True)))
      inner = dataclasses.replace(evaluator, state=state, key=key)
      results = inner.run(plan, call_args)
      return results, tuple(state.read(handle) for handle in written)

    return PureFunction(written, plan.passes_through, apply)

  def detached(
    self, function: FunctionRef
  ) -> Callable[[Mapping[ResourceHandle, Value], Sequence[Value], jax.Array | None], tuple[Value, ...]]:
    evaluator = self._evaluator.enter(function.name, self._path())
    plan = evaluator.planner.plan(function.name)

    def call(values: Mapping[ResourceHandle, Value], args: Sequence[Value], key: jax.Array | None) -> tuple[Value, ...]:
      return dataclasses.replace(evaluator, state=evaluator.state.branch(values), key=key).run(plan, args)

    return call

  def counted_loop(self, cond: FunctionRef, body: FunctionRef, args: Sequence[Value]) -> CountedLoop | None:
    return count_loop(self._evaluator.planner, self._run_known, cond.name, body.name, args)

  def loop_bound(
    self, cond: FunctionRef, body: FunctionRef, args: Sequence[Value], *, through_branches: bool = False
  ) -> int | None:
    ops = BOUNDING_OPS | BRANCHING_OPS if through_branches else BOUNDING_OPS
    return bound_loop(self._evaluator.planner, self._run_known, cond.name, body.name, args, ops)

  def _run_known(self, step: Step, inputs: Sequence[Value]) -> tuple[Value, ...]:
    frame = _Frame(self._evaluator, self.function_name)
    frame.step = step
    return _fold(frame, inputs)

  @property
  def key(self) -> jax.Array | None:
    return self._evaluator.key

  def rng(self) -> jax.Array:
    if self._evaluator.key is None:
      raise MissingInputError(
        f"{self.step.node.op} node {self.node_name!r} (function {self.function_name!r}) draws random numbers; call the "
        f"converted function with rng=jax.random.key(seed)."
      )
    # The node's own path names its stream, so adding or removing other nodes does not change it.
    return jax.random.fold_in(self._evaluator.key, zlib.crc32(self._path().encode()))

  def _path(self) -> str:
    return f"{self._evaluator.path}/{self.step.node.name}"


def _run_step(frame: _Frame, inputs: Sequence[Value]) -> tuple[Value, ...]:
  step = frame.step
  try:
    if inputs and step.kernel.is_pure and all(map(is_known, inputs)):
      return _fold(frame, inputs)
    return step.kernel.run(frame, inputs)
  except Exception as e:
    # The innermost node says most; the calls around it add nothing.
    if not any(note.startswith(_NOTE) for note in getattr(e, "__notes__", ())):
      e.add_note(_where(frame))
      if isinstance(e, InconclusiveError):
        e.add_note(_CONSTRAINTS)
    raise


def _fold(frame: _Frame, inputs: Sequence[Value]) -> tuple[Value, ...]:
  step = frame.step
  is_large = sum(np.size(value) for value in inputs) > _MAX_FOLDED_ELEMENTS
  # A symbolic dimension has no value while compiling; numpy keeps it known where it can.
  if is_large or _is_never_constant(step.node.op) or any(map(is_symbolic, inputs)):
    return step.kernel.run(frame, inputs)
  # What is known keeps TensorFlow's precision, also where JAX's 64-bit types are switched off: 1e-307 is not 0, and a
  # seed that two 32-bit halves are packed into keeps both.
  # Not ensure_compile_time_eval: under `vmap` that leaves calls of custom_jvp and custom_vjp to the batching trace.
  with jax.core.eval_context(), jax.enable_x64(True):
    outputs = step.kernel.run(frame, inputs)
    return tuple(np.asarray(value) if isinstance(value, jax.Array) else value for value in outputs)


def _is_never_constant(op: str) -> bool:
  # A large result would be a constant of the compiled program. A tensor list holds arrays, and takes the dtypes of what
  # is written to it while tracing.
  traits = traits_of(op)
  return traits.large_result or traits.makes == "tensor_list"


def _where(frame: _Frame) -> str:
  node = frame.step.node
  source = f" (made from {', '.join(node.source.node_names)})" if node.source and node.source.node_names else ""
  return f"{_NOTE} {node.op} node {node.name!r} in function {frame.function_name!r}{source}"
