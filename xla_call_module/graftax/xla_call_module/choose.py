"""`call` and `explain`: lift where possible, embed single ops where not, and the whole module as the last resort."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from graftax.xla_call_module import embed as embedding
from graftax.xla_call_module import errors, ir
from graftax.xla_call_module.context import Record
from graftax.xla_call_module.lift import lift
from graftax.xla_call_module.module import Module

__all__ = ["Explanation", "Obstacle", "call", "explain"]


@dataclasses.dataclass(frozen=True, slots=True)
class Obstacle:
  """One op that does not lift: its name and place, why, and whether it can be embedded alone."""

  op: str
  location: str
  reason: str
  embeds: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Explanation:
  """How `call` runs a module.

  Attributes:
    plan: "lift" (all of it is JAX), "lift with embedded ops", or "embed" (one opaque operation).
    obstacles: the ops that do not lift.
    records: what lifting drops or replaces.
    reason: why the whole module is embedded, where it is.
  """

  plan: str
  obstacles: tuple[Obstacle, ...]
  records: tuple[Record, ...]
  reason: str = ""

  def __str__(self) -> str:
    lines = [f"plan: {self.plan}" + (f" ({self.reason})" if self.reason else "")]
    lines += [
      f"  does not lift: {o.op} at {o.location or 'an unknown place'}: {o.reason}"
      + (" [embedded alone]" if o.embeds else "")
      for o in self.obstacles
    ]
    lines += [f"  {r.kind}: {r.op} at {r.location or 'an unknown place'}: {r.note}" for r in self.records]
    return "\n".join(lines)


class _Fallback:
  """Embeds each op that does not lift and remembers it."""

  def __init__(self, module: Module):
    self.module = module
    self.obstacles: dict[tuple[str, str, str], Obstacle] = {}

  def __call__(self, op: ir.Op, error: errors.UnsupportedOpError, environment: dict[int, Any]) -> list[Any]:
    reason = str(error)
    try:
      results = embedding.embed_op(self.module.data, op, environment)
    except errors.StableHloError:
      self._note(op, reason, False)
      raise error from None
    self._note(op, reason, True)
    return results

  def _note(self, op: ir.Op, reason: str, embeds: bool) -> None:
    self.obstacles[op.name, op.location, reason] = Obstacle(op.name, op.location, reason, embeds)


@dataclasses.dataclass(frozen=True, slots=True)
class _Plan:
  function: Any
  explanation: Explanation


def explain(module: Module, *args: Any, **options: Any) -> Explanation:
  """How `call` would run the module for such arguments, and what would not lift and why.

  Args:
    args: arrays or `jax.ShapeDtypeStruct`s; may be left out where every shape of the module is static.
    options: as for `lift`.
  """
  return _plan(module, args, options).explanation


def call(module: Module, *args: Any, **options: Any) -> tuple[jax.Array, ...]:
  """Runs a module on arrays: lifted where it lifts, single ops embedded where they do not, embedded as the last resort.

  Nothing is chosen silently: `explain(module)` says what runs how. Options are those of `lift`.
  """
  return _plan(module, args, options).function(*args)


def _plan(module: Module, args: Sequence[Any], options: dict[str, Any]) -> _Plan:
  specs = [_spec(arg) for arg in args] if args else _static_specs(module)
  fallback = _Fallback(module)
  lifted = lift(module, on_unsupported=fallback, **options)
  try:
    jax.eval_shape(lifted, *specs)
  except errors.UnsupportedModuleError as error:
    gradient = options.get("gradient", "auto")
    function = embedding.embed(module, gradient=gradient, check_platform=options.get("check_platform", True))
    reason = str(error)
    return _Plan(function, Explanation("embed", tuple(fallback.obstacles.values()), lifted.records, reason))
  obstacles = tuple(fallback.obstacles.values())
  return _Plan(lifted, Explanation("lift with embedded ops" if obstacles else "lift", obstacles, lifted.records))


def _spec(arg: Any) -> Any:
  if isinstance(arg, (bool, int, float, complex)):
    return arg
  return jax.ShapeDtypeStruct(jnp.shape(arg), arg.dtype if hasattr(arg, "dtype") else jnp.asarray(arg).dtype)


def _static_specs(module: Module) -> list[jax.ShapeDtypeStruct]:
  if any(None in spec.shape for spec in module.inputs):
    raise errors.ArgumentError(
      f"{module} leaves shapes open; pass arguments or jax.ShapeDtypeStructs to say which ones are meant."
    )
  return [jax.ShapeDtypeStruct(spec.shape, spec.dtype) for spec in module.inputs]
