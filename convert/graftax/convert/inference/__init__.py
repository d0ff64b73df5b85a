"""Converted functions whose parameters are fixed: smaller programs for inference.

- `freezing`: `freeze`, the whole rewrite.
- `compiling`: `jit_for_inference`, which compiles the smaller program together with its parameters.
- `onednn`: oneDNN, which XLA can call on CPUs.
- `branches`: Conditionals whose predicate is known.
- `known_parts`: The tensors of a program that depend on constants and fixed parameters alone, and their values.
- `scaling`: Scales and shifts per channel, folded into the filters of convolutions and dots before them.
- `transposes`: Transposes of transposes.
"""

from graftax.convert.inference.compiling import jit_for_inference
from graftax.convert.inference.freezing import FreezeReport, Frozen, freeze

__all__ = ["FreezeReport", "Frozen", "freeze", "jit_for_inference"]
