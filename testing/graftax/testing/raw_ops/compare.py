"""Comparison of the outputs of a lowering with those of TensorFlow."""

from collections.abc import Sequence

import jax
import numpy as np

from graftax.ops_jax import Value
from graftax.testing.tolerance import tolerance as default_tolerance

__all__ = ["Tolerance", "compare", "compare_values", "loosened"]

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
    if got.dtype != want.dtype:
      raise AssertionError(f"{where}: dtype {got.dtype}, TensorFlow has {want.dtype}")
    if got.shape != want.shape:
      raise AssertionError(f"{where}: shape {got.shape}, TensorFlow has {want.shape}")
    compare_values(where, np.asarray(got), want, tolerance or default_tolerance(want.dtype, op))


def compare_values(where: str, got: np.ndarray, want: np.ndarray, tolerance: Tolerance) -> None:
  rtol, atol = tolerance
  if want.dtype == object or want.dtype == bool or (rtol == 0 and atol == 0):
    np.testing.assert_array_equal(got, want, err_msg=where)
  else:
    wide = np.complex128 if want.dtype.kind == "c" else np.float64
    np.testing.assert_allclose(got.astype(wide), want.astype(wide), rtol=rtol, atol=atol, err_msg=where)


def loosened(tolerance: Tolerance) -> Tolerance:
  return 10 * tolerance[0], 10 * tolerance[1]
