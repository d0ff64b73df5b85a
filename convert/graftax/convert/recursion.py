"""Turns a RecursionError of a conversion or call into the error for programs that are too deep."""

import contextlib
import sys
from collections.abc import Iterator

from graftax.graphdef_ir import LimitExceededError

__all__ = ["recursion_as_limit"]


@contextlib.contextmanager
def recursion_as_limit(name: str) -> Iterator[None]:
  """Returns a context that raises LimitExceededError in place of RecursionError.

  Under transformations, JAX needs ten to twenty Python frames for each function inside another. So Python's own limit
  can be reached before `Limits.depth` is.

  Args:
    name: the name of the program.
  """
  try:
    yield
  except RecursionError as e:
    frames = sys.getrecursionlimit()
    raise LimitExceededError(
      f"{name}: functions, branches and loops are too deep inside each other for Python's limit of {frames} frames. If "
      f"you trust the file, raise it with sys.setrecursionlimit, and limits=Limits(depth=...) if needed.",
      limit="depth",
      needed=2 * frames,
      allowed=frames,
    ) from e
