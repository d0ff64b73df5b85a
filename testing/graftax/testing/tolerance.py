"""Tolerances for comparing two implementations of an op, in one table, so that looser bounds are visible."""

import ml_dtypes
import numpy as np

__all__ = ["tolerance"]

# (rtol, atol): a few units in the last place of the type, times the error of a polynomial approximation.
_BY_DTYPE: dict[np.dtype, tuple[float, float]] = {
  np.dtype(np.float64): (1e-12, 1e-13),
  np.dtype(np.complex128): (1e-12, 1e-13),
  np.dtype(np.float32): (1e-5, 1e-6),
  np.dtype(np.complex64): (1e-5, 2e-6),
  np.dtype(np.float16): (2e-3, 1e-3),
  np.dtype(ml_dtypes.bfloat16): (1.6e-2, 8e-3),
  np.dtype(ml_dtypes.float8_e4m3fn): (0.13, 0.02),
  np.dtype(ml_dtypes.float8_e5m2): (0.26, 0.02),
}

# Factors on these for ops that lose more digits than elementwise arithmetic, with the reason.
_BY_OP: dict[str, float] = {
  "Conv2D": 10.0,  # hundreds of products summed in another order
  "Conv3D": 10.0,
  "MatMul": 10.0,
  "BatchMatMulV2": 10.0,
  "Einsum": 10.0,
}


def tolerance(dtype: np.dtype | type, op: str = "") -> tuple[float, float]:
  """Returns the `(rtol, atol)` for `np.testing.assert_allclose` on two implementations of an op.

  Args:
    dtype: element type of the compared arrays; `(0, 0)` for integers, booleans and strings.
    op: TensorFlow op name, for ops that are known to lose more digits.

  Example:
    >>> tolerance(np.int32)
    (0.0, 0.0)
    >>> tolerance(np.float32, "AddV2")
    (1e-05, 1e-06)
  """
  rtol, atol = _BY_DTYPE.get(np.dtype(dtype), (0.0, 0.0))
  factor = _BY_OP.get(op, 1.0)
  return rtol * factor, atol * factor
