"""Differential tests against TensorFlow, of single ops and of whole models.

`check_conversion` compares a TensorFlow function with its conversion; see `graftax.testing.differential`.
"""

from graftax.testing.differential.runner import ConversionMismatchError, check_conversion, run_case
from graftax.testing.harness.conversion_case import CHECKS, ConversionCase
from graftax.testing.harness.results import CheckResult

__version__ = "0.1.0"

__all__ = ["CHECKS", "CheckResult", "ConversionCase", "ConversionMismatchError", "check_conversion", "run_case"]
