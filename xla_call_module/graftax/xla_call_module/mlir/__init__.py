"""The one folder that touches MLIR bindings: bytes or text to our IR, refinement, merging into a lowering, serializing.

Checked on the JAX versions listed in `SUPPORTED_JAX`.
"""

from graftax.xla_call_module.mlir.artifacts import from_hlo, serialize, to_text
from graftax.xla_call_module.mlir.bindings import SUPPORTED_JAX, current_version, oldest_version
from graftax.xla_call_module.mlir.decoding import decode_bytes, decode_text, main_result_types
from graftax.xla_call_module.mlir.lowering import (
  inline_into_lowering,
  lowering_platforms,
  register_function_lowering,
  register_lowering,
)
from graftax.xla_call_module.mlir.specialize import extract_op, specialize

__all__ = [
  "SUPPORTED_JAX",
  "current_version",
  "decode_bytes",
  "decode_text",
  "extract_op",
  "from_hlo",
  "inline_into_lowering",
  "lowering_platforms",
  "main_result_types",
  "oldest_version",
  "register_function_lowering",
  "register_lowering",
  "serialize",
  "specialize",
  "to_text",
]
