"""The evaluator as seen by lowerings: the implementation of `graftax.ops_jax.Context`."""

import dataclasses
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import jax

from graftax.convert.errors import ConversionError, MissingInputError
from graftax.convert.evaluation.loop_lengths import loop_length
from graftax.convert.options import ConvertOptions
from graftax.convert.planning.plan import Step
from graftax.convert.program import UnavailableCapture
from graftax.graphdef_ir import Budget, FunctionRef, ModelFolder
from graftax.ops_jax import (
  InconclusiveError,
  IntegerFacts,
  InvalidInputError,
  LoopLength,
  PureFunction,
  ResourceHandle,
  Value,
)

if TYPE_CHECKING:
  from graftax.convert.evaluation.evaluate import Evaluator

__all__ = ["Frame", "is_explained"]

_NOTE = "while evaluating"

# What a branch or a loop body costs JAX besides its steps, as a number of steps.
_REGION_STEPS = 100

_CONSTRAINTS = (
  "JAX could not compare symbolic sizes. Say what is known of them, for example "
  "jax.export.symbolic_shape('b, h, w, 3', constraints=['h >= 32', 'w >= 32', 'mod(h, 32) == 0']), or give numbers in "
  "their place."
)


def is_explained(error: Exception) -> bool:
  """Returns whether a step of a called function has added itself to the notes of an error that it let pass."""
  return any(note.startswith(_NOTE) for note in getattr(error, "__notes__", ()))


class Frame:
  """One run of one function: an evaluator at the step that it has reached.

  Attributes:
    evaluator: the evaluator that runs the function.
    function_name: name of the function.
    step: the current step.
  """

  __slots__ = ("evaluator", "function_name", "step")

  step: Step

  def __init__(self, evaluator: "Evaluator", function_name: str):
    self.evaluator = evaluator
    self.function_name = function_name

  @property
  def node_name(self) -> str:
    return self.step.node.name

  @property
  def options(self) -> ConvertOptions:
    return self.evaluator.options

  @property
  def folder(self) -> ModelFolder:
    return self.evaluator.planner.folder

  @property
  def facts(self) -> IntegerFacts:
    return self.evaluator.facts

  @property
  def budget(self) -> Budget:
    return self.evaluator.budget

  @property
  def key(self) -> jax.Array | None:
    return self.evaluator.key

  def read(self, handle: ResourceHandle) -> Value:
    return self.evaluator.state.read(self._resource(handle))

  def write(self, handle: ResourceHandle, value: Value) -> None:
    self.evaluator.state.write(self._resource(handle), value)

  def _resource(self, handle: ResourceHandle) -> ResourceHandle:
    if isinstance(handle, ResourceHandle):
      return handle
    where = f"{self.step.node.op} node {self.node_name!r} (function {self.function_name!r})"
    if isinstance(handle, UnavailableCapture):
      raise ConversionError(f"{where} reads {handle.what}. Read it in the function, too, or make it an argument.")
    raise InvalidInputError(
      f"{where} needs a variable; its input is a "
      f"{type(handle).__name__}. This often means that freezing replaced the variable by a constant. Convert the "
      f"unfrozen graph."
    )

  def call(self, function: FunctionRef, args: Sequence[Value]) -> tuple[Value, ...]:
    evaluator = self.evaluator.enter(function.name, self.path)
    return evaluator.run(evaluator.planner.plan(function.name), args)

  def pure(self, function: FunctionRef, args: Sequence[Value]) -> PureFunction:
    evaluator = self.evaluator.enter(function.name, self.path)
    plan = evaluator.planner.plan(function.name)
    positions = evaluator.planner.effects.written_parameters(function.name)
    written = tuple(dict.fromkeys(args[i] for i in sorted(positions) if isinstance(args[i], ResourceHandle)))

    def apply(
      values: Sequence[Value], call_args: Sequence[Value], key: jax.Array | None
    ) -> tuple[tuple[Value, ...], tuple[Value, ...]]:
      evaluator.budget.spend_steps(_REGION_STEPS, f"function {function.name!r}")
      state = evaluator.state.branch(dict(zip(written, values, strict=True)))
      inner = dataclasses.replace(evaluator, state=state, key=key)
      results = inner.run(plan, call_args)
      return results, tuple(state.read(handle) for handle in written)

    return PureFunction(written, plan.passes_through, apply)

  def detached(
    self, function: FunctionRef
  ) -> Callable[[Mapping[ResourceHandle, Value], Sequence[Value], jax.Array | None], tuple[Value, ...]]:
    evaluator = self.evaluator.enter(function.name, self.path)

    def call(values: Mapping[ResourceHandle, Value], args: Sequence[Value], key: jax.Array | None) -> tuple[Value, ...]:
      # Planned here, because TensorFlow may have to trace custom gradients inside of one that is differentiated.
      plan = evaluator.planner.plan(function.name)
      return dataclasses.replace(evaluator, state=evaluator.state.branch(values), key=key).run(plan, args)

    return call

  def loop_length(self, cond: FunctionRef, body: FunctionRef, args: Sequence[Value]) -> LoopLength:
    return loop_length(self.evaluator, self.path, cond, body, args)

  def rng(self) -> jax.Array:
    if self.evaluator.key is None:
      raise MissingInputError(
        f"{self.step.node.op} node {self.node_name!r} (function {self.function_name!r}) draws random numbers; call the "
        f"converted function with rng=jax.random.key(seed)."
      )
    # The node's own path names its stream, so adding or removing other nodes does not change it.
    return jax.random.fold_in(self.evaluator.key, zlib.crc32(self.path.encode()))

  @property
  def path(self) -> str:
    """Returns the names of the enclosing call nodes and of the current node, separated by slashes."""
    return f"{self.evaluator.path}/{self.step.node.name}"

  def explain(self, error: Exception) -> None:
    """Adds the current step to the notes of an error, unless a step of a called function has done so."""
    # The innermost node says most; the calls around it add nothing.
    if is_explained(error):
      return
    node = self.step.node
    source = f" (made from {', '.join(node.source.node_names)})" if node.source and node.source.node_names else ""
    error.add_note(f"{_NOTE} {node.op} node {node.name!r} in function {self.function_name!r}{source}")
    if isinstance(error, InconclusiveError):
      error.add_note(_CONSTRAINTS)
