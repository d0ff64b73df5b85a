"""Differences between the outputs of two frameworks."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from graftax.testing.harness.compare import is_inexact, unequal
from graftax.testing.tolerance import tolerance

__all__ = ["Difference", "differences"]

_MAX_DETAIL = 300


@dataclasses.dataclass(frozen=True, slots=True)
class Difference:
  """One way in which a case differs from TensorFlow.

  Attributes:
    kind: "count", "dtype", "shape", "value", "gradient", "died" (or hangs), "refused" (a typed error) or "raised" (any
      other); of the last two, "gradient refused" and "gradient raised" if only the gradient does.
    detail: what was seen.
    error: largest error of the elements that are finite in both and differ, relative to the largest finite element of
      TensorFlow's output; infinite if shapes or dtypes differ.
    undefined: whether an element is NaN or infinite in one of the two and different in the other.
  """

  kind: str
  detail: str
  error: float = float("inf")
  undefined: bool = False


def differences(
  op: str, kind: str, actual: Sequence[Any], expected: Sequence[np.ndarray], factor: float = 1.0
) -> list[Difference]:
  """Returns how outputs differ; NaN equals NaN, and integers must be equal.

  Args:
    op: selects the tolerance.
    kind: kind of a difference in values.
    actual: our outputs.
    expected: TensorFlow's.
    factor: multiplies the tolerance.
  """
  if len(actual) != len(expected):
    return [Difference("count", f"{len(actual)} outputs, TensorFlow has {len(expected)}")]
  found = []
  for index, (got, want) in enumerate(zip(map(np.asarray, actual), expected, strict=True)):
    if got.dtype != want.dtype:
      found.append(
        Difference("dtype" if kind == "value" else kind, f"output {index}: {got.dtype}, TensorFlow has {want.dtype}")
      )
    elif got.shape != want.shape:
      found.append(
        Difference("shape" if kind == "value" else kind, f"output {index}: {got.shape}, TensorFlow has {want.shape}")
      )
    elif (where := unequal(got, want, *(factor * t for t in tolerance(want.dtype, op)))).any():
      detail = f"output {index}: {got[where].tolist()!r}, TensorFlow has {want[where].tolist()!r}"
      detail = f"{detail[:_MAX_DETAIL]} at {np.argwhere(where)[:3].tolist()} of {want.shape}"
      found.append(Difference(kind, detail, *_severity(got[where], want[where], want)))
  return found


def _severity(got: np.ndarray, want: np.ndarray, whole: np.ndarray) -> tuple[float, bool]:
  """Returns `error` and `undefined` of elements that differ; `whole` is the output they are from."""
  if not is_inexact(whole.dtype):
    return float("inf"), False
  wide = np.complex128 if whole.dtype.kind == "c" else np.float64
  got, want, whole = (x.astype(wide) for x in (got, want, whole))
  finite = np.isfinite(got) & np.isfinite(want)
  with np.errstate(all="ignore"):
    error = np.abs(got[finite] - want[finite]).max(initial=0.0) / np.abs(whole[np.isfinite(whole)]).max(initial=1e-300)
  return float(error), not finite.all()
