"""The progress of reading the variables of a function, for `load(progress=)`."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from graftax.graphdef_ir import optional_library
from graftax.savedmodel_io.checkpoint.read_options import Report

__all__ = ["ReadProgress", "VariablesProgress", "read_progress"]

ReadProgress = Callable[[int, int], None]
"""Called with the number of bytes read so far and the total."""


def read_progress(progress: ReadProgress | bool | None) -> ReadProgress | None:
  """Returns what to call while variables are read, or None; True is a bar of tqdm.

  Raises:
    LibraryNotFoundError: tqdm is not installed.
  """
  if progress is None or progress is False:
    return None
  if progress is not True:
    return progress
  with optional_library("load(progress=True)", "graftax-savedmodel-io[progress]"):
    from tqdm.auto import tqdm

  bar: Any = None

  def show(num_bytes: int, total: int) -> None:
    nonlocal bar
    if bar is None:
      bar = tqdm(total=total, desc="reading variables", unit="B", unit_scale=True)
    bar.update(num_bytes - bar.n)
    if num_bytes >= total:
      bar.close()
      bar = None  # the next conversion shows a new one

  return show


class VariablesProgress:
  """Adds up what was read of several variables.

  Args:
    progress: what to call; None shows nothing.
    total: the number of bytes of all of them.
  """

  def __init__(self, progress: ReadProgress | None, total: int):
    self._progress = progress
    self._total = total
    self._before = 0

  @contextlib.contextmanager
  def of_variable(self, num_bytes: int) -> Iterator[Report | None]:
    """Reports a variable of that size as read at the end of the block, and its pieces as they are given."""
    if self._progress is None:
      yield None
      return
    progress, before, num_read = self._progress, self._before, 0

    def report(num_more: int) -> None:
      nonlocal num_read
      # The bytes of a variable may be read twice: for its checksum, and for the parts that devices hold.
      num_read = min(num_read + num_more, num_bytes)
      progress(before + num_read, self._total)

    yield report
    self._before += num_bytes
    if num_read < num_bytes or not num_bytes:
      progress(self._before, self._total)
