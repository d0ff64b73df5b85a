"""Errors of conversion and of calling a converted function."""

from graftax.graphdef_ir.errors import GraftaxError

__all__ = [
  "ConversionError",
  "ForwardModeError",
  "InputError",
  "MissingInputError",
  "ParameterError",
  "TensorFlowNotFoundError",
]


class ConversionError(GraftaxError, ValueError):
  """What was given cannot be converted: not a TensorFlow function, ambiguous, or without a graph."""


class ForwardModeError(GraftaxError, NotImplementedError):
  """A custom gradient has no forward mode: what its gradient function computes is not linear in the cotangents."""


class InputError(GraftaxError, ValueError):
  """A converted function was called with inputs that do not fit its signature."""


class MissingInputError(InputError):
  """A converted function needs an input that was not given, such as `rng=` for random ops."""


class ParameterError(GraftaxError, ValueError):
  """The parameters given to a converted function are not those it was converted with."""


class TensorFlowNotFoundError(GraftaxError, ImportError):
  """Something was asked for that only TensorFlow can do, and TensorFlow is not installed."""
