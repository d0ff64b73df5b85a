"""What a function closes over, made explicit: primitives that carry a function cannot close over traced values."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

__all__ = ["Closed", "closed"]

Function = Callable[..., Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Closed:
  """A function and what it closes over, apart.

  Attributes:
    function: `function(*values, *leaves)` gives the flat results.
    values: what the function closed over, traced or not.
    has_effects: whether it does anything but compute its results.
  """

  function: Function
  values: list[Any]
  has_effects: bool


def closed(function: Function, *args: Any) -> Closed:
  """`function` with what it closes over made explicit.

  Args:
    function: from pytrees of arrays to a pytree of arrays.
    *args: pytrees of arrays or specs.
  """
  jaxpr = jax.make_jaxpr(function)(*args)
  num = len(jaxpr.consts)

  def pure(*operands: Any) -> list[Any]:
    return list(jaxpr_as_fun(ClosedJaxpr(jaxpr.jaxpr, list(operands[:num])))(*operands[num:]))

  return Closed(pure, list(jaxpr.consts), bool(jaxpr.effects))
