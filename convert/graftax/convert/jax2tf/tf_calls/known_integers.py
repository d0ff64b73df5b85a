"""Integers that decide shapes, as arguments of a compiled function whose values are known while JAX traces."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from graftax.convert.pytrees import Leaf

__all__ = ["KnownIntegers"]

# Converted functions treat integers of up to this many elements as known.
_MAX_SIZE = 32


@dataclasses.dataclass(frozen=True, slots=True)
class KnownIntegers:
  """Some of the flat arguments of a call, in a form that `jax.jit` accepts as a static argument.

  Attributes:
    arrays: position, dtype, shape and bytes of each.
  """

  arrays: tuple[tuple[int, str, tuple[int, ...], bytes], ...] = ()

  @staticmethod
  def among(arguments: Sequence[Leaf]) -> "KnownIntegers":
    """Returns the short integer arrays that are not JAX arrays."""
    return KnownIntegers(
      tuple((i, x.dtype.str, x.shape, x.tobytes()) for i, x in enumerate(arguments) if _is_short_integers(x))
    )

  def replace(self, arguments: Sequence[Leaf]) -> list[Leaf]:
    """Returns the arguments with the known ones as NumPy arrays."""
    found = list(arguments)
    for position, dtype, shape, data in self.arrays:
      found[position] = np.frombuffer(data, dtype).reshape(shape)
    return found


def _is_short_integers(x: Leaf) -> bool:
  return isinstance(x, np.ndarray) and x.dtype.kind in "iub" and x.ndim <= 1 and x.size <= _MAX_SIZE
