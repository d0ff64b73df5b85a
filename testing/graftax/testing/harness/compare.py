"""When two arrays are equal, and by how much they differ: one rule for NaN, infinity, scale and dtype.

Two elements are equal if they are the same, if both are NaN, or if both are finite and at most `atol + rtol * |want|`
apart. So infinities and NaN must be at the same places. The parts of a complex number are compared one by one only if
one of them is NaN, with the same bound. Numbers that are not of floating point are compared exactly unless a tolerance
is given, strings and bools always.
"""

import math
from typing import Any

import jax.numpy as jnp
import numpy as np

__all__ = ["Difference", "check_equal", "difference", "is_inexact", "largest_error", "scale_of", "unequal"]


class Difference(AssertionError):
  """Two results differ; the message says where and by how much."""


def is_inexact(dtype: Any) -> bool:
  """Returns whether a dtype holds real or complex numbers of floating point, short ones included."""
  return bool(jnp.issubdtype(dtype, jnp.inexact))


def unequal(got: np.ndarray, want: np.ndarray, rtol: float = 0.0, atol: float = 0.0) -> np.ndarray:
  """Returns which elements differ, for arrays of one shape.

  Args:
    got: what is tested, any dtype.
    want: what the oracle says. Where it is NaN, `got` must be, too; a complex number that is NaN is compared by parts.
    rtol: tolerance relative to the size of `want`. Tolerances do not apply to text and bools.
    atol: absolute tolerance.

  Returns:
    Bools of the same shape.

  Example:
    >>> unequal(np.float32([1, np.nan]), np.float32([1.1, np.nan]), atol=0.2)
    array([False, False])
  """
  is_exact = rtol == 0 and atol == 0 and not is_inexact(want.dtype)
  if is_exact or want.dtype == bool or want.dtype.kind in "OSU":
    return np.asarray(got != want)
  got, want = _wide(got, want)
  if want.dtype.kind != "c":
    return ~_close(got, want, rtol, atol, np.abs(want))
  with np.errstate(invalid="ignore", over="ignore"):
    size = np.abs(np.where(np.isfinite(want), want, 0))
  same_parts = _close(got.real, want.real, rtol, atol, size) & _close(got.imag, want.imag, rtol, atol, size)
  return ~(_close(got, want, rtol, atol, size) & ~np.isnan(want) | same_parts & np.isnan(want))


def largest_error(got: np.ndarray, want: np.ndarray) -> float:
  """Returns the largest difference over the largest finite value, or over 1 if that is smaller.

  It is infinite if the shapes differ, if NaN or infinities are at other places, or if elements differ and neither array
  is of floating point, or one holds text or objects. Dtypes are not compared, since a runtime may have shorter ones.

  Args:
    got: what is tested, any dtype.
    want: what the oracle says. Its largest finite value is the scale.

  Example:
    >>> largest_error(np.float64([1, 11]), np.float64([1, 10]))
    0.1
  """
  if got.shape != want.shape:
    return math.inf
  is_text = [array.dtype.kind in "OSU" for array in (got, want)]
  if any(is_text) or not (is_inexact(got.dtype) or is_inexact(want.dtype)):
    return 0.0 if all(is_text) == any(is_text) and not np.asarray(got != want).any() else math.inf
  got, want = _wide(got, want)
  finite = np.isfinite(want)
  if not np.array_equal(np.isfinite(got), finite) or unequal(got[~finite], want[~finite]).any():
    return math.inf
  return float(np.abs(got[finite] - want[finite]).max(initial=0.0)) / scale_of(want)


def scale_of(want: np.ndarray) -> float:
  """Returns the largest finite absolute value, or 1 if that is smaller.

  Example:
    >>> scale_of(np.float32([-20, np.inf])), scale_of(np.float32([0.5]))
    (20.0, 1.0)
  """
  (want,) = _wide(want)
  return max(1.0, float(np.abs(want[np.isfinite(want)]).max(initial=0.0)))


def difference(
  got: np.ndarray, want: np.ndarray, rtol: float = 0.0, atol: float = 0.0, dtype: np.dtype | None = None
) -> str:
  """Returns how dtype, shape or values differ; an empty string if they do not.

  Args:
    got: what is tested.
    want: what the oracle says.
    rtol: relative tolerance.
    atol: absolute tolerance.
    dtype: the dtype that `got` must have, if it is not that of `want`. Values are compared without a cast to it.

  Example:
    >>> difference(np.float32([1, 2]), np.float32([1, 3]))
    '1 of 2 elements differ, first at [1]: np.float32(2.0) instead of np.float32(3.0)'
  """
  if got.dtype != (want.dtype if dtype is None else dtype):
    return f"dtype {got.dtype} instead of {want.dtype if dtype is None else dtype}"
  if got.shape != want.shape:
    return f"shape {got.shape} instead of {want.shape}"
  where = unequal(got, want, rtol, atol)
  if not where.any():
    return ""
  places = f"first at {np.argwhere(where)[0].tolist()}: {got[where][0]!r} instead of {want[where][0]!r}"
  if rtol == 0 and atol == 0:
    return f"{where.sum()} of {want.size} elements differ, {places}"
  wide_got, wide_want = _wide(got, want)
  with np.errstate(all="ignore"):
    error = np.nanmax(np.abs(wide_got - wide_want)[where], initial=0.0)
  return f"off by up to {error:.3g} where values go up to {scale_of(want):.3g} (rtol={rtol:g}, atol={atol:g}), {places}"


def check_equal(
  where: str,
  got: np.ndarray,
  want: np.ndarray,
  rtol: float = 0.0,
  atol: float = 0.0,
  dtype: np.dtype | None = None,
) -> None:
  """Checks that dtype, shape and values are equal; see `difference`.

  Args:
    where: the beginning of the error message: which result it is.
    got: what is tested.
    want: what the oracle says.
    rtol: relative tolerance; with both tolerances 0, values must be equal.
    atol: absolute tolerance.
    dtype: the dtype that `got` must have, if it is not that of `want`.

  Raises:
    Difference: they are not; the message begins with `where`.

  Example:
    >>> check_equal("result 0", np.float32([1, 2]), np.float32([1, 2.001]), rtol=1e-2)
  """
  found = difference(got, want, rtol, atol, dtype)
  if found:
    raise Difference(f"{where}: {found}")


def _wide(*arrays: np.ndarray) -> tuple[np.ndarray, ...]:
  kind = np.complex128 if any(array.dtype.kind == "c" for array in arrays) else np.float64
  return tuple(array.astype(kind) for array in arrays)


def _close(got: np.ndarray, want: np.ndarray, rtol: float, atol: float, size: np.ndarray) -> np.ndarray:
  with np.errstate(invalid="ignore", over="ignore"):
    near = (np.abs(got - want) <= atol + rtol * size) & np.isfinite(want) & np.isfinite(got)
  return np.asarray(near | (got == want) | (np.isnan(got) & np.isnan(want)))
