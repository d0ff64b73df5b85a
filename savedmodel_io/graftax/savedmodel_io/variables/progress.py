"""The progress of reading the variables of a function, for `load(progress=)`."""

from collections.abc import Callable
from typing import Any

from graftax.convert import optional_library

__all__ = ["ReadProgress", "read_progress"]

# Any in this module: a bar of tqdm, which ships no type information.

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
