"""The interface through which a lowering accesses its program: options, variables, functions, loops, randomness."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from graftax.graphdef_ir import Budget, FunctionRef, ModelFolder
from graftax.ops_jax._core.integer_facts import IntegerFacts
from graftax.ops_jax._core.options import LoweringOptions
from graftax.ops_jax._core.values import Array, Value

__all__ = ["Context", "CountedLoop", "Counter", "LoopLength", "PureFunction", "ResourceHandle"]


@dataclasses.dataclass(frozen=True, slots=True)
class ResourceHandle:
  """A reference to a piece of mutable TensorFlow state; the evaluator passes the state itself along.

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
class Counter:
  """A loop variable that is `start + step * n` before iteration `n` of a loop whose length is a symbolic size.

  Attributes:
    start: its value before the loop.
    step: what each iteration adds.
    dtype: an integer dtype.
  """

  start: int
  step: int
  dtype: np.dtype

  def at(self, number: int) -> int:
    """Returns the value before iteration `number`, which may be a symbolic dimension, as may be the value."""
    return self.start + self.step * number

  def column(self, length: int) -> jax.Array:
    """Returns the values before each of `length` iterations, `[length]`, of the dtype that JAX has for `dtype`."""
    return self.start + self.step * jnp.arange(length, dtype=jax.dtypes.canonicalize_dtype(self.dtype))


@dataclasses.dataclass(frozen=True, slots=True)
class CountedLoop:
  """A `While` loop whose iterations are known before it runs.

  Attributes:
    num_iterations: the number of iterations; may be a symbolic dimension.
    counters: maps a loop variable's position to its values at the start of each iteration, `[num_iterations, ...]`, or
      to a `Counter` if the number is symbolic.
    final: maps these positions, and those of other variables that are known then, to the values after the last
      iteration.
    unroll: whether the iterations of an inner loop are known only if the counters are known. In a `scan` they would be
      traced.
    results: if the loop has no effects and all loop variables that change are known after it, their values, so that it
      need not run.
    MAX_UNROLLED: a loop that has to be unrolled, for this or another reason, is if it is not longer than this.
  """

  MAX_UNROLLED: ClassVar[int] = 64

  num_iterations: int
  counters: Mapping[int, np.ndarray | Counter]
  final: Mapping[int, Value]
  unroll: bool = False
  results: Mapping[int, Value] | None = None

  @property
  def is_symbolic(self) -> bool:
    """Returns whether the number of iterations is a symbolic dimension."""
    return not isinstance(self.num_iterations, int)

  def columns(self) -> dict[int, Array]:
    """Returns the values of the counters at the start of each iteration, `[num_iterations, ...]`."""
    return {
      i: counter.column(self.num_iterations) if isinstance(counter, Counter) else counter
      for i, counter in self.counters.items()
    }

  def known(self, number: int) -> dict[int, np.ndarray]:
    """Returns the values of the counters at the start of iteration `number`; the loop is not symbolic."""
    return {i: values[number] for i, values in self.counters.items() if not isinstance(values, Counter)}


@dataclasses.dataclass(frozen=True, slots=True)
class LoopLength:
  """What is known about the length of a `While` loop before it runs.

  Attributes:
    counted: the iterations, or None if the condition depends on traced data or on state.
    bound: if the loop is not counted, the largest number of iterations that its condition allows, as declared by
      `maximum_iterations`; None if there is no such bound.
    room: if the loop is not counted, the number of iterations to make room for in lists. Unlike `bound`, it does not
      limit the loop: a loop that may `break` can run longer.
    reason: if the loop is not counted, why, for the log.
    otherwise: if the number of iterations is symbolic, returns what is known apart from it, for a loop that cannot be a
      scan.
  """

  counted: CountedLoop | None = None
  bound: int | None = None
  room: int | None = None
  reason: str = ""
  otherwise: Callable[[], "LoopLength"] | None = None


class Context(Protocol):
  """The evaluator at one node. A lowering receives it if its first parameter is annotated `ctx: Context`."""

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
  def folder(self) -> ModelFolder:
    """The files that the program may read."""

  @property
  def facts(self) -> IntegerFacts:
    """Facts about the traced integers of this evaluation."""

  @property
  def budget(self) -> Budget:
    """What is left of the limits of this call; to be asked before work that a number in the file decides on."""

  def read(self, handle: ResourceHandle) -> Value:
    """Returns the current value of a resource."""

  def write(self, handle: ResourceHandle, value: Value) -> None:
    """Replaces the value of a resource, for later reads and the returned parameters.

    Args:
      handle: the resource, such as a variable.
      value: its new value.
    """

  def call(self, function: FunctionRef, args: Sequence[Value]) -> tuple[Value, ...]:
    """Returns the outputs of a library function applied to `args`, with this program's state.

    Args:
      function: the name of a function of the program's library, with attributes.
      args: a value per parameter of the function, in order.
    """

  def pure(self, function: FunctionRef, args: Sequence[Value]) -> PureFunction:
    """Returns `function` with explicit state; the handles among `args` are the resources that it can access.

    Args:
      function: the name of a function of the program's library, with attributes.
      args: a value per parameter of the function, in order. `apply` takes the values to compute with.
    """

  def detached(
    self, function: FunctionRef
  ) -> Callable[[Mapping[ResourceHandle, Value], Sequence[Value], jax.Array | None], tuple[Value, ...]]:
    """Returns `(values of variables, args, key) -> results`: the function without its writes, for a later call.

    Derivatives are such calls.
    """

  def loop_length(self, cond: FunctionRef, body: FunctionRef, args: Sequence[Value]) -> LoopLength:
    """Returns what is known of the length of `while cond(args): args = body(args)` before it runs.

    Args:
      cond: the condition, a function of all loop variables that returns one bool.
      body: the body, a function of all loop variables that returns as many values.
      args: the initial values of the loop variables.
    """

  @property
  def key(self) -> jax.Array | None:
    """The PRNG key of the call, to pass on to a `PureFunction`; None if the caller gave no `rng=`."""

  def rng(self) -> jax.Array:
    """Returns a PRNG key for this node alone; raises `MissingInputError` if the caller gave no `rng=`."""
