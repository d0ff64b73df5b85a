"""The context of a node outside any graph."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

from graftax.graphdef_ir import Budget, FunctionRef, ModelFolder
from graftax.ops_jax import IntegerFacts, LoopLength, LoweringOptions, PureFunction, ResourceHandle, Value

__all__ = ["NODE_NAME", "NodeContext"]

NODE_NAME = "op_under_test"
"""Name of the node of the op."""


@dataclasses.dataclass(slots=True)
class NodeContext:
  """A `Context` for one node outside any graph.

  Attributes:
    state: value of each resource, such as the program's variables.
    key: what `rng()` returns, or None for a program without randomness.
    options: options that lowerings read.
    functions: Python functions to call instead of library functions, by name.
    facts: what lowerings note about traced integers.
    budget: what is left of the limits of the call.
    folder: the files that host ops may read.
  """

  state: dict[ResourceHandle, Value] = dataclasses.field(default_factory=dict)
  key: jax.Array | None = None
  options: LoweringOptions = LoweringOptions()
  functions: dict[str, Callable[..., Any]] = dataclasses.field(default_factory=dict)
  facts: IntegerFacts = dataclasses.field(default_factory=IntegerFacts)
  budget: Budget = dataclasses.field(default_factory=Budget)
  folder: ModelFolder = ModelFolder()
  node_name: str = NODE_NAME
  function_name: str = "test"

  def read(self, handle: ResourceHandle) -> Value:
    """Returns the value in `state`."""
    return self.state[handle]

  def write(self, handle: ResourceHandle, value: Value) -> None:
    """Replaces the value in `state`.

    Args:
      handle: a key of `state`, or a new one.
      value: not checked.
    """
    self.state[handle] = value

  def call(self, function: FunctionRef, args: Sequence[Value]) -> tuple[Value, ...]:
    """Runs the Python function of the same name.

    Args:
      function: its name is a key of `functions`; its attributes are not read.
      args: the arguments in order.

    Returns:
      What the function returns, as a tuple.
    """
    outputs = self.functions[function.name](*args)
    return tuple(outputs) if isinstance(outputs, (tuple, list)) else (outputs,)

  def pure(self, function: FunctionRef, args: Sequence[Value]) -> PureFunction:
    """Returns `function` as one that uses no resource.

    Args:
      function: its name is a key of `functions`; its attributes are not read.
      args: not read: `apply` takes the arguments, and state that it returns unchanged.
    """
    return PureFunction((), (), lambda state, args, key: (self.call(function, args), tuple(state)))

  def detached(
    self, function: FunctionRef
  ) -> Callable[[Mapping[ResourceHandle, Value], Sequence[Value], jax.Array | None], tuple[Value, ...]]:
    """Returns `function` as one that uses no variable."""
    return lambda state, args, key: self.call(function, args)

  def loop_length(self, cond: FunctionRef, body: FunctionRef, args: Sequence[Value]) -> LoopLength:
    """Returns an unknown length.

    Args:
      cond, body, args: not read.
    """
    return LoopLength()

  def rng(self) -> jax.Array:
    """Returns `key`.

    Raises:
      ValueError: the context was made without a key.
    """
    if self.key is None:
      raise ValueError("this NodeContext was made without a key")
    return self.key
