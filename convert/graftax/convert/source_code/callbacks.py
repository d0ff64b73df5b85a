"""Refuses programs that call back to Python."""

from jax.extend.core import ClosedJaxpr, JaxprEqn

from graftax.convert.jaxprs import nested_equations
from graftax.convert.source_code.errors import SourceError
from graftax.convert.source_lines import source_line

__all__ = ["callback_error", "check_callbacks", "is_callback"]

_OTHERS = ("debug_print", "infeed", "outfeed")


def is_callback(primitive: str) -> bool:
  """Returns whether a primitive runs code of the host."""
  return primitive in _OTHERS or "callback" in primitive


def check_callbacks(closed: ClosedJaxpr) -> None:
  """Raises one error that lists the callbacks of a program and of its loops, branches and calls.

  Raises:
    SourceError: the program has callbacks.
  """
  found = [
    _place(equation, scope) for equation, scope in nested_equations(closed.jaxpr) if is_callback(_name(equation))
  ]
  if found:
    raise callback_error(found)


def callback_error(places: list[str]) -> SourceError:
  """Returns the error of a program that calls back to Python at these places."""
  lines = "".join(f"\n  {place}" for place in dict.fromkeys(places))
  return SourceError(
    f"the program calls back to Python, which is not source of this program:{lines}\n"
    "Convert the part without callbacks, or remove debugging calls."
  )


def _name(equation: JaxprEqn) -> str:
  return str(equation.primitive.name)


def _place(equation: JaxprEqn, scope: str) -> str:
  line = source_line(equation)
  where = [f"in scope {scope!r}"] if scope else []
  where += [f"at {line}"] if line else []
  return " ".join([_name(equation), *where])
