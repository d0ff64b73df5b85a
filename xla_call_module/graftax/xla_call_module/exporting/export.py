"""`export_call_module`: a JAX function as the attributes of an XlaCallModule node."""

import dataclasses
import re
from collections.abc import Callable, Sequence
from typing import Any

import jax

from graftax.xla_call_module import errors, mlir
from graftax.xla_call_module.exported import live
from graftax.xla_call_module.exporting.bit_patterns import bit_pattern_rules
from graftax.xla_call_module.exporting.custom_calls import allowed_calls, call_check, that_run
from graftax.xla_call_module.exporting.linear_algebra import lowering_rules
from graftax.xla_call_module.exporting.random_bits import random_rules
from graftax.xla_call_module.exporting.target import Target
from graftax.xla_call_module.lax_extras import InconclusiveDimensionOperation

__all__ = ["CallModule", "checks_of_unstable_calls", "export_call_module"]


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class CallModule:
  """A StableHLO module with the calling convention of an XlaCallModule node.

  Attributes:
    inputs: what the function takes, flat, with the dtypes that the node sees: random keys are uint32 arrays with more
      dimensions, and float0 is bool. Dimensions may be symbolic.
    outputs: the results, in the same form.
    kept: positions of the inputs that are inputs of the node. JAX drops inputs that the function does not use.
    attributes: the attributes of the node by name, without `Tin`, `Tout` and `Sout`, which follow from `inputs`, `kept`
      and `outputs`. `use_shardy_partitioner` is present only if the target reads it.
    target: the TensorFlow that the module was written for; older than the one that was asked for if that is None.
    exported: what JAX exported; its module is not yet legalized for the target.
  """

  inputs: tuple[jax.ShapeDtypeStruct, ...]
  outputs: tuple[jax.ShapeDtypeStruct, ...]
  kept: tuple[int, ...]
  attributes: dict[str, Any]
  target: Target
  exported: jax.export.Exported = dataclasses.field(repr=False)


def export_call_module(
  function: Callable[..., Sequence[Any]],
  avals: Sequence[jax.ShapeDtypeStruct],
  *,
  target: Target | str | None = None,
  platforms: Sequence[str] | None = None,
  disabled_checks: Sequence[Any] = (),
) -> CallModule:
  """Returns a JAX function as a module that an XlaCallModule node runs.

  Args:
    function: takes flat positional arrays and returns a list or tuple of arrays.
    avals: the arguments; dimensions may be symbolic, as `jax.export.symbolic_shape` makes them.
    target: the TensorFlow that will run the module, see `Target.of`. For None, the module is written for the oldest
      release that has all of its ops, attributes, types and custom calls.
    platforms: "cpu", "cuda", "rocm", "tpu"; None is JAX's default backend.
    disabled_checks: `jax.export.DisabledSafetyCheck`s. Those of custom calls say that the program that runs the module
      has them.

  Raises:
    VersionError: the target is not known, or too old for an op of the module.
    UnsupportedModuleError: the function has side effects, communicates between devices, or uses something else that
      cannot be exported.
    LiftError: it uses linear algebra or a custom call that the target's XLA does not have.

  Example:
    >>> node = export_call_module(lambda x: (x + 1,), [jax.ShapeDtypeStruct((3,), "float32")], platforms=["cpu"])
    >>> node.attributes["platforms"], node.outputs[0].shape
    (('CPU',), (3,))
  """
  target = Target.of(target)
  jitted: Any = function if hasattr(function, "trace") else jax.jit(function)
  _check_pure(jitted.trace(*avals))
  exported = _exported(jitted, avals, platforms, disabled_checks, by_loops=not target.has_custom_calls)
  # Only the newest form of the node says how several devices are used.
  older = target.older() if exported.nr_devices == 1 else ()
  allowed = allowed_calls(disabled_checks)
  module, written = mlir.legalize(
    exported.mlir_module_serialized,
    version=target.stablehlo_version,
    older=lambda calls: [found.stablehlo_version for found in that_run(calls, older, exported.platforms, allowed)],
    num_devices=exported.nr_devices,
    check_call=call_check(target, exported.platforms, allowed, _name(jitted)),
  )
  target = next((candidate for candidate in older if candidate.stablehlo_version == written), target)
  attributes: dict[str, Any] = {
    "version": min(exported.calling_convention_version, target.call_module_version),
    "module": module,
    "platforms": tuple(name.upper() for name in exported.platforms),
    "function_list": (),
    "has_token_input_output": False,
    "disabled_checks": tuple(map(live.check_name, disabled_checks)),
    "dim_args_spec": (),
  }
  if target.call_module_version >= 10:
    attributes["use_shardy_partitioner"] = exported.nr_devices > 1 and bool(jax.config.jax_use_shardy_partitioner)
  return CallModule(
    tuple(map(_as_seen_by_node, exported.in_avals)),
    tuple(map(_as_seen_by_node, exported.out_avals)),
    tuple(exported.module_kept_var_idx),
    attributes,
    target,
    exported,
  )


