"""The dtype that `load(dtype=, keep=)` reads each variable in."""

import fnmatch
from collections.abc import Iterable
from dataclasses import dataclass

import jax
import numpy as np
from jax.typing import DTypeLike

from graftax.graphdef_ir import DType
from graftax.savedmodel_io.errors import CastError
from graftax.savedmodel_io.objects.spec_text import listed

__all__ = ["VariableCast", "variable_cast"]


_REAL = frozenset({DType.HALF, DType.BFLOAT16, DType.FLOAT, DType.DOUBLE})


@dataclass(frozen=True, slots=True)
class VariableCast:
  """Which variables are cast.

  Attributes:
    dtype: a floating type.
    keep: patterns of names of variables that keep their own type.
  """

  dtype: np.dtype
  keep: tuple[str, ...]

  def check_patterns(self, names: Iterable[str]) -> None:
    """Raises if a pattern fits no name, as a misspelled one does.

    Raises:
      CastError: some patterns fit none of the names.
    """
    known = list(names)
    wrong = [pattern for pattern in self.keep if not any(fnmatch.fnmatchcase(name, pattern) for name in known)]
    if wrong:
      raise CastError(
        f"keep={wrong!r} fits no variable; patterns are those of fnmatch, as in '*/bias', for whole names; "
        f"{listed(wrong[0], known)}"
      )

  def target(self, name: str, dtype: DType) -> np.dtype | None:
    """Returns the type to read a variable in, or None for its own."""
    if dtype.base not in _REAL or any(fnmatch.fnmatchcase(name, pattern) for pattern in self.keep):
      return None
    return self.dtype


def variable_cast(dtype: DTypeLike | None, keep: str | Iterable[str]) -> VariableCast | None:
  """Returns the choice of the caller, or None if nothing is cast.

  Args:
    dtype: what `numpy.dtype` takes, or None.
    keep: patterns; one or several.

  Raises:
    CastError: `dtype` is not a floating type, or `keep` is given without it.
  """
  patterns = (keep,) if isinstance(keep, str) else tuple(keep)
  if dtype is None:
    if patterns:
      raise CastError(f"keep={patterns!r} without dtype=: nothing is cast; pass the dtype of the other variables too.")
    return None
  try:
    target = np.dtype(dtype)
  except TypeError as e:
    raise CastError(f"dtype={dtype!r} is not a type of arrays; expected one such as jnp.bfloat16.") from e
  if not jax.numpy.issubdtype(target, np.floating):
    raise CastError(f"dtype={target.name}: variables of real numbers are cast; expected a floating type.")
  return VariableCast(target, patterns)
