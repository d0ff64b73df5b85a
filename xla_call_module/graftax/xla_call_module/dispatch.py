"""`call` and `explain`: lifts a module if possible, else embeds single ops, else embeds the whole module."""

import copy
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Unpack

import jax
import jax.numpy as jnp

from graftax.xla_call_module import arguments, communication, embedding, errors, ir, preflight
from graftax.xla_call_module.context import LiftOptions, Options, Record, checked_limits, checked_names
from graftax.xla_call_module.lifting import Lifted, lift
from graftax.xla_call_module.module import Module, check_is_module

__all__ = ["Explanation", "Obstacle", "call", "explain"]


@dataclasses.dataclass(frozen=True, slots=True)
class Obstacle:
  """An op that does not lift: its name, its location, the reason, and whether it can be embedded alone."""

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
    records: operations that lifting drops or replaces.
    reason: why the whole module is embedded, if it is.
    refusals: reasons why a call in this process would still fail: the module was lowered for a platform other than
      JAX's default, 64-bit types are disabled (the plan then assumes them enabled), a custom call is not registered,
      or the module can be neither lifted nor embedded.
  """

  plan: Literal["lift", "lift with embedded ops", "embed"]
  obstacles: tuple[Obstacle, ...]
  records: tuple[Record, ...]
  reason: str = ""
  refusals: tuple[str, ...] = ()

  def __str__(self) -> str:
    lines = [f"plan: {self.plan}" + (f" ({self.reason})" if self.reason else "")]
    lines += [f"  fails here: {refusal}" for refusal in self.refusals]
    lines += [
      f"  does not lift: {o.op} at {o.location or 'an unknown place'}: {o.reason}"
      + (" [embedded alone]" if o.embeds else "")
      for o in self.obstacles
    ]
    lines += [f"  {r.kind}: {r.op} at {r.location or 'an unknown place'}: {r.note}" for r in self.records]
    return "\n".join(lines)


class _Fallback:
  """Calls the caller's `on_unsupported` for each op that does not lift; without one, embeds the op and records it."""

  def __init__(self, module: Module, first: Callable[..., Any] | None, options: Options):
    self.module, self.first, self.options = module, first, options
    self.obstacles: dict[tuple[str, str, str], Obstacle] = {}

  def __call__(self, op: ir.Op, error: errors.LiftError, environment: dict[int, Any]) -> Any:
    if self.first is not None:
      try:
        return self.first(op, error, environment)
      except errors.UnsupportedModuleError:
        pass
    reason = error.reason or str(error)
    try:
      if not communication.may_embed_alone(op):
        raise error
      results = embedding.embed_op(self.module.data, op, environment, self.options)
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


def explain(module: Module, *args: Any, **options: Unpack[LiftOptions]) -> Explanation:
  """Returns how `call` would run the module for such arguments, with each op that would not lift and the reason.

  Args:
    module: the module that `call` would run; nothing is run here.
    *args: arrays or `jax.ShapeDtypeStruct`s; may be left out if every shape of the module is static.
    **options: as for `lift`.

  Raises:
    ArgumentError: `module` is something else, or the arguments do not fit it.

  Example:
    >>> from graftax.xla_call_module import Module, explain
    >>> module = Module.from_text("func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> { return %x : tensor<3xf32> }")
    >>> explain(module).plan
    'lift'
  """
  check_is_module(module, "explain")
  refused = []
  try:
    found = _plan(module, args, options).explanation
  except errors.X64Error as error:
    refused.append(str(error))
    with jax.enable_x64(True):
      found = _plan(module, args, options).explanation
  is_checked = options.get("check_platform", True) and not (module.has_platform_index and options.get("platform"))
  other = preflight.wrong_platform(module) if is_checked else None
  refused += found.refusals
  if other is not None:
    return dataclasses.replace(found, refusals=(*refused, other))
  return dataclasses.replace(found, refusals=(*refused, *preflight.missing_targets(found.records)))


def call(module: Module, *args: Any, **options: Unpack[LiftOptions]) -> tuple[jax.Array, ...]:
  """Runs a module on arrays: lifted if possible, else with single ops embedded, else embedded as a whole.

  `explain(module)` tells which of these it is. A second call with arguments of the same types reuses what the first one
  compiled. Options are those of `lift`. `on_unsupported` is called before an op is embedded; if it raises the error
  that it was given, the op is embedded.

  Args:
    module: the module to run.
    *args: one array per input of the module, in the order, shapes and dtypes of `module.inputs`. Arrays may be traced.
    **options: keyword arguments of `lift`. Some, such as `mesh`, have no effect on an embedded module, so a module that
      can only be embedded as a whole raises if they are given.

  Returns:
    A tuple with one array per output of the module, also if there is only one.

  Raises:
    UnsupportedModuleError: the module does not lift. Either embedding it would ignore one of the options, or it cannot
      be embedded, because it exchanges data with other devices or the host or has a recursive function.
    ArgumentError: `module` is something else, or the arguments do not fit it.

  Example:
    >>> import numpy as np
    >>> from graftax.xla_call_module import Module, call
    >>> module = Module.from_text("func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> { return %x : tensor<3xf32> }")
    >>> call(module, np.arange(3, dtype=np.float32))
    (Array([0., 1., 2.], dtype=float32),)
  """
  check_is_module(module, "call")
  return _plan(module, args, options).function(*args)


