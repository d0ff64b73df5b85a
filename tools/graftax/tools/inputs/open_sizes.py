"""What to do about a model that cannot be traced with open sizes."""

import re
from collections.abc import Callable, Mapping
from typing import Any

import jax

from graftax.ops_jax import InconclusiveError
from graftax.tools.inputs.shape_options import example_size

__all__ = ["is_traced", "open_sizes_advice", "with_numbers"]

# How JAX writes a size that is cut off at a limit, and the condition under which it is not.
_LIMITED = re.compile(r"\b(min|max)\((\w+), (\d+)\)|\b(min|max)\((\d+), (\w+)\)")
_KEPT = {"min": "<=", "max": ">="}


def open_sizes_advice(
  error: Exception, call: Callable[..., Any], arguments: Mapping[str, jax.ShapeDtypeStruct], *others: Any
) -> str:
  """Returns options that would help, or "" if open sizes are not the reason.

  Args:
    error: what tracing raised.
    call: takes the arguments by name, as one dict, and others; it is traced with numbers in place of the open sizes,
      which tells whether they are the reason.
    arguments: a shape and dtype for each.
    others: shapes and dtypes of the other arguments.
  """
  symbols = sorted({str(size) for a in arguments.values() for size in a.shape if not isinstance(size, int)})
  is_undecided = isinstance(error, InconclusiveError)
  if not symbols or not (is_undecided or is_traced(call, {n: with_numbers(a) for n, a in arguments.items()}, *others)):
    return ""
  advice = f"Give numbers in place of the open sizes {', '.join(symbols)}, with --batch 8 or --shape NAME=8,224,224,3"
  condition = _condition(str(error), symbols, is_undecided)
  return f"{advice}, or say what holds for them, as with --constraint '{condition}'." if condition else f"{advice}."


def _condition(text: str, symbols: list[str], is_undecided: bool) -> str:
  """Returns a condition with which the sizes in an error may be decided; "" if none is known."""
  for match in _LIMITED.finditer(text):
    operator, symbol, limit = match.group(1, 2, 3) if match[1] else match.group(4, 6, 5)
    if symbol in symbols:
      return f"{symbol}{_KEPT[operator]}{limit}"
  named = next((s for s in symbols if re.search(rf"\b{re.escape(s)}\b", text)), symbols[0])
  return f"{named}>=2" if is_undecided else ""


def is_traced(call: Callable[..., Any], *args: Any) -> bool:
  """Returns whether a function can be traced with arrays of these shapes and dtypes."""
  try:
    jax.eval_shape(call, *args)
  except Exception:  # the error that is being reported, or another
    return False
  return True


def with_numbers(argument: jax.ShapeDtypeStruct) -> jax.ShapeDtypeStruct:
  """Returns the shape with numbers in place of open sizes."""
  sizes = [size if isinstance(size, int) else example_size(str(size)) for size in argument.shape]
  return jax.ShapeDtypeStruct(tuple(sizes), argument.dtype)
