"""Errors raised by conversions and by calls of converted functions."""

from graftax.graphdef_ir.errors import GraftaxError

__all__ = [
  "ConversionError",
  "ForwardModeError",
  "InputError",
  "MissingInputError",
  "ParameterError",
  "TensorFlowNotFoundError",
  "VariableWriteError",
]


class ConversionError(GraftaxError, ValueError):
  """The object cannot be converted: it is not a TensorFlow function, or the arguments do not fit it."""


class ForwardModeError(GraftaxError, NotImplementedError):
  """A custom gradient has no forward mode, because its gradient function is not linear in the cotangents."""


class InputError(GraftaxError, ValueError):
  """A converted function was called with arguments that do not fit its signature."""


class MissingInputError(InputError):
  """A converted function was called without an argument that it needs, such as `rng=` for random ops."""


class ParameterError(GraftaxError, ValueError):
  """The parameters passed to a converted function do not have the names of its variables."""


class TensorFlowNotFoundError(GraftaxError, ImportError):
  """TensorFlow is needed for this operation and is not installed."""


class VariableWriteError(GraftaxError, ValueError):
  """A TensorFlow function that writes variables is called where JAX can only compute values."""
