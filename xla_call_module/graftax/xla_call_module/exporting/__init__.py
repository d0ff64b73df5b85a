"""JAX functions as the StableHLO modules that an XlaCallModule node of TensorFlow runs.

- `bit_patterns`: Bits of numbers read as numbers of another width, for open sizes.
- `custom_call_targets`: The table of custom calls that TensorFlow runs, by release.
- `custom_calls`: Errors for custom calls that the TensorFlow of a target does not run.
- `export`: Exports a JAX function for a version of TensorFlow.
- `linear_algebra`: Lowering rules for linear algebra that every XLA compiles.
- `random_bits`: Random bits from ops that every XLA compiles.
- `reversible_loops`: Reverse mode for functions with loops of unknown length.
- `target`: The versions of StableHLO and of the calling convention that a TensorFlow reads.
- `tensorflow_versions`: The table of these versions, by release of TensorFlow.
"""

from graftax.xla_call_module.exporting.export import CallModule, checks_of_unstable_calls, export_call_module
from graftax.xla_call_module.exporting.reversible_loops import reversible
from graftax.xla_call_module.exporting.target import Target

__all__ = ["CallModule", "Target", "checks_of_unstable_calls", "export_call_module", "reversible"]
