"""The errors this package raises: one root, and beside it the built-in family that tells whose mistake it was."""

__all__ = [
  "ArgumentError",
  "DecodeError",
  "DerivativeError",
  "GuardError",
  "PlatformError",
  "RefinementError",
  "ShapeAssertionError",
  "StableHloError",
  "UnsupportedModuleError",
  "UnsupportedOpError",
  "VersionError",
  "X64Error",
]


class StableHloError(Exception):
  """Root of every error that this package raises on purpose."""


class DecodeError(StableHloError, ValueError):
  """The bytes or the text are not a module: garbage, truncated, or not valid MLIR."""


class VersionError(DecodeError):
  """The artifact is of a version that this package or the installed jaxlib cannot read."""


class GuardError(StableHloError, RuntimeError):
  """The helper process that reads untrusted modules first does not start; the module may well be good."""


class UnsupportedModuleError(StableHloError, NotImplementedError):
  """A valid module uses something, as a whole, that has no counterpart in JAX."""


class UnsupportedOpError(UnsupportedModuleError):
  """One op of a valid module does not lift; `op`, `location` and `reason` say which one, where and why."""

  def __init__(self, message: str, *, op: str = "", location: str = "", reason: str = ""):
    super().__init__(message)
    self.op = op
    self.location = location
    self.reason = reason


class ArgumentError(StableHloError, TypeError, ValueError):
  """The arguments of a call do not match the signature of the module."""


class PlatformError(StableHloError, ValueError):
  """The module was not lowered for the platform it is about to run on."""


class RefinementError(StableHloError, ValueError):
  """The shapes of a polymorphic module cannot be refined to those of the arguments."""


class ShapeAssertionError(StableHloError, ValueError):
  """A shape assertion that the exporter recorded in the module does not hold for the arguments."""


class X64Error(StableHloError, ValueError):
  """The module computes in 64 bits and 64-bit types are disabled in JAX."""


class DerivativeError(StableHloError, NotImplementedError):
  """The value of an op lifts but no derivative of it is known."""
