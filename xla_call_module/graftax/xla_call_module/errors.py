"""The errors of this package. Each derives from `StableHloError` and from the built-in class that fits its cause.

`StableHloError` is a `GraftaxError`, as are the errors of all other packages.
"""

from graftax.xla_call_module._error_root import GraftaxError
from graftax.xla_call_module._error_root import LimitExceededError as AnyLimitExceededError

__all__ = [
  "ArgumentError",
  "CustomCallError",
  "DecodeError",
  "DerivativeError",
  "GraftaxError",
  "GuardError",
  "LiftError",
  "LimitExceededError",
  "PlatformError",
  "RefinementError",
  "ShapeAssertionError",
  "StableHloError",
  "UnsupportedModuleError",
  "VersionError",
  "X64Error",
]


class StableHloError(GraftaxError):
  """Base class of all errors that this package raises intentionally."""


class DecodeError(StableHloError, ValueError):
  """The bytes or the text are not a valid module: damaged, truncated, or not valid MLIR."""


class VersionError(DecodeError):
  """This package or the installed jaxlib cannot read the version of the artifact."""


class LimitExceededError(StableHloError, AnyLimitExceededError):
  """A module asks for more memory or time than `Limits` allows.

  It is also a `graphdef_ir.LimitExceededError`, so one `except` is enough for a model and the modules in it.

  Attributes:
    limit: the name of the limit, a field of `Limits`.
    needed: the value that the limit would need to have.
    allowed: the value that it has.
  """


class GuardError(StableHloError, RuntimeError):
  """The helper process that checks untrusted modules does not start; the module itself may be valid."""


class UnsupportedModuleError(StableHloError, NotImplementedError):
  """A valid module uses a feature that has no counterpart in JAX."""


class LiftError(UnsupportedModuleError):
  """An op of a valid module does not lift; see the attributes `op`, `location` and `reason`."""

  def __init__(self, message: str, *, op: str = "", location: str = "", reason: str = ""):
    super().__init__(message)
    self.op = op
    self.location = location
    self.reason = reason


class CustomCallError(LiftError, ValueError):
  """A custom call has a target without a rule, or types and settings that the target does not accept; see `target`."""

  def __init__(self, message: str, *, target: str = "", op: str = "", location: str = "", reason: str = ""):
    super().__init__(message, op=op, location=location, reason=reason)
    self.target = target


class ArgumentError(StableHloError, TypeError, ValueError):
  """The arguments of a call do not match the signature of the module."""


class PlatformError(StableHloError, ValueError):
  """The module was not lowered for the platform on which it would run."""


class RefinementError(StableHloError, ValueError):
  """The shapes of a polymorphic module cannot be refined to those of the arguments."""


class ShapeAssertionError(StableHloError, ValueError):
  """The arguments violate a shape assertion of the module."""


class X64Error(StableHloError, ValueError):
  """The module computes in 64 bits and 64-bit types are disabled in JAX."""


class DerivativeError(StableHloError, NotImplementedError):
  """An op lifts, but its derivative is not known."""
