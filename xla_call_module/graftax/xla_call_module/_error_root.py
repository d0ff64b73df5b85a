"""`GraftaxError`, the root of every graftax error: one class, although two packages at the bottom define it.

`graftax.graphdef_ir` does not need JAX and `graftax.xla_call_module` needs nothing of TensorFlow, so neither imports
the other. Whichever is imported first keeps its class in the namespace package `graftax`, and the other one uses it.
"""

import sys
from typing import TypeVar

__all__ = ["GraftaxError"]

_Class = TypeVar("_Class")


def _one_class(made: type[_Class]) -> type[_Class]:
  """Returns the class of this name that was made first."""
  found: type[_Class] = vars(sys.modules["graftax"]).setdefault(f"_{made.__name__}", made)
  return found


@_one_class
class GraftaxError(Exception):
  """Root of all errors that graftax raises on purpose."""
