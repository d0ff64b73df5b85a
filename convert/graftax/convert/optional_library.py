"""`optional_library`, around imports of libraries that are extras of a package."""

import contextlib
from collections.abc import Iterator

from graftax.convert.errors import LibraryNotFoundError

__all__ = ["optional_library"]


@contextlib.contextmanager
def optional_library(what: str, requirement: str) -> Iterator[None]:
  """Raises a `LibraryNotFoundError` if an import in the block fails because a library is not installed.

  Args:
    what: what needs the library, for the message.
    requirement: what installs it, such as `"graftax-convert[flax]"`.

  Example:
      >>> with optional_library("plotting", "graftax-convert[plot]"):
      ...   import no_such_library
      Traceback (most recent call last):
      graftax.convert.errors.LibraryNotFoundError: plotting needs no_such_library; pip install 'graftax-convert[plot]'.
  """
  try:
    yield
  except ModuleNotFoundError as e:
    raise LibraryNotFoundError(f"{what} needs {e.name}; pip install '{requirement}'.") from e
