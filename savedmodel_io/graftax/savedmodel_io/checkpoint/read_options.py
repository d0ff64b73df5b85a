"""How a tensor of a checkpoint is read: `ReadOptions`."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

__all__ = ["ReadOptions", "Report"]

Report = Callable[[int], None]
"""Called with the number of bytes of each piece of a file, when it was read."""


@dataclass(frozen=True, slots=True)
class ReadOptions:
  """How a tensor, or a box of it, is read.

  Attributes:
    verify: check the checksum of every stored slice that is read. This reads all bytes of the slice.
    dtype: cast numbers to this type; None keeps the stored one.
    copy: return a copy, so that no page of a mapped file stays in memory beside it.
    report: called while large tensors are read.
  """

  verify: bool
  dtype: np.dtype | None = None
  copy: bool = False
  report: Report | None = None

  def result_dtype(self, stored: np.dtype) -> np.dtype:
    """Returns the type of the result, given that of the file."""
    return stored if self.dtype is None else self.dtype
