"""What every lowering sees: the decoded module, the options, and the records that one lifted module accumulates."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax

from graftax.xla_call_module import errors
from graftax.xla_call_module.ir import ModuleIR, Op

__all__ = ["Context", "Options", "Record", "check_choices"]


@dataclasses.dataclass(frozen=True, slots=True)
class Options:
  """How a module is lifted; see `lift`."""

  mesh: jax.sharding.Mesh | None = None
  check_platform: bool = True
  check_shapes: bool = True
  x64: str = "error"
  loops: str = "scan"
  platform: str | None = None
  call_tf_function: Callable[..., Any] | None = None
  function_list: tuple[Any, ...] = ()
  custom_calls: Mapping[str, Callable[..., Any]] = dataclasses.field(default_factory=dict)
  on_unsupported: Callable[..., Any] | None = None


_CHOICES = {"gradient": ("auto", "saved", "primal"), "x64": ("error", "enable"), "loops": ("scan", "while")}


def check_choices(**options: str) -> None:
  """Raises ValueError where an option has a value that it does not know."""
  for name, value in options.items():
    if value not in _CHOICES[name]:
      raise ValueError(f"{name}={value!r}; expected one of {_CHOICES[name]}.")


@dataclasses.dataclass(frozen=True, slots=True)
class Record:
  """Something that lifting did not carry over verbatim: what, where, and what was done instead.

  `ffi_target` is the name and the API version of a custom call that is called again as it is; None for all else.
  """

  kind: str
  op: str
  location: str
  note: str
  ffi_target: tuple[str, int] | None = None


@dataclasses.dataclass(slots=True, eq=False)
class Context:
  """State of one lifted module. `analyses` and `calls` are caches; `records` is what `explain` shows.

  With `without_x64`, the module has 64-bit values and JAX has none; the module of that name says what happens to them.
  """

  ir: ModuleIR
  options: Options
  platform_index: int | None = None
  without_x64: bool = False
  records: dict[Any, Record] = dataclasses.field(default_factory=dict)
  calls: dict[Any, Any] = dataclasses.field(default_factory=dict)
  analyses: dict[Any, Any] = dataclasses.field(default_factory=dict)

  def record(self, kind: str, op: Op, note: str, ffi_target: tuple[str, int] | None = None) -> None:
    """Notes once per place that something was dropped or replaced."""
    key = (kind, op.name, op.location, ffi_target)
    self.records.setdefault(key, Record(kind, op.name, op.location, note, ffi_target))

  def unsupported(self, op: Op, reason: str, *, embeds: bool = True) -> errors.UnsupportedOpError:
    """The error for an op that does not lift, ready to raise; `embeds` tells whether embed() would help."""
    return errors.UnsupportedOpError(
      f"{op.place} does not lift: {reason} Register a lowering with graftax.xla_call_module.register"
      + (", or run the module through embed() instead." if embeds else "."),
      op=op.name,
      location=op.location,
      reason=reason,
    )

  def for_platform(self, index: int | None) -> "Context":
    """The same module with the platform index fixed; calls are traced apart, records are shared."""
    return dataclasses.replace(self, platform_index=index, calls={})
