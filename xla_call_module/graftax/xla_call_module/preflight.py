"""Checks whether a module can run in this process: platform, custom calls, and exchanges with other devices."""

from collections.abc import Collection, Iterable, Iterator

import jax

from graftax.xla_call_module import communication, contracts, errors, ir
from graftax.xla_call_module.context import Record
from graftax.xla_call_module.module import Module
from graftax.xla_call_module.platforms import canonical
from graftax.xla_call_module.survey import RANDOM_BITS

__all__ = ["check_dialects", "check_embeds", "missing_targets", "wrong_platform"]

# JAX's name for the platform of both kinds of GPU.
_GPU = "gpu"
_GPUS = frozenset({"cuda", "rocm"})

_STATE_BYTES = 16


def wrong_platform(module: Module) -> str | None:
  """Returns the reason why a call on JAX's default platform would fail, or None if it would not."""
  here = jax.default_backend()
  names = _GPUS if here == _GPU else {canonical(here)}
  if not module.checks_platform or names & set(module.platforms):
    return None
  return (
    f"the module was lowered for {', '.join(module.platforms)}, and JAX's default platform is {here}. Export it for "
    "that platform too, or lift with check_platform=False if its code runs on both."
  )


def missing_targets(records: Iterable[Record]) -> Iterator[str]:
  """Yields a message for each FFI custom call that is not registered on JAX's default platform."""
  for target in sorted({record.ffi_target for record in records if record.ffi_target is not None}):
    # XLA crashes if it compiles a call of `Qr` without operands.
    if not contracts.is_compiled(target[0]) and not _is_registered(*target):
      name = target[0]
      yield (
        f"no implementation of custom call {name!r} is registered for {jax.default_backend()}. Import the library that "
        f"provides it, register it with jax.ffi.register_ffi_target, or pass custom_calls={{{name!r}: function}}."
      )


def _is_registered(target: str, api_version: int) -> bool:
  """Returns whether XLA finds a custom call. This compiles a call, which looks up the target, but does not run it."""
  call = jax.ffi.ffi_call(
    target,
    jax.ShapeDtypeStruct((), "float32"),
    has_side_effect=True,
    custom_call_api_version=api_version,
    legacy_backend_config=None if api_version == 4 else "",
  )
  try:
    jax.jit(lambda: call()).lower().compile()
  except Exception as error:  # a registered call that expects other arguments raises another error
    return "NOT_FOUND" not in str(error)
  return True


def check_embeds(
  module_ir: ir.ModuleIR,
  ops: Collection[tuple[ir.Function, ir.Op]],
  allow_custom_calls: Collection[str] = (),
  *,
  is_refined: bool = True,
) -> frozenset[str]:
  """Checks that XLA can run a module on one device without a crash, an endless wait or a wrong result.

  Returns the targets of its custom calls. Their types are checked only if `is_refined`. `ops` are those of its survey.

  XLA would run a collective over several devices with the data of one device, which gives a wrong result.

  Raises:
    UnsupportedModuleError: the module communicates with the host or with other devices.
    CustomCallError: a custom call has a target without a rule that is not in `allow_custom_calls`, or types that its
      target does not accept.
  """
  for _, op in ops:
    if op.name in communication.HOST_TRANSFERS:
      _refuse(op, "exchanges data with the process that exported it, and XLA would wait for it forever")
    if str(op.attrs.get("call_target_name")) in communication.HOST_CALLBACKS:
      _refuse(op, "calls a function of the process that exported it, so XLA would crash")
    if op.name == communication.PER_DEVICE:
      _refuse(op, "runs separately on each device of a mesh; lift it with that mesh")
    if op.name in communication.COLLECTIVES and not communication.is_alone(module_ir, op):
      _refuse(op, f"communicates between devices in groups {communication.groups(op).tolist()!r}")
    if op.name == RANDOM_BITS:
      _check_state(op)
  return contracts.check_module(ops, allow_custom_calls, is_refined=is_refined)


def check_dialects(names: Collection[str]) -> None:
  """Raises UnsupportedModuleError if there are ops that MLIR reads, but XLA does not take."""
  for name in sorted(names):
    if name.startswith("vhlo."):
      raise errors.UnsupportedModuleError(
        f"the module cannot be embedded: {name} is an op of stored artifacts, which XLA does not run. Read the bytes "
        "of the artifact instead of its text."
      )


def _check_state(op: ir.Op) -> None:
  state = op.types[0]
  is_vector = isinstance(state, ir.TensorType) and state.rank == 1
  if not is_vector or (state.shape[0] is not None and state.shape[0] * state.dtype.itemsize < _STATE_BYTES):
    _refuse(op, f"has a state of type {state}; expected a vector of at least {_STATE_BYTES} bytes")


def _refuse(op: ir.Op, what: str) -> None:
  raise errors.UnsupportedModuleError(f"the module cannot be embedded: {op.place} {what}.")
