"""Errors that lowerings and kernels raise."""

from graftax.graphdef_ir.errors import GraftaxError, UnsupportedError

__all__ = [
  "InvalidInputError",
  "RegistrationError",
  "ShapeChangeError",
  "SizeBoundError",
  "StaticInputError",
  "UnsupportedAttrError",
  "UnsupportedOpError",
]


class UnsupportedOpError(UnsupportedError):
  """A graph contains ops without a lowering; the message lists all of them with counts and places."""


class UnsupportedAttrError(UnsupportedError):
  """An op's lowering does not support an attribute, or a value of it."""


class StaticInputError(UnsupportedError):
  """An input that must be known while tracing depends on traced data."""


class ShapeChangeError(UnsupportedError):
  """An array grows or shrinks in a loop whose number of iterations depends on data."""


class InvalidInputError(GraftaxError, ValueError):
  """An op received values of a wrong shape, rank or range; TensorFlow raises for them too."""


class SizeBoundError(GraftaxError, ValueError):
  """An array has more elements than the bound of its size allows."""


class RegistrationError(GraftaxError, ValueError):
  """A lowering's Python signature does not fit the op, or the op is registered already."""
