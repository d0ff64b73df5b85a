"""The parts of a kernel: its stages, which are frozen printable objects, and the call of the lowering.

A stage wraps whatever runs after it. `kernel.bind` adds a stage only to nodes for which it can have an effect.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from graftax.graphdef_ir import AttrValue, OpSignature
from graftax.ops_jax._core.context import Context
from graftax.ops_jax._core.values import Value

__all__ = ["CallLowering", "GroupLists", "Run", "Stage", "describe_function", "flat_sizes", "group_lists"]

# `(context, inputs) -> outputs`, all as flat sequences.
Run = Callable[[Context, Sequence[Value]], tuple[Value, ...]]


class Stage(Protocol):
  """A step of a kernel before the lowering is called."""

  def wrap(self, run: Run) -> Run:
    """Returns a function that does this step and then calls `run`."""


@dataclasses.dataclass(frozen=True, slots=True)
class CallLowering:
  """Calls the lowering's Python function.

  Attributes:
    function: has one positional argument per input, and the attributes as keyword arguments.
    attrs: the decoded attributes.
    needs_context: whether the first argument is the `Context`.
    needs_facts: whether there is a keyword argument `facts`, with facts about traced integers.
    needs_budget: whether there is a keyword argument `budget`, with what is left of the limits of the call.
  """

  function: Callable[..., Any]
  attrs: Mapping[str, Any]
  needs_context: bool
  needs_facts: bool = False
  needs_budget: bool = False

  def __str__(self) -> str:
    attrs = ", ".join(f"{name}={value!r}" for name, value in self.attrs.items())
    return f"{describe_function(self.function)}({attrs})"

  def run(self) -> Run:
    """Returns the call as a function of flat inputs."""
    function = functools.partial(self.function, **self.attrs) if self.attrs else self.function
    needs_context, needs_facts, needs_budget = self.needs_context, self.needs_facts, self.needs_budget

    def call(context: Context, inputs: Sequence[Value]) -> tuple[Value, ...]:
      if needs_context:
        outputs = function(context, *inputs)
      elif needs_facts:
        outputs = function(*inputs, facts=context.facts)
      elif needs_budget:
        outputs = function(*inputs, budget=context.budget)
      else:
        outputs = function(*inputs)
      return tuple(outputs) if isinstance(outputs, (tuple, list)) else (outputs,)

    return call


@dataclasses.dataclass(frozen=True, slots=True)
class GroupLists:
  """Collects the flat inputs of an op with list arguments into one value per argument.

  Attributes:
    arguments: for each argument the position of its input, or a slice of positions if the argument is a list.
  """

  arguments: tuple[int | slice, ...]

  def __str__(self) -> str:
    parts = [f"[{a.start}:{a.stop}]" if isinstance(a, slice) else str(a) for a in self.arguments]
    return f"group lists: {', '.join(parts)}"

  def wrap(self, run: Run) -> Run:
    """See `Stage`."""

    def group(context: Context, inputs: Sequence[Value]) -> tuple[Value, ...]:
      return run(context, [list(inputs[a]) if isinstance(a, slice) else inputs[a] for a in self.arguments])

    return group


def group_lists(signature: OpSignature | None, attrs: Mapping[str, AttrValue]) -> GroupLists | None:
  """Returns the stage for an op with list arguments, or None for any other op."""
  if signature is None or not _has_lists(signature):
    return None
  arguments: list[int | slice] = []
  start = 0
  for arg, size in zip(signature.inputs, signature.input_sizes(attrs), strict=True):
    arguments.append(slice(start, start + size) if arg.is_list else start)
    start += size
  return GroupLists(tuple(arguments))


def flat_sizes(signature: OpSignature, attrs: Mapping[str, AttrValue]) -> Sequence[int]:
  """Returns the number of flat inputs of each argument; faster than `signature.input_sizes` without list arguments."""
  return signature.input_sizes(attrs) if _has_lists(signature) else (1,) * len(signature.inputs)


def _has_lists(signature: OpSignature) -> bool:
  for arg in signature.inputs:  # a loop, because `any` with a generator takes three times as long
    if arg.number_attr is not None or arg.type_list_attr is not None:
      return True
  return False


def describe_function(function: Callable[..., Any]) -> str:
  """Returns the full name of a Python function."""
  return f"{function.__module__}.{function.__qualname__}"
