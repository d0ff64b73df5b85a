"""Errors for custom calls that the TensorFlow of a target does not run."""

import re
from collections.abc import Callable, Collection, Sequence
from typing import Any

from graftax.xla_call_module import errors
from graftax.xla_call_module.exporting.custom_call_targets import CUSTOM_CALL_TARGETS
from graftax.xla_call_module.exporting.target import Target
from graftax.xla_call_module.exporting.tensorflow_versions import TENSORFLOW_VERSIONS

__all__ = ["allowed_calls", "call_check", "that_run"]

# What JAX accepts as the name of all custom calls.
_EVERY_CALL = "ALL"

# Calls that JAX writes for accelerators and that their compilers expand themselves. These are not tried.
_ACCELERATORS: dict[str, tuple[str, ...]] = {
  "cuda": (r"__gpu\$xla\.gpu\.triton", r"__cudnn\$\w+", r"__cublas\$[\w$]+", "annotate_device_placement"),
  "rocm": (r"__gpu\$xla\.gpu\.triton", r"__cublas\$[\w$]+", "annotate_device_placement"),
  "tpu": ("tpu_custom_call", "LuDecomposition", "AllocateBuffer", "annotate_device_placement"),
}

_ADVICE = (
  (
    r"lapack_|cusolver_|hipsolver_|cublas_|magma_",
    "Use a decomposition of jax.numpy.linalg or jax.lax.linalg instead.",
  ),
  (r"triton|mosaic|tpu_custom_call", "Compute it without Pallas, or export for the platform that has such kernels."),
  (r"_callback", "Replace the callback to Python; a TensorFlow graph cannot call it."),
)


def call_check(
  target: Target, platforms: Sequence[str], allowed: Collection[str], name: str
) -> Callable[[str, str], None]:
  """Returns a function of a custom call and its location that raises if no platform of the target runs the call.

  Args:
    target: the TensorFlow that will run the module.
    platforms: "cpu", "cuda", "rocm" or "tpu": those that the module is for.
    allowed: targets that the user vouches for.
    name: the function, for messages.

  Raises:
    LiftError: raised by the function that is returned.
  """

  def check(call: str, location: str) -> None:
    if _runs(target, call, platforms, allowed):
      return
    advice = next(
      (text for pattern, text in _ADVICE if re.search(pattern, call)), "Compute it with JAX's own functions."
    )
    raise errors.LiftError(
      f"function {name!r} cannot be exported: it contains the custom call {call!r} (at {location}), which"
      f" {target.name} does not have on {', '.join(platforms)}. {advice} If the program that runs the module registers"
      f" it, pass disabled_checks=[jax.export.DisabledSafetyCheck.custom_call({call!r})].",
      op=call,
      location=location,
      reason=f"{target.name} has no such custom call",
    )

  return check


def that_run(
  calls: Collection[str], targets: Sequence[Target], platforms: Sequence[str], allowed: Collection[str]
) -> list[Target]:
  """Returns the targets that run all of some custom calls; the arguments are those of `call_check`."""
  return [target for target in targets if all(_runs(target, call, platforms, allowed) for call in calls)]


# Compilers drop the checks of open sizes, or refine shapes with them.
_EVERY_COMPILER = frozenset({"shape_assertion"})


def _runs(target: Target, call: str, platforms: Sequence[str], allowed: Collection[str]) -> bool:
  accelerators = _ACCELERATORS if target.has_custom_calls else {}
  patterns = (pattern for platform in platforms for pattern in accelerators.get(platform, ()))
  return (
    call in allowed
    or _EVERY_CALL in allowed
    or call in _targets(target)
    or any(re.fullmatch(pattern, call) for pattern in patterns)
  )


def allowed_calls(disabled_checks: Sequence[Any]) -> frozenset[str]:
  """Returns the targets of custom calls that `jax.export.DisabledSafetyCheck`s name."""
  return frozenset(filter(None, (check.is_custom_call() for check in disabled_checks)))


def _targets(target: Target) -> frozenset[str]:
  """Returns the custom calls of the newest release in the table that reads no newer StableHLO than the target."""
  if not target.has_custom_calls:
    return _EVERY_COMPILER
  not_newer = [
    release for release in CUSTOM_CALL_TARGETS if TENSORFLOW_VERSIONS[release][0] <= target.stablehlo_version
  ]
  return CUSTOM_CALL_TARGETS[max(not_newer, default=min(CUSTOM_CALL_TARGETS))]
