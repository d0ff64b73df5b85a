"""Bytes of modules: portable artifacts, also those of other versions of StableHLO, and bytecode."""

from graftax.xla_call_module import bytecode, errors, expansion, mlir, subprocess_reader
from graftax.xla_call_module.budget import Limits
from graftax.xla_call_module.ir import ModuleIR

__all__ = ["decode"]


def decode(data: bytes, guard: bool, limits: Limits | None) -> tuple[bytes, ModuleIR]:
  """Returns the bytes, changed to an older version if the installed jaxlib needs that, and the module in them.

  Args:
    data: bytes of MLIR, as of `Module.from_bytes`.
    guard: parse the bytes in a helper process first.
    limits: how deep regions may be inside each other; by default `Limits()`.

  Raises:
    DecodeError: the bytes are damaged, truncated or not a module.
    GuardError: the helper process does not start.
    VersionError: the module was written by a newer StableHLO than the installed jaxlib reads.
  """
  bytecode.check_structure(data)
  expansion.check_bytecode(data)
  if not bytecode.is_portable(data):
    return data, _decoded(data, guard, limits)
  current = mlir.current_version()
  readable = bytecode.relabeled(data, current)
  bytecode.check_version(readable, current)
  try:
    return readable, _decoded(readable, guard, limits)
  except errors.DecodeError as error:
    if readable is data:
      raise
    written, read = (".".join(map(str, version)) for version in (bytecode.declared_version(data), current))
    raise errors.VersionError(
      f"module was written by StableHLO {written}, and has something that the installed jaxlib does not know, which"
      f" reads up to {read}: {error} Install a newer jaxlib, or write the module with an older target version."
    ) from error


def _decoded(data: bytes, guard: bool, limits: Limits | None) -> ModuleIR:
  if guard:
    subprocess_reader.check(data)
  return mlir.decode_bytes(data, limits)
