"""Limits for work that a module asks for, and the `Budget` that counts it.

A few bytes can ask for any amount of memory or time: an iota of any size, functions that call two functions each. The
names are those of `graphdef_ir.Limits`, which this package does not import.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import Self

from graftax.xla_call_module.errors import LimitExceededError

__all__ = ["Budget", "Limits", "SharedLimits"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
  """How much memory and time a module may ask for.

  Attributes:
    array_bytes: size of one array that the module computes. It may be larger if the arguments are large: up to 100
      times the size of all arguments and stored constants together.
    known_bytes: size of all results together, with the same exception.
    steps: ops that one call evaluates while it is traced, or that are compiled after all calls are inlined, beyond
      `steps_per_node` for each op of the module.
    steps_per_node: see `steps`.
    depth: levels of functions and regions inside each other.
  """

  array_bytes: int = 1 << 30
  known_bytes: int = 1 << 31
  steps: int = 100_000
  steps_per_node: int = 200
  depth: int = 100

  def __post_init__(self) -> None:
    for field in dataclasses.fields(Limits):
      value = getattr(self, field.name)
      if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"Limits: {field.name}={value!r}; expected an integer of at least 0.")

  @classmethod
  def like(cls, limits: object) -> Self:
    """Returns the limits that another object has under the same names, such as a `graphdef_ir.Limits`."""
    return cls(**{field.name: getattr(limits, field.name) for field in dataclasses.fields(Limits)})


@dataclasses.dataclass(slots=True)
class _Spent:
  """What several modules needed together, beyond `steps_per_node` for each of their ops."""

  steps: int = 0
  simulated: int = 0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SharedLimits(Limits):
  """Limits of several modules that are lifted one after the other: `steps` is for all of them together."""

  spent: _Spent = dataclasses.field(default_factory=_Spent, compare=False, repr=False)


class Budget:
  """What is left of the limits of one module.

  Args:
    limits: the limits.
    num_nodes: the number of ops of the module, for `steps_per_node`.
    given_bytes: size of the arguments and stored constants.
  """

  __slots__ = ("_num_given", "_own_steps", "_shared", "_steps", "_steps_allowed", "limits")

  def __init__(self, limits: Limits, *, num_nodes: int = 0, given_bytes: int = 0):
    self.limits = limits
    self._own_steps = limits.steps_per_node * num_nodes
    self._steps_allowed = limits.steps + self._own_steps
    self._num_given = _RATIO * given_bytes
    self._steps = 0
    self._shared = limits.spent if isinstance(limits, SharedLimits) else _Spent()

  def check_array(self, shape: Sequence[int], itemsize_bytes: int, where: str) -> None:
    """Raises LimitExceededError if one array of this shape has more than `array_bytes`."""
    needed = math.prod(shape) * itemsize_bytes
    if needed > max(self.limits.array_bytes, self._num_given):
      what = f"{needed} bytes for an array of shape {list(shape)}"
      raise _exceeded("array_bytes", needed, self.limits.array_bytes, where, what)

  def check_results(self, num_bytes: int, where: str) -> None:
    """Raises LimitExceededError if the results together have more than `known_bytes`."""
    if num_bytes > max(self.limits.known_bytes, self._num_given):
      raise _exceeded("known_bytes", num_bytes, self.limits.known_bytes, where, f"{num_bytes} bytes for its results")

  def spend_steps(self, num_steps: int, where: str) -> None:
    """Counts ops that are evaluated; raises LimitExceededError if they are more than `steps` allows."""
    before = max(self._steps, self._own_steps)
    self._steps += num_steps
    self._shared.steps += max(0, self._steps - before)
    self.check_steps(self._steps, where)
    if self._shared.steps > self.limits.steps:
      what = f"{num_steps} steps, and with the modules before it {self._shared.steps} beyond those for each op"
      raise _exceeded("steps", self._shared.steps, self.limits.steps, where, what)

  def check_steps(self, num_steps: int, where: str) -> None:
    """Raises LimitExceededError if a number of ops is above what `steps` and `steps_per_node` allow."""
    if num_steps > self._steps_allowed:
      what = f"{num_steps} steps, because functions call functions, or loops are unrolled, many times"
      raise _exceeded("steps", num_steps, self._steps_allowed, where, what)

  def may_simulate(self, num_ops: int) -> bool:
    """Counts scalar ops that are evaluated to find the length of a loop; returns whether there is time for them.

    If not, the loop is one whose length is not known, which is correct, too.
    """
    self._shared.simulated += num_ops
    return self._shared.simulated <= _MAX_SIMULATED_OPS

  def check_depth(self, depth: int, where: str) -> None:
    """Raises LimitExceededError if functions and regions are too deep inside each other."""
    if depth > self.limits.depth:
      raise _exceeded("depth", depth, self.limits.depth, where, f"{depth} levels inside each other")


_RATIO = 100
_MAX_SIMULATED_OPS = 250_000  # about three seconds


def _exceeded(name: str, needed: int, allowed: int, where: str, what: str) -> LimitExceededError:
  return LimitExceededError(
    f"{where} needs {what}; the limit {name} is {allowed}. If you trust the module, raise it with "
    f"limits=Limits({name}={needed}).",
    limit=name,
    needed=needed,
    allowed=allowed,
  )
