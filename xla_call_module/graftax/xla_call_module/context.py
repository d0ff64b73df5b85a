"""State that is passed to every lowering: the decoded module, the options, and the records of dropped operations."""

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypedDict

import jax

from graftax.xla_call_module import errors
from graftax.xla_call_module.budget import Budget, Limits
from graftax.xla_call_module.ir import ModuleIR, Op

__all__ = [
  "Context",
  "GradientOption",
  "LiftOptions",
  "LoopsOption",
  "Options",
  "Record",
  "X64Option",
  "check_choices",
  "checked_limits",
  "checked_names",
]

GradientOption: TypeAlias = Literal["auto", "saved", "primal"]
X64Option: TypeAlias = Literal["error", "enable"]
LoopsOption: TypeAlias = Literal["scan", "while"]


class LiftOptions(TypedDict, total=False):
  """The options of `lift`, which documents them, for functions that pass them on."""

  mesh: jax.sharding.Mesh | None
  gradient: GradientOption
  x64: X64Option
  check_platform: bool
  check_shapes: bool | None
  platform: str | None
  loops: LoopsOption
  call_tf_function: Callable[..., Sequence[Any]] | None
  custom_calls: Mapping[str, Callable[..., Any]] | None
  allow_custom_calls: Collection[str]
  on_unsupported: Callable[..., Any] | None
  limits: Limits | None


@dataclasses.dataclass(frozen=True, slots=True)
class Options:
  """Options of `lift`, which documents them."""

  mesh: jax.sharding.Mesh | None = None
  check_platform: bool = True
  check_shapes: bool = True
  x64: str = "error"
  loops: str = "scan"
  platform: str | None = None
  call_tf_function: Callable[..., Any] | None = None
  function_list: tuple[Any, ...] = ()
  custom_calls: Mapping[str, Callable[..., Any]] = dataclasses.field(default_factory=dict)
  allow_custom_calls: frozenset[str] = frozenset()
  on_unsupported: Callable[..., Any] | None = None
  limits: Limits = dataclasses.field(default_factory=Limits)


def checked_names(names: Collection[str]) -> frozenset[str]:
  """Returns the value of the option `allow_custom_calls`; raises TypeError if it is not a collection of names."""
  if isinstance(names, str) or not all(isinstance(name, str) for name in names):
    raise TypeError(f"allow_custom_calls={names!r}; expected a collection of target names.")
  return frozenset(names)


def checked_limits(limits: Limits | None) -> Limits:
  """Returns the value of the option `limits`; raises TypeError if it is something else."""
  if not isinstance(limits, (Limits, type(None))):
    raise TypeError(f"limits={limits!r}; expected a graftax.xla_call_module.Limits.")
  return limits or Limits()


_CHOICES = {"gradient": ("auto", "saved", "primal"), "x64": ("error", "enable"), "loops": ("scan", "while")}


def check_choices(**options: str) -> None:
  """Raises ValueError if an option has a value that is not one of its choices."""
  for name, value in options.items():
    if value not in _CHOICES[name]:
      raise ValueError(f"{name}={value!r}; expected one of {_CHOICES[name]}.")


@dataclasses.dataclass(frozen=True, slots=True)
class Record:
  """An operation that lifting dropped or replaced: its kind, its location, and what was done instead.

  `ffi_target` is `(name, API version)` if the operation is a custom call that runs through `jax.ffi`, else None.
  """

  kind: str
  op: str
  location: str
  note: str
  ffi_target: tuple[str, int] | None = None


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Context:
  """State of one lifted module. `analyses` and `calls` are caches; `explain` shows `records`.

  Threads may trace with one context at the same time, so the methods return changed ones. A call keeps the context in
  which it was traced, so they have call caches of their own; records and analyses are shared.

  `budget` counts the ops that one call evaluates. `without_x64` is true if the module has 64-bit values while 64-bit
  types are disabled; see `without_x64.py`. `manual_axes` are names and sizes of the axes
  of the mesh of the `shard_map` whose body is evaluated.
  """

  ir: ModuleIR
  options: Options
  platform_index: int | None = None
  without_x64: bool = False
  records: dict[Any, Record] = dataclasses.field(default_factory=dict)
  budget: Budget = dataclasses.field(default_factory=lambda: Budget(Limits()))
  calls: dict[Any, Any] = dataclasses.field(default_factory=dict)
  analyses: dict[Any, Any] = dataclasses.field(default_factory=dict)
  manual_axes: tuple[tuple[str, int], ...] | None = None

  def record(self, kind: str, op: Op, note: str, ffi_target: tuple[str, int] | None = None) -> None:
    """Records that an operation was dropped or replaced, once per source location."""
    key = (kind, op.name, op.location, ffi_target)
    self.records.setdefault(key, Record(kind, op.name, op.location, note, ffi_target))

  def unsupported(self, op: Op, reason: str, *, embeds: bool = True) -> errors.LiftError:
    """Returns the error to raise for an op that does not lift; `embeds` states whether `embed` would run it."""
    return errors.LiftError(
      f"{op.place} does not lift: {reason} Register a lowering with graftax.xla_call_module.register"
      + (", or run the module through embed() instead." if embeds else "."),
      op=op.name,
      location=op.location,
      reason=reason,
    )

  def does_not_know(self, op: Op, attributes: Sequence[str]) -> errors.LiftError:
    """Returns the error to raise for an op with attributes that its lowering does not declare."""
    listed = ", ".join(f"{name} = {op.attrs[name]!r}" for name in attributes)
    return self.unsupported(op, f"its lowering does not support {listed}, which may change the result.")

  def with_budget(self, budget: Budget) -> "Context":
    """Returns a context for one call of the module."""
    return dataclasses.replace(self, budget=budget, calls={})

  def inside_of(self, manual_axes: tuple[tuple[str, int], ...]) -> "Context":
    """Returns a context for the body of a `shard_map` over these axes; the budget is shared."""
    return dataclasses.replace(self, manual_axes=manual_axes, calls={})
