"""`optional_library`, around each import of a library that is not a dependency of a package."""

import contextlib
import shlex
from collections.abc import Iterator

from graftax.graphdef_ir.errors import LibraryNotFoundError

__all__ = ["optional_library"]


@contextlib.contextmanager
def optional_library(purpose: str, requirement: str, *, instead: str = "") -> Iterator[None]:
  """Raises a `LibraryNotFoundError` if an import in the block fails.

  Args:
    purpose: what needs the library, for the message.
    requirement: what pip has to install, such as `"graftax-convert[flax]"`.
    instead: what would work without the library, for the message.

  Example:
      >>> with optional_library("a bar", "tqdm"):
      ...   import drawing
      Traceback (most recent call last):
      graftax.graphdef_ir.errors.LibraryNotFoundError: a bar needs drawing, which is not installed; pip install tqdm.
  """
  try:
    yield
  except ImportError as e:
    reason = "is not installed" if isinstance(e, ModuleNotFoundError) else f"cannot be imported ({e})"
    advice = f", or {instead}" if instead else ""
    raise LibraryNotFoundError(
      f"{purpose} needs {e.name or requirement}, which {reason}; pip install {shlex.quote(requirement)}{advice}.",
      name=e.name,
    ) from e
