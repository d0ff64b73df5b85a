"""Compares one function under one transformation with TensorFlow."""

import time
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from graftax.testing._tensorflow import TensorFlow, TfFunction, import_tensorflow
from graftax.testing.call_tf.converters import CONVERTERS
from graftax.testing.call_tf.transformations import TRANSFORMATIONS
from graftax.testing.harness.compare import largest_error
from graftax.testing.harness.conversion_case import ConversionCase
from graftax.testing.harness.errors import error_text
from graftax.testing.harness.results import CheckResult

__all__ = ["TOLERANCE", "check"]

TOLERANCE = 1e-5
"""The largest difference that counts as equal, relative to the largest value, or to 1 if that is smaller."""

_MAX_DETAIL = 300


def check(
  case: ConversionCase, converter: str, transformations: Sequence[str] = tuple(TRANSFORMATIONS)
) -> list[CheckResult]:
  """Returns the results of a function under transformations.

  Args:
    case: the function.
    converter: a key of `CONVERTERS`.
    transformations: keys of `TRANSFORMATIONS`.
  """
  tf = import_tensorflow()
  function = case.build()
  with jax.enable_x64(True):
    converted = CONVERTERS[converter](function)
    return [_check(tf, case, function, converted, name) for name in transformations]


def _check(tf: TensorFlow, case: ConversionCase, function: TfFunction, converted: Any, name: str) -> CheckResult:
  transformation, x = TRANSFORMATIONS[name], case.inputs[0]
  expected = [np.asarray(value) for value in transformation.in_tensorflow(tf, function, x)]
  start = time.perf_counter()
  error, outcome, detail = 0.0, "equal", ""
  try:
    found = [np.asarray(value) for value in jax.jit(lambda x: transformation.in_jax(converted, x))(x)]
    assert all(np.isfinite(want).all() for want in expected), "internal: the functions of the table are finite"
    pairs = list(zip(found, expected, strict=True))
    error = max(largest_error(got, want) for got, want in pairs)
    detail = next((f"dtype {got.dtype} instead of {want.dtype}" for got, want in pairs if got.dtype != want.dtype), "")
    outcome = "wrong" if detail else "equal"
  except Exception as e:
    outcome, detail = "raised", error_text(e, _MAX_DETAIL)
  if not error <= TOLERANCE:
    outcome, detail = "wrong", f"off by {error:.2g} of the largest value"
  seconds = time.perf_counter() - start
  return CheckResult(case.name, case.kind, name, outcome == "equal", detail, seconds, outcome, error)
