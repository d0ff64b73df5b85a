"""Errors raised by conversions and by calls of converted functions."""

from collections.abc import Mapping

from graftax.graphdef_ir.errors import GraftaxError, UnsupportedError

__all__ = [
  "ConversionError",
  "ForwardModeError",
  "InputError",
  "MissingInputError",
  "ParameterError",
  "UnsupportedPrimitiveError",
  "VariableWriteError",
]

# Of an error that lists operations: the lines of Python that are shown for each kind.
_MAX_LINES = 5


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


class VariableWriteError(GraftaxError, ValueError):
  """A TensorFlow function that writes variables is called where JAX can only compute values."""


_CALLBACKS = frozenset({"pure_callback", "io_callback", "debug_callback", "debug_print"})
_ERROR_IF = " Set the environment variable EQX_ON_ERROR=nan before equinox is imported, if equinox.error_if makes them."


class UnsupportedPrimitiveError(UnsupportedError):
  """Primitives of a JAX function have no form in plain TensorFlow ops.

  Attributes:
    found: `(primitive, reason)` -> the line of Python of each equation, sorted.
  """

  def __init__(self, name: str, found: Mapping[tuple[str, str], tuple[str, ...]]):
    self.found = found
    rows = "".join(f"\n  {_row(primitive, reason, lines)}" for (primitive, reason), lines in found.items())
    number = sum(map(len, found.values()))
    super().__init__(
      f"{name}: {number} {'operation has' if number == 1 else 'operations have'} no form in plain TensorFlow ops:{rows}"
      f"\n{_advice({primitive for primitive, _ in found})}"
    )

  def __reduce__(self) -> tuple[object, ...]:
    return _restored, (type(self), self.found, self.args)


def _restored(kind: type[UnsupportedPrimitiveError], found: object, args: tuple[object, ...]) -> object:
  error = kind.__new__(kind, *args)
  error.found = found  # type: ignore[assignment]  # pickled from the attribute itself
  error.args = args
  return error


def _advice(primitives: set[str]) -> str:
  error_if = _ERROR_IF if "pure_callback" in primitives else ""
  if primitives <= _CALLBACKS:
    return f"Remove them: graftax writes no callbacks to Python.{error_if}"
  advice = "Replace them, or use lowering='stablehlo'. A lower gradient_order leaves derivatives out."
  if primitives.isdisjoint(_CALLBACKS):
    return advice
  return f"{advice} No lowering has callbacks to Python: remove them.{error_if}"


def _row(primitive: str, reason: str, lines: tuple[str, ...]) -> str:
  known = [line for line in dict.fromkeys(lines) if line]  # JAX does not know the line of every equation
  places = f"; at {', '.join(known[:_MAX_LINES])}" if known else ""
  more = f", and {len(known) - _MAX_LINES} other lines" if len(known) > _MAX_LINES else ""
  return f"{primitive} ({len(lines)}): {reason}{places}{more}"
