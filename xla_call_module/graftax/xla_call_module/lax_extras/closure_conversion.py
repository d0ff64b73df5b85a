"""Turns closed-over values into arguments, because a parameter of a primitive must not close over tracers."""

import dataclasses
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

from graftax.xla_call_module.lax_extras.arrays import ArrayFunction

__all__ = ["Closed", "closed"]


@dataclasses.dataclass(frozen=True, slots=True)
class Closed:
  """A function without free variables, and the values that it closed over.

  Attributes:
    function: `function(*values, *leaves)` returns the flat results.
    values: the values that the function closed over, traced or not.
    has_effects: whether it has side effects.
  """

  function: ArrayFunction
  values: list[Any]
  has_effects: bool


def closed(function: ArrayFunction, *args: Any) -> Closed:
  """Returns `function` with its closed-over values as explicit arguments.

  Args:
    function: from pytrees of arrays to a pytree of arrays.
    *args: pytrees of arrays or specs.

  Example:
    >>> scale = jax.numpy.array([2.0, 3.0])
    >>> double = closed(lambda x: x * scale, 1.0)
    >>> double.function(*double.values, 10.0)
    [Array([20., 30.], dtype=float32)]
  """
  jaxpr = jax.make_jaxpr(function)(*args)
  num = len(jaxpr.consts)

  def pure(*operands: Any) -> list[Any]:
    return list(jaxpr_as_fun(ClosedJaxpr(jaxpr.jaxpr, list(operands[:num])))(*operands[num:]))

  return Closed(pure, list(jaxpr.consts), bool(jaxpr.effects))
