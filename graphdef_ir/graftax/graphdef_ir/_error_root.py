"""`GraftaxError` and `LimitExceededError`: one class each, although two packages at the bottom define them.

`graftax.graphdef_ir` does not need JAX and `graftax.xla_call_module` needs nothing of TensorFlow, so neither imports
the other. Whichever is imported first keeps its classes in the namespace package `graftax`, and the other one uses
these.
"""

import sys
from typing import TypeVar

__all__ = ["GraftaxError", "LimitExceededError"]

_Class = TypeVar("_Class")


def _one_class(made: type[_Class]) -> type[_Class]:
  """Returns the class of this name that was made first."""
  found: type[_Class] = vars(sys.modules["graftax"]).setdefault(f"_{made.__name__}", made)
  return found


@_one_class
class GraftaxError(Exception):
  """Root of all errors that graftax raises on purpose."""


@_one_class
class LimitExceededError(GraftaxError, ValueError):
  """A file asks for more memory or time than the limits of its load or conversion allow; see `Limits`.

  Modules of StableHLO raise `xla_call_module.LimitExceededError`, which derives from this error.

  Attributes:
    limit: the name of the limit, a field of `Limits`.
    needed: the value that the limit would need to have.
    allowed: the value that it has.
  """

  __module__ = "graftax.graphdef_ir.errors"  # where it is public, for messages and pickles

  def __init__(self, message: str, *, limit: str = "", needed: int = 0, allowed: int = 0):
    super().__init__(message)
    self.limit: str = limit
    self.needed: int = needed
    self.allowed: int = allowed
