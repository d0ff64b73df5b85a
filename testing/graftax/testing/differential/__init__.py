"""Compares whole TensorFlow programs with their conversions: values, transforms, derivatives, state and export.

`check_conversion` checks one program of your own. `python -m graftax.testing.differential` checks all programs of this
suite and prints a table; `--against tf2jax` also runs the checks on TF2JAX.
"""

from graftax.testing.differential.case import CHECKS, ConversionCase
from graftax.testing.differential.catalogue import KINDS, all_cases
from graftax.testing.differential.converters import CONVERTERS, Converter
from graftax.testing.differential.runner import CheckResult, ConversionMismatchError, check_conversion, run_case

__all__ = [
  "CHECKS",
  "CONVERTERS",
  "KINDS",
  "CheckResult",
  "Converter",
  "ConversionCase",
  "ConversionMismatchError",
  "all_cases",
  "check_conversion",
  "run_case",
]
