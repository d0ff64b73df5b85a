"""Compares whole TensorFlow programs with their conversions: values, transforms, derivatives, state and export.

`check_conversion` checks one program of your own. In a checkout, `python -m graftax.testing.differential` checks all
programs of this project's suite and prints a table; `--against tf2jax` also runs the checks on TF2JAX.
"""

import importlib
import warnings
from typing import Any

from graftax.testing.differential.converters import CONVERTERS, Converter
from graftax.testing.differential.runner import ConversionMismatchError, check_conversion, run_case
from graftax.testing.harness.conversion_case import CHECKS, ConversionCase
from graftax.testing.harness.results import CheckResult

__all__ = [
  "CHECKS",
  "CONVERTERS",
  "CheckResult",
  "Converter",
  "ConversionCase",
  "ConversionMismatchError",
  "check_conversion",
  "run_case",
]


def __getattr__(name: str) -> Any:
  if name not in ("KINDS", "all_cases"):
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
  warnings.warn(
    f"{__name__}.{name} is in `graftax.testing.tensorflow_programs.catalogue`, which no wheel has.",
    DeprecationWarning,
    stacklevel=2,
  )
  return getattr(importlib.import_module("graftax.testing.tensorflow_programs.catalogue"), name)
