"""MLIR: the only modules that use the MLIR bindings, tested with the JAX versions in `SUPPORTED_JAX`.

- `artifacts`: Writes modules as text and portable artifacts; converts HLO to StableHLO.
- `batching_dims`: Gathers and scatters without batching dimensions.
- `bindings`: MLIR contexts and parsing.
- `decoding`: Decodes an MLIR module into `ir.ModuleIR`.
- `dimension_sizes`: Sizes of dimensions as values of a module.
- `legalization`: Writes modules for runtimes that are older than the installed jaxlib.
- `locations`: Source locations that name operations, without files of the machine that wrote the module.
- `lowering`: Lowering rules of our primitives, and merging a module into the one that is being lowered.
- `one_device`: Collectives of a module that has one device.
- `sharding_annotations`: Sharding annotations in the form that every runtime accepts.
- `sparse_indices`: Clamps the indices that a kernel does not check.
- `specialize`: Derives modules: one with static argument types, or one of a single op.
- `subprocess_worker`: The helper process that parses untrusted modules; run as a script.
"""

from graftax.xla_call_module.mlir.artifacts import from_hlo, serialize, to_text
from graftax.xla_call_module.mlir.bindings import SUPPORTED_JAX, current_version, oldest_version
from graftax.xla_call_module.mlir.decoding import decode_bytes, decode_text, main_result_types
from graftax.xla_call_module.mlir.legalization import legalize
from graftax.xla_call_module.mlir.lowering import (
  inline_into_lowering,
  lower_bitcast,
  lower_cholesky,
  lower_triangular_solve,
  lowering_of,
  lowering_platforms,
  lowers_for_export,
  register_function_lowering,
  register_lowering,
)
from graftax.xla_call_module.mlir.sparse_indices import SPARSE_PRODUCT
from graftax.xla_call_module.mlir.specialize import extract_op, specialize

__all__ = [
  "SPARSE_PRODUCT",
  "SUPPORTED_JAX",
  "current_version",
  "decode_bytes",
  "decode_text",
  "extract_op",
  "from_hlo",
  "inline_into_lowering",
  "lower_bitcast",
  "legalize",
  "lower_cholesky",
  "lower_triangular_solve",
  "lowering_of",
  "lowering_platforms",
  "lowers_for_export",
  "main_result_types",
  "oldest_version",
  "register_function_lowering",
  "register_lowering",
  "serialize",
  "specialize",
  "to_text",
]
