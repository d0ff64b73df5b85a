"""What a lowering can ask of the program around it: options, variables, other functions, loops, randomness."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import jax
import numpy as np

from graftax.graphdef_ir import FunctionRef
from graftax.ops_jax._core.integer_facts import IntegerFacts
from graftax.ops_jax._core.options import LoweringOptions
from graftax.ops_jax._core.values import Value

__all__ = ["Context", "CountedLoop", "LoopFacts", "PureFunction", "ResourceHandle"]


@dataclasses.dataclass(frozen=True, slots=True)
class ResourceHandle:
  """A reference to a piece of mutable TensorFlow state; the state itself is threaded by the evaluator.

  Handles are compared by name and never traced: which variable an op touches is always known while tracing.
  """

  name: str
  kind: str = "variable"


@dataclasses.dataclass(frozen=True, slots=True)
class PureFunction:
  """A TensorFlow function with its state made explicit, ready for `jax.lax` control flow.

  Attributes:
    written: the resources that the function may write, in a fixed order. Resources that it only reads are closed over.
    passes_through: for each result, the position of the parameter that it returns untouched, or None.
    apply: `(state, args, key) -> (results, new_state)`, where `state` and `new_state` are the values of `written` and
      `key` is a PRNG key or None.
  """

  written: tuple[ResourceHandle, ...]
  passes_through: tuple[int | None, ...]
  apply: Callable[[Sequence[Value], Sequence[Value], jax.Array | None], tuple[tuple[Value, ...], tuple[Value, ...]]]


@dataclasses.dataclass(frozen=True, slots=True)
class CountedLoop:
  """A `While` loop whose iterations are known before it runs.

  Attributes:
    num_iterations: how often the body runs.
    counters: loop variable position -> its value at the start of each iteration, `[num_iterations, ...]`.
    final: loop variable position -> its value after the last iteration, for the same positions.
    unroll: whether the iterations of an inner loop are known only while the counters are, so that in a `scan` they
      would not be.
  """

  num_iterations: int
  counters: Mapping[int, np.ndarray]
  final: Mapping[int, np.ndarray | np.generic]
  unroll: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class LoopFacts:
  """What is known of a `While` loop before it runs.

  Attributes:
    counted: the iterations, or None if the condition depends on traced data or on state.
    bound: if the loop is not counted, the most iterations that its condition allows, as `maximum_iterations` declares
      it; None if it declares nothing.
    room: if the loop is not counted, a number of iterations for which lists need room. Other than `bound`, it says
      nothing of the condition: a loop that may `break` runs as long as it must.
  """

  counted: CountedLoop | None = None
  bound: int | None = None
  room: int | None = None


class Context(Protocol):
  """The evaluator as seen from one node; a lowering asks for it by annotating its first parameter `ctx: Context`."""

  @property
  def node_name(self) -> str:
    """Name of the node being evaluated."""

  @property
  def function_name(self) -> str:
    """Name of the function that holds the node."""

  @property
  def options(self) -> LoweringOptions:
    """Options that change what lowerings produce."""

  @property
  def facts(self) -> IntegerFacts:
    """What is known of the traced integers of this evaluation."""

  def read(self, handle: ResourceHandle) -> Value:
    """The current value of a resource."""

  def write(self, handle: ResourceHandle, value: Value) -> None:
    """Replace the value of a resource; later reads and the new parameters see it."""

  def call(self, function: FunctionRef, args: Sequence[Value]) -> tuple[Value, ...]:
    """Outputs of a library function applied to `args`, with this program's state."""

  def pure(self, function: FunctionRef, args: Sequence[Value]) -> PureFunction:
    """`function` with explicit state; `args` (with handles in place) tell which resources it can touch."""

  def detached(
    self, function: FunctionRef
  ) -> Callable[[Mapping[ResourceHandle, Value], Sequence[Value], jax.Array | None], tuple[Value, ...]]:
    """`function` for a later call, as of derivatives: `(values of variables, args, key) -> results`, without its
    writes."""

  def loop_facts(self, cond: FunctionRef, body: FunctionRef, args: Sequence[Value]) -> LoopFacts:
    """Returns what is known of `while cond(args): args = body(args)` before it runs."""

  @property
  def key(self) -> jax.Array | None:
    """The PRNG key of the call, or None when the caller gave no `rng=`; for handing on to a `PureFunction`."""

  def rng(self) -> jax.Array:
    """A PRNG key that belongs to this node alone; raises `MissingInputError` when the caller gave no `rng=`."""
