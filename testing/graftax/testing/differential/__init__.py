"""Whole TensorFlow programs against what they are converted to: values, transforms, derivatives, state, export.

`check_program` runs one program, yours too; `python -m graftax.testing.differential` runs ours and prints a table, with
`--against tf2jax` beside the same checks on TF2JAX.
"""

from graftax.testing.differential.catalogue import KINDS, all_programs
from graftax.testing.differential.converters import CONVERTERS, Converter
from graftax.testing.differential.program import CHECKS, Program
from graftax.testing.differential.runner import CheckResult, ProgramError, check_program, run_program

__all__ = [
  "CHECKS",
  "CONVERTERS",
  "KINDS",
  "CheckResult",
  "Converter",
  "Program",
  "ProgramError",
  "all_programs",
  "check_program",
  "run_program",
]