def _exported(
  jitted: Any,
  avals: Sequence[Any],
  platforms: Sequence[str] | None,
  disabled_checks: Sequence[Any],
  *,
  by_loops: bool,
) -> Any:
  try:
    return _export(jitted, avals, platforms, disabled_checks, by_loops=by_loops)
  except errors.StableHloError:
    raise
  except NotImplementedError as error:
    reason = _CALLBACK_ADVICE if "host_callbacks" in str(error) else str(error)
    raise errors.UnsupportedModuleError(f"function {_name(jitted)!r} cannot be exported: {reason}") from error
  except InconclusiveDimensionOperation as error:  # of a lowering rule, since the function has been traced
    comparison = str(error).strip().splitlines()[0].rstrip(".")
    raise errors.UnsupportedModuleError(
      f"function {_name(jitted)!r} cannot be exported for all open sizes: {comparison}. Say what is known of them, for"
      " example jax.export.symbolic_shape('b, 4', constraints=['b >= 5']), or give numbers in their place."
    ) from error
  except RuntimeError as error:  # JAX lowers a callback of a symbolic shape: "std::bad_cast"
    raise errors.UnsupportedModuleError(
      f"function {_name(jitted)!r} cannot be exported: {error}. If it calls back to Python (jax.pure_callback), replace"
      " the callback; TensorFlow cannot run it."
    ) from error
  except ValueError as error:
    if "Cannot lower jaxpr with verifier errors" in str(error):  # of a primitive that forgets that sizes may be open
      line = next((line.strip() for line in str(error).splitlines()[1:] if line.strip()), "")
      raise errors.UnsupportedModuleError(
        f"function {_name(jitted)!r} cannot be exported: JAX writes an invalid module for it ({line:.200}). If sizes"
        " are open, export it with fixed ones."
      ) from error
    # JAX exports only custom calls that it knows to be stable. Which ones can be used depends on the target instead.
    allowed = checks_of_unstable_calls(error)
    if not allowed:
      raise
    return _export(jitted, avals, platforms, (*disabled_checks, *allowed), by_loops=by_loops)


def checks_of_unstable_calls(error: ValueError) -> list[jax.export.DisabledSafetyCheck]:
  """Returns the checks to disable if `jax.export` refused custom calls without a guarantee; none for other errors."""
  calls = _UNSTABLE_CALL.findall(str(error)) if "no compatibility guarantees" in str(error) else []
  return [jax.export.DisabledSafetyCheck.custom_call(name) for name in sorted(set(calls))]


_UNSTABLE_CALL = re.compile(r"stablehlo\.custom_call @\"?([^\s(\"]+)")


def _export(
  jitted: Any,
  avals: Sequence[Any],
  platforms: Sequence[str] | None,
  disabled_checks: Sequence[Any],
  *,
  by_loops: bool,
) -> Any:
  kinds = set(platforms) if platforms is not None else {jax.default_backend()}
  # JAX's own rules for TPU need no library of jaxlib, and use an op of TPUs.
  rules = () if kinds == {"tpu"} and platforms is not None and not by_loops else lowering_rules(by_loops=by_loops)
  if kinds & {"cuda", "rocm", "gpu"}:
    rules = (*rules, *random_rules())
  if any(jax.export.is_symbolic_dim(size) for aval in avals for size in aval.shape):
    rules = (*rules, *bit_pattern_rules())
  # The parameter is not public. In its place one could trace the function again and replace primitives, but then source
  # locations would be lost.
  return jax.export.export(
    jitted, platforms=platforms, disabled_checks=disabled_checks, _override_lowering_rules=rules
  )(*avals)


def _name(jitted: Any) -> str:
  return str(getattr(jitted, "__name__", "function"))


# JAX does not export the classes of its effects. Lowering turns references that a function makes into values.
_DISCHARGED = ("InternalMutableArrayEffect",)
_EFFECTS = {
  "DebugEffect": "jax.debug.print or jax.debug.callback",
  "OrderedDebugEffect": "jax.debug.print or jax.debug.callback",
  "IOEffect": "io_callback",
  "OrderedIOEffect": "io_callback",
  "ErrorEffect": "checkify.check",
  "ReadEffect": "a read of a jax.Ref from outside of the function",
  "WriteEffect": "a write to a jax.Ref from outside of the function",
  "AccumEffect": "an addition to a jax.Ref from outside of the function",
}
_CALLBACK_ADVICE = (
  "serialization of host_callbacks is not yet implemented. Remove callbacks and debug prints, or compute the result in"
  " JAX. equinox.error_if calls back to Python: set the environment variable EQX_ON_ERROR=nan before equinox is"
  " imported. Functional checks can be kept: jax.experimental.checkify.checkify returns the error as a value."
)


def _check_pure(traced: Any) -> None:
  kinds = {type(effect).__name__ for effect in traced.jaxpr.effects} - {*_DISCHARGED}
  if kinds:
    effects = sorted({_EFFECTS.get(kind, kind) for kind in kinds})
    raise errors.UnsupportedModuleError(
      f"function {traced.fun_name!r} has side effects ({', '.join(effects)}), which a TensorFlow graph cannot run;"
      f" {_CALLBACK_ADVICE}"
    )


def _as_seen_by_node(aval: Any) -> jax.ShapeDtypeStruct:
  return live.array_struct(aval)
