"""Differential tests against TensorFlow, of single ops and of whole models.

`check_program` compares a TensorFlow function with its conversion; see `graftax.testing.differential`.
"""

from graftax.testing.differential.program import CHECKS, Program
from graftax.testing.differential.runner import CheckResult, ProgramError, check_program, run_program

__all__ = ["CHECKS", "CheckResult", "Program", "ProgramError", "check_program", "run_program"]
