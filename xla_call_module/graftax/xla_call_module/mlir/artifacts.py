"""Writes modules as text and portable artifacts, and converts HLO to StableHLO."""

from typing import Any

import jax.extend.mlir
import jax.interpreters.mlir as jax_mlir
from jax.extend.mlir.dialects import stablehlo

from graftax.xla_call_module import errors, jax_versions
from graftax.xla_call_module.mlir.bindings import mlir_context, parse

__all__ = ["from_hlo", "serialize", "to_text", "write_artifact"]


def to_text(data: bytes | str) -> str:
  """Returns the module as text with source locations.

  Example:
    >>> artifact = serialize("func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> { return %x : tensor<3xf32> }")
    >>> "func.func @main(%arg0: tensor<3xf32>" in to_text(artifact)
    True
  """
  with mlir_context() as messages:
    return str(parse(data, messages).operation.get_asm(enable_debug_info=True))


def serialize(data: bytes | str, *, version: str | None = None) -> bytes:
  """Returns the module as a StableHLO portable artifact.

  Args:
    data: a portable artifact, MLIR bytecode, or text.
    version: the version of StableHLO to write, such as "1.8.0"; None writes `current_version()`.

  Raises:
    DecodeError: the data is damaged or does not verify.
    VersionError: the module has an op that `version` lacks, or jaxlib does not write `version`.

  Example:
    >>> text = "func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> { return %x : tensor<3xf32> }"
    >>> b"StableHLO_v1.0.0" in serialize(text, version="1.0.0")
    True
  """
  with mlir_context() as messages:
    module = parse(data, messages)
    try:
      return write_artifact(module, version or stablehlo.get_current_version())
    except Exception as error:
      raise errors.VersionError(
        f"module cannot be written as StableHLO {version}: {'; '.join(messages[:3]) or error}"
      ) from None


def write_artifact(module: Any, version: str) -> bytes:
  """Returns an MLIR module of the current context as a portable artifact."""
  serialize_module = jax.extend.mlir.serialize_portable_artifact
  return jax_versions.portable_artifact(serialize_module, jax_mlir.module_to_bytecode, module, version)


def from_hlo(hlo: bytes) -> bytes:
  """Returns the StableHLO of a serialized `HloModuleProto` as MLIR bytecode.

  Args:
    hlo: the bytes of the message.

  Raises:
    DecodeError: the bytes are damaged, or have something that StableHLO does not express.
  """
  try:
    return jax.extend.mlir.hlo_to_stablehlo(hlo)
  except Exception as error:
    raise errors.DecodeError(f"HLO module of {len(hlo)} bytes does not convert to StableHLO: {error}") from None
