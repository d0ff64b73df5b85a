"""Compares whole TensorFlow programs with their conversions: values, transforms, derivatives, state and export.

`check_program` checks one program of your own. `python -m graftax.testing.differential` checks all programs of this
suite and prints a table; `--against tf2jax` also runs the checks on TF2JAX.
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
