"""Errors of the op lowerings; every message says what, where, what was seen and what would work."""

from graftax.graphdef_ir.errors import GraftaxError, UnsupportedError

__all__ = [
  "InvalidInputError",
  "RegistrationError",
  "ShapeChangeError",
  "StaticInputError",
  "UnsupportedAttrError",
  "UnsupportedOpError",
]


class UnsupportedOpError(UnsupportedError):
  """A graph holds ops without a lowering; the message lists every one of them with counts and places."""


class UnsupportedAttrError(UnsupportedError):
  """An op has a lowering, but not for this attribute or this value of it."""


class StaticInputError(UnsupportedError):
  """An input that must be known while tracing depends on traced data."""


class ShapeChangeError(UnsupportedError):
  """An array grows or shrinks in a loop whose number of iterations depends on data."""


class InvalidInputError(GraftaxError, ValueError):
  """An op was given values that TensorFlow refuses too: wrong shape, rank or range."""


class RegistrationError(GraftaxError, ValueError):
  """A lowering's Python signature does not fit the op, or the op is registered already."""
