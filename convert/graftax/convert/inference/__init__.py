"""Converted functions whose parameters are fixed: smaller programs for inference.

- `freezing`: `freeze`, the whole rewrite.
- `branches`: Conditionals whose predicate is known.
- `known_parts`: The tensors of a program that depend on constants and fixed parameters alone, and their values.
- `scaling`: Scales and shifts per channel, folded into the filters of convolutions and dots before them.
- `transposes`: Transposes of transposes.
"""

from graftax.convert.inference.freezing import FreezeReport, Frozen, freeze

__all__ = ["FreezeReport", "Frozen", "freeze"]
