"""Errors that lowerings and kernels raise."""

import dataclasses
import functools
from collections.abc import Iterable
from typing import Any

from graftax.graphdef_ir.errors import GraftaxError, UnsupportedError

__all__ = [
  "InvalidInputError",
  "LoopBoundError",
  "MissingBoundError",
  "MissingOp",
  "RegistrationError",
  "ShapeChangeError",
  "SizeBoundError",
  "StaticInputError",
  "UnsupportedAttrError",
  "UnsupportedOpError",
  "as_invalid_input",
]

# What Python, NumPy and JAX raise for shapes, types and values that do not fit. Classes derived from them mean more,
# such as that a value is traced, and stay as they are.
_OF_BAD_INPUTS = frozenset({TypeError, ValueError, IndexError, KeyError, OverflowError, ZeroDivisionError})


@dataclasses.dataclass(frozen=True, slots=True)
class MissingOp:
  """An op that a program needs and that is not implemented, or something else that JAX cannot hold.

  Attributes:
    op: its name in TensorFlow; what it is if it is not an op, such as a table that is read from a file.
    nodes: `(node, function)` of all nodes that need it.
    reason: why it is not implemented, or "" if nothing is known.
    remedy: what to do about it.
  """

  op: str
  nodes: tuple[tuple[str, str], ...] = ()
  reason: str = ""
  remedy: str = ""


class UnsupportedOpError(UnsupportedError):
  """A graph contains ops without a lowering; the message lists all of them with counts and places.

  Attributes:
    ops: the same as data. Empty if an op has a lowering that does not handle this use of it.
  """

  def __init__(self, message: str, *, ops: Iterable[MissingOp] = ()):
    super().__init__(message)
    self.ops: tuple[MissingOp, ...] = tuple(ops)


class UnsupportedAttrError(UnsupportedError):
  """An op's lowering does not support an attribute, or a value of it."""


class StaticInputError(UnsupportedError):
  """An input that must be known while tracing depends on traced data."""


class MissingBoundError(StaticInputError):
  """A size depends on traced data, and neither shapes nor the option `max_sizes` bound it.

  Attributes:
    node: the name of the node that makes the array.
  """

  def __init__(self, message: str, node: str = ""):
    super().__init__(message)
    self.node = node


class ShapeChangeError(UnsupportedError):
  """An array grows or shrinks in a loop whose number of iterations depends on data."""


class LoopBoundError(MissingBoundError, ShapeChangeError):
  """A loop variable whose size depends on data grows, and the option `max_sizes` does not bound it."""


class InvalidInputError(GraftaxError, ValueError):
  """An op received values of a wrong shape, rank or range; TensorFlow raises for them too."""


class SizeBoundError(GraftaxError, ValueError):
  """An array has more elements than the bound of its size allows."""


class RegistrationError(GraftaxError, ValueError):
  """A lowering's Python signature does not fit the op, or the op is registered already."""


def as_invalid_input(error: Exception, where: str) -> InvalidInputError | None:
  """Returns the `InvalidInputError` for what a built-in lowering raised for inputs that do not fit together.

  The result is an instance of the class of `error`, too. None if `error` says more already.

  Args:
    error: what the lowering raised.
    where: the node.
  """
  if type(error) not in _OF_BAD_INPUTS and not isinstance(error, UnicodeError):
    return None
  text = " ".join(str(error).split()) or type(error).__name__
  kind: Any = ValueError if isinstance(error, UnicodeError) else type(error)
  return _as_invalid_input(kind)(f"{where}: the inputs or attributes do not fit the op: {text}")


@functools.cache
def _as_invalid_input(kind: Any) -> type[InvalidInputError]:
  # Any: mypy does not accept a base that is a variable.
  if issubclass(InvalidInputError, kind):
    return InvalidInputError

  def reduce(error: InvalidInputError) -> tuple[Any, ...]:
    return _restored, (kind, error.args), error.__dict__

  members = {"__doc__": InvalidInputError.__doc__, "__str__": Exception.__str__, "__reduce__": reduce}
  return type(InvalidInputError.__name__, (InvalidInputError, kind), members)


def _restored(kind: Any, args: tuple[object, ...]) -> InvalidInputError:
  return _as_invalid_input(kind)(*args)