# Options that embedding does not support.
_OPTIONS_OF_LIFT = ("mesh", "platform", "check_shapes", "call_tf_function", "custom_calls")
_OPTIONS_OF_EMBED = ("gradient", "check_platform", "x64", "allow_custom_calls", "limits")
# Bounds the cache for callers that pass a new `on_unsupported` on every call.
_MAX_PLANS = 16


def _plan(module: Module, args: Sequence[Any], options: LiftOptions) -> _Plan:
  """Returns the plan for such options and arguments, cached on the module."""
  key = _key(args, options)
  plan = module.plans.get(key)
  if plan is None:
    plan = _new_plan(module, args, options)
    if len(module.plans) >= _MAX_PLANS:
      module.plans.pop(list(module.plans)[0], None)
    module.plans[key] = plan
  return plan


def _key(args: Sequence[Any], options: LiftOptions) -> Any:
  custom_calls = options.get("custom_calls") or {}
  allowed = checked_names(options.get("allow_custom_calls", ()))
  kept = {**options, "custom_calls": frozenset(custom_calls.items()), "allow_custom_calls": allowed}
  types = tuple(type(arg) if isinstance(arg, _SCALARS) else _spec(i, arg) for i, arg in enumerate(args))
  return types, frozenset(kept.items()), jax.config.jax_enable_x64


def _new_plan(module: Module, args: Sequence[Any], options: LiftOptions) -> _Plan:
  specs = [_spec(i, arg) for i, arg in enumerate(args)] if args else _static_specs(module)
  allowed = checked_names(options.get("allow_custom_calls", ()))
  own = Options(allow_custom_calls=allowed, limits=checked_limits(options.get("limits")))
  fallback = _Fallback(module, options.get("on_unsupported"), own)
  lifted: Lifted | None = None
  # While 64-bit types are off, eval_shape would pass 32-bit arguments to a module that enables 64-bit types itself.
  is_wide = jax.config.jax_enable_x64 or options.get("x64") == "enable"
  try:
    with_fallback: LiftOptions = {**options, "on_unsupported": fallback}
    lifted = lift(module, **with_fallback)
    with jax.enable_x64(is_wide):
      jax.eval_shape(lifted, *map(_canonical, specs))
  except errors.UnsupportedModuleError as error:
    _refuse_to_leave_out(options, error)
    supported: dict[str, Any] = {name: value for name, value in options.items() if name in _OPTIONS_OF_EMBED}
    found = Explanation(
      "embed", tuple(fallback.obstacles.values()), () if lifted is None else lifted.records, str(error)
    )
    try:
      return _Plan(embedding.embed(module, **supported), found)
    except errors.UnsupportedModuleError as refusal:
      return _Plan(_Refusing(refusal), dataclasses.replace(found, refusals=(str(refusal),)))
  obstacles = tuple(fallback.obstacles.values())
  return _Plan(lifted, Explanation("lift with embedded ops" if obstacles else "lift", obstacles, lifted.records))


class _Refusing:
  """Placeholder that raises when called: the module can be neither lifted nor embedded."""

  def __init__(self, error: errors.UnsupportedModuleError):
    self._error = error

  def __call__(self, *args: Any) -> Any:
    raise copy.copy(self._error)  # without the traceback of an earlier call


def _refuse_to_leave_out(options: Mapping[str, object], error: errors.UnsupportedModuleError) -> None:
  given = [name for name in _OPTIONS_OF_LIFT if options.get(name) is not None]
  if given:
    raise errors.UnsupportedModuleError(
      f"the module does not lift, and embedding the whole module would ignore {', '.join(given)}: {error}"
    ) from error


_SCALARS = (bool, int, float, complex)


def _spec(position: int, arg: Any) -> Any:
  if isinstance(arg, _SCALARS):
    return arg
  array = arguments.as_array(position, arg)
  return jax.ShapeDtypeStruct(jnp.shape(array), array.dtype)


def _canonical(spec: Any) -> Any:
  """Returns the spec with the dtype that an array of it has; JAX warns if its own functions have to narrow a spec."""
  if isinstance(spec, _SCALARS):
    return spec
  dtype = jax.dtypes.canonicalize_dtype(spec.dtype, allow_extended_dtype=True)
  return jax.ShapeDtypeStruct(spec.shape, dtype)


def _static_specs(module: Module) -> list[jax.ShapeDtypeStruct]:
  if any(None in spec.shape for spec in module.inputs):
    raise errors.ArgumentError(
      f"{module} has open dimensions; pass arguments or jax.ShapeDtypeStructs with the sizes to use."
    )
  return [jax.ShapeDtypeStruct(spec.shape, spec.dtype) for spec in module.inputs]
