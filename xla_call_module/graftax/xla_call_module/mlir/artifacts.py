"""Writes modules as text and portable artifacts, and converts HLO to StableHLO."""

import functools
from typing import Any

import jax.extend.mlir
import jax.interpreters.mlir as jax_mlir
from jax.extend.mlir import passmanager
from jax.extend.mlir.dialects import stablehlo

from graftax.xla_call_module import errors
from graftax.xla_call_module.mlir.bindings import current_version, mlir_context, parse

__all__ = ["from_hlo", "legalize", "serialize", "to_text"]


def to_text(data: bytes | str) -> str:
  """Returns the module as text with source locations."""
  with mlir_context() as messages:
    return parse(data, messages).operation.get_asm(enable_debug_info=True)


def serialize(data: bytes | str, *, version: str | None = None) -> bytes:
  """Returns the module as a StableHLO portable artifact of `version` (default: the newest)."""
  with mlir_context() as messages:
    module = parse(data, messages)
    try:
      return _serialize(module, version or stablehlo.get_current_version())
    except Exception as error:
      raise errors.VersionError(
        f"module cannot be written as StableHLO {version}: {'; '.join(messages[:3]) or error}"
      ) from None


def legalize(data: bytes | str, *, version: str) -> bytes:
  """Returns the module as a StableHLO portable artifact, with ops that `version` does not have expanded.

  Composites become calls of their decompositions. Runtimes expand composites as well, but those of CHLO with code that
  they generate anew, and not for every dynamic shape.

  Raises:
    VersionError: an op, a type or an attribute cannot be expressed in `version`; the message names it and its location
      in the source.
  """
  with mlir_context() as messages:
    module = parse(data, messages)
    _run_passes(module, ["func.func(stablehlo-legalize-composite-to-call)", "symbol-dce"])
    if _is_older(version):
      _run_passes(module, [f"stablehlo-compatibility-expander{{target={version}}}"])
    try:
      return _serialize(module, version)
    except Exception as error:
      raise errors.VersionError(
        f"the module cannot be written as StableHLO {version}: {'; '.join(messages[:3]) or error}"
      ) from None


def _is_older(version: str) -> bool:
  return tuple(map(int, version.split("."))) < current_version()


def _run_passes(module: Any, passes: list[str]) -> None:
  _register_passes()
  passmanager.PassManager.parse(f"builtin.module({','.join(passes)})").run(module.operation)


@functools.cache
def _register_passes() -> None:
  stablehlo.register_stablehlo_passes()


def _serialize(module: Any, version: str) -> bytes:
  try:
    return jax.extend.mlir.serialize_portable_artifact(module, version)
  except TypeError:  # Until jax>=0.10.2: the binding took bytecode instead of a module.
    return jax.extend.mlir.serialize_portable_artifact(jax_mlir.module_to_bytecode(module), version)


def from_hlo(hlo: bytes) -> bytes:
  """Returns the StableHLO of a serialized `HloModuleProto` as MLIR bytecode."""
  try:
    return jax.extend.mlir.hlo_to_stablehlo(hlo)
  except Exception as error:
    raise errors.DecodeError(f"HLO module of {len(hlo)} bytes does not convert to StableHLO: {error}") from None
