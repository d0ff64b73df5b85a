"""Modules as text, bytecode and portable artifacts, and from HLO."""

from typing import Any

import jax.extend.mlir
import jax.interpreters.mlir as jax_mlir
from jax.extend.mlir import passmanager
from jax.extend.mlir.dialects import stablehlo

from graftax.xla_call_module import errors
from graftax.xla_call_module.mlir.bindings import mlir_context, parse, register_passes

__all__ = ["deserialize", "from_hlo", "run_passes", "serialize", "to_text"]


def deserialize(data: bytes | str) -> str:
  """The module as text; large constants included."""
  with mlir_context() as messages:
    return str(parse(data, messages))


def to_text(data: bytes | str) -> str:
  """The module as text with source locations."""
  with mlir_context() as messages:
    return parse(data, messages).operation.get_asm(enable_debug_info=True)


def serialize(data: bytes | str, *, version: str | None = None) -> bytes:
  """The module as a StableHLO portable artifact that readers of `version` (default: the newest) understand."""
  with mlir_context() as messages:
    module = parse(data, messages)
    try:
      return _serialize(module, version or stablehlo.get_current_version())
    except Exception as error:
      raise errors.VersionError(
        f"module cannot be written as StableHLO {version}: {'; '.join(messages[:3]) or error}"
      ) from None


def _serialize(module: Any, version: str) -> bytes:
  try:
    return jax.extend.mlir.serialize_portable_artifact(module, version)
  except TypeError:  # Until jax>=0.10.2: the binding took bytecode instead of a module.
    return jax.extend.mlir.serialize_portable_artifact(jax_mlir.module_to_bytecode(module), version)


def from_hlo(hlo: bytes) -> bytes:
  """MLIR bytecode of the StableHLO of a serialized `HloModuleProto`."""
  try:
    return jax.extend.mlir.hlo_to_stablehlo(hlo)
  except Exception as error:
    raise errors.DecodeError(f"HLO module of {len(hlo)} bytes does not convert to StableHLO: {error}") from None


def run_passes(data: bytes | str, pipeline: str) -> str:
  """The module as text after an MLIR pass pipeline such as `builtin.module(inline)`."""
  register_passes()
  with mlir_context() as messages:
    module = parse(data, messages)
    try:
      passmanager.PassManager.parse(pipeline).run(module.operation)
    except Exception as error:
      raise errors.RefinementError(f"pipeline {pipeline!r} failed: {'; '.join(messages[:3]) or error}") from None
    return module.operation.get_asm(enable_debug_info=True)
