"""The fields of an exported function, from a file or from a live `jax.export.Exported`."""

import dataclasses
from collections.abc import Mapping

from graftax.xla_call_module.signature import Signature

__all__ = ["ExportedFields"]


@dataclasses.dataclass(frozen=True, slots=True)
class ExportedFields:
  """An exported function.

  Attributes:
    signature: what it takes and returns.
    module: its StableHLO, a portable artifact.
    platforms: what it was lowered for, as JAX names them.
    version: the version of the calling convention of `main`.
    disabled_checks: "platform", "shape_assertions" or "custom_call:NAME".
    kept: positions of the inputs that are parameters of `main`.
    gradient: the stored derivative in reverse mode, or None.
    key_words: dtypes of random keys that a live function has and files do not: the shape of the words of one key.
  """

  signature: Signature
  module: bytes
  platforms: tuple[str, ...]
  version: int
  disabled_checks: tuple[str, ...]
  kept: tuple[int, ...]
  gradient: "ExportedFields | None" = None
  key_words: Mapping[str, tuple[int, ...]] = dataclasses.field(default_factory=dict)
