"""Comparison of the outputs of a lowering with those of TensorFlow."""

from collections.abc import Sequence

import jax
import numpy as np

from graftax.ops_jax import Value
from graftax.testing.harness.compare import check_equal
from graftax.testing.tolerance import tolerance as default_tolerance

__all__ = ["Tolerance", "compare", "loosened"]

Tolerance = tuple[float, float]
"""`(rtol, atol)`."""


def compare(
  op: str, tolerance: Tolerance | None, mode: str, actual: Sequence[Value], expected: Sequence[np.ndarray]
) -> None:
  """Compares the number of outputs, their dtypes, shapes and values."""
  if len(actual) != len(expected):
    raise AssertionError(f"{op} ({mode}): {len(actual)} outputs, TensorFlow has {len(expected)}")
  for index, (got, want) in enumerate(zip(actual, expected, strict=True)):
    where = f"{op} ({mode}), output {index}"
    if not isinstance(got, (np.ndarray, np.generic, jax.Array)):
      raise AssertionError(f"{where}: {type(got).__name__} is neither a numpy nor a JAX array")
    check_equal(where, np.asarray(got), want, *(tolerance or default_tolerance(want.dtype, op)))


def loosened(tolerance: Tolerance) -> Tolerance:
  return 10 * tolerance[0], 10 * tolerance[1]
