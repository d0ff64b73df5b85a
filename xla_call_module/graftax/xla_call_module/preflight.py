"""Checks whether a module can run in this process: platform, custom calls, and exchanges with other devices."""

from collections.abc import Iterable, Iterator

import jax

from graftax.xla_call_module import analysis, communication, errors, ir
from graftax.xla_call_module.context import Context, Options, Record
from graftax.xla_call_module.module import Module
from graftax.xla_call_module.platforms import canonical

__all__ = ["check_embeds", "missing_targets", "wrong_platform"]

# JAX's name for the platform of both kinds of GPU.
_GPU = "gpu"
_GPUS = frozenset({"cuda", "rocm"})


def wrong_platform(module: Module) -> str | None:
  """Returns why a call on JAX's default platform is refused; None if it is not, or the module checks no platform."""
  here = jax.default_backend()
  names = _GPUS if here == _GPU else {canonical(here)}
  if not module.checks_platform or names & set(module.platforms):
    return None
  return (
    f"the module was lowered for {', '.join(module.platforms)}, and JAX's default platform is {here}. Export it for "
    "that platform too, or lift with check_platform=False if its code suits both."
  )


def missing_targets(records: Iterable[Record]) -> Iterator[str]:
  """Returns advice for each custom call that stays a custom call and is not registered on JAX's default platform."""
  for target in sorted({record.ffi_target for record in records if record.ffi_target is not None}):
    if not _is_registered(*target):
      name = target[0]
      yield (
        f"no implementation of custom call {name!r} is registered for {jax.default_backend()}. Import the library that "
        f"brings it, register it with jax.ffi.register_ffi_target, or pass custom_calls={{{name!r}: function}}."
      )


def _is_registered(target: str, api_version: int) -> bool:
  """Returns whether XLA finds a custom call. Only compiles: XLA looks the call up then, and nothing runs."""
  call = jax.ffi.ffi_call(
    target,
    jax.ShapeDtypeStruct((), "float32"),
    has_side_effect=True,
    custom_call_api_version=api_version,
    legacy_backend_config=None if api_version == 4 else "",
  )
  try:
    jax.jit(lambda: call()).lower().compile()
  except Exception as error:  # another error if it is registered and expects other arguments
    return "NOT_FOUND" not in str(error)
  return True


def check_embeds(module_ir: ir.ModuleIR) -> None:
  """Checks that XLA can run a module as it is, without a crash or an endless wait.

  On one device, XLA computes a collective over several with what that one has, which is a wrong number.

  Raises:
    UnsupportedModuleError: a function calls itself; the program exchanges data with the host or calls back into it; or
      it communicates between devices, or has code for each of several.
  """
  context = Context(module_ir, Options())
  for function in module_ir.functions.values():
    analysis.expanded_size(context, function)
    for op in ir.walk(function.body):
      if op.name in communication.HOST_TRANSFERS:
        _refuse(op, "exchanges data with the process that exported it, and XLA would wait for that without end")
      if op.attrs.get("call_target_name") in communication.HOST_CALLBACKS:
        _refuse(op, "calls back into the process that exported it, which is gone: XLA would crash")
      if op.name == communication.PER_DEVICE:
        _refuse(op, "runs on each device of a mesh by itself; lift it with that mesh")
      if op.name in communication.COLLECTIVES and not communication.is_alone(module_ir, op):
        _refuse(op, f"communicates between devices in groups {communication.groups(op).tolist()!r}")


def _refuse(op: ir.Op, what: str) -> None:
  raise errors.UnsupportedModuleError(f"the module cannot be embedded: {op.place} {what}.")
