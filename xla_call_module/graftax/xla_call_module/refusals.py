"""What keeps a module that lifts from running in this process: its platform, or custom calls that nobody provides."""

from collections.abc import Iterable, Iterator

import jax

from graftax.xla_call_module.context import Record
from graftax.xla_call_module.module import Module
from graftax.xla_call_module.platforms import canonical

__all__ = ["missing_targets", "wrong_platform"]

# What JAX calls the platform of either kind of GPU.
_GPU = "gpu"
_GPUS = frozenset({"cuda", "rocm"})


def wrong_platform(module: Module) -> str | None:
  """Why a call on JAX's default platform is refused, where the module checks its platform; None where it is not."""
  here = jax.default_backend()
  names = _GPUS if here == _GPU else {canonical(here)}
  if not module.checks_platform or names & set(module.platforms):
    return None
  return (
    f"the module was lowered for {', '.join(module.platforms)}, and JAX's default platform is {here}. Export it for "
    "that platform too, or lift with check_platform=False if its code suits both."
  )


def missing_targets(records: Iterable[Record]) -> Iterator[str]:
  """For each custom call that is called again as it is and that is not registered on JAX's default platform: what to
  do about it."""
  for target in sorted({record.ffi_target for record in records if record.ffi_target is not None}):
    if not _is_registered(*target):
      name = target[0]
      yield (
        f"no implementation of custom call {name!r} is registered for {jax.default_backend()}. Import the library that "
        f"brings it, register it with jax.ffi.register_ffi_target, or pass custom_calls={{{name!r}: function}}."
      )


def _is_registered(target: str, api_version: int) -> bool:
  """Whether XLA finds a custom call; it looks for it when it compiles, and nothing runs."""
  call = jax.ffi.ffi_call(
    target,
    jax.ShapeDtypeStruct((), "float32"),
    has_side_effect=True,
    custom_call_api_version=api_version,
    legacy_backend_config=None if api_version == 4 else "",
  )
  try:
    jax.jit(lambda: call()).lower().compile()
  except Exception as error:  # of another kind where it is there and wants other arguments
    return "NOT_FOUND" not in str(error)
  return True
