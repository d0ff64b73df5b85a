"""Programs without calls around their contractions, in the forms that oneDNN computes fastest.

A convolution whose window is one pixel is a matrix product. XLA leaves convolutions of all sizes to oneDNN, which takes
8 us for each call, but computes small products itself: one pixel of 32 and 8 channels takes 2 instead of 12 us.
Networks have many of these where they weight their channels. Larger ones take as long in both forms, and narrow dtypes
would be rounded more often.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import ParamSpec, TypeVar

import jax
import numpy as np
from jax import lax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn

from graftax.xla_call_module.jax_versions import Operand
from graftax.xla_call_module.jaxprs import array_type, as_closed, bound, evaluated, has_primitives, inner_jaxprs

__all__ = ["CONTRACTIONS", "holds_contractions", "inlined", "run_inlined"]

P = ParamSpec("P")
T = TypeVar("T")

CONTRACTIONS = ("conv_general_dilated", "dot_general")
"""Primitives that multiply and add."""

# Calls, and functions with derivatives of their own, of which only what they compute counts for inference.
_CALLS = (
  "checkpoint", "closed_call", "composite", "custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr",
  "graftax_call_with_tangents", "jit", "pjit", "remat2",
)  # fmt: skip
_CALLED_PARAMETERS = ("jaxpr", "call_jaxpr", "fun_jaxpr")
# Functions such as `jax.nn.relu6` have no more equations.
_FEW_EQUATIONS = 6
# Numbers that a convolution multiplies.
_FEW_PRODUCTS = 1 << 19


def holds_contractions(equation: JaxprEqn) -> bool:
  """Returns whether an equation has a program with contractions among its parameters."""
  return any(has_primitives(inner.jaxpr, CONTRACTIONS) for inner in inner_jaxprs(equation.params.values()))


def inlined(closed: ClosedJaxpr) -> ClosedJaxpr:
  """Returns a program without calls of contractions and of small functions, but for those in loops and branches.

  Its small convolutions by windows of one pixel are matrix products, and factors of 1 are left out: Keras multiplies by
  1 in `silu`, between what XLA could compute together.
  """

  def run(closed: ClosedJaxpr, operands: Sequence[Operand]) -> list[Operand]:
    def results(equation: JaxprEqn, operands: list[Operand]) -> Sequence[Operand]:
      called = _called(equation)
      if called is not None and (holds_contractions(equation) or _num_equations(called.jaxpr) <= _FEW_EQUATIONS):
        return run(called, operands)
      if equation.primitive.name == "mul":
        return [_without_one(equation, operands)]
      if equation.primitive.name == "conv_general_dilated" and _is_pointwise(equation):
        return [_product(equation, operands)]
      return bound(equation, operands)

    return evaluated(closed, operands, results)

  return jax.make_jaxpr(lambda *operands: run(closed, operands))(*closed.in_avals)


def run_inlined(
  function: Callable[P, T], run: Callable[[ClosedJaxpr, Sequence[Operand]], Sequence[Operand]]
) -> Callable[P, T]:
  """Returns a function of pytrees of arrays whose inlined program, for each call, is run by `run`."""

  @functools.wraps(function)
  def call(*args: P.args, **kwargs: P.kwargs) -> T:
    closed, shapes = jax.make_jaxpr(lambda args, kwargs: function(*args, **kwargs), return_shape=True)(args, kwargs)
    results = run(inlined(closed), jax.tree.leaves((args, kwargs)))
    found: T = jax.tree.unflatten(jax.tree.structure(shapes), results)
    return found

  return call


def _called(equation: JaxprEqn) -> ClosedJaxpr | None:
  """Returns the program that an equation calls, or None if the equation is not a call."""
  found = [equation.params[key] for key in _CALLED_PARAMETERS if key in equation.params]
  return as_closed(found[0]) if found and equation.primitive.name in _CALLS else None


def _num_equations(jaxpr: Jaxpr) -> int:
  """Returns the number of equations without calls."""
  called = map(_called, jaxpr.eqns)
  return sum(1 if program is None else _num_equations(program.jaxpr) for program in called)


def _without_one(equation: JaxprEqn, operands: Sequence[Operand]) -> Operand:
  """Returns a product, or its other factor if one is the number 1; complex infinity times 1 is not infinity."""
  aval = array_type(equation.outvars[0])
  for number, other in (operands, operands[::-1]) if aval.dtype.kind != "c" else ():
    if isinstance(number, int | float | np.generic | np.ndarray) and np.ndim(number) == 0 and number == 1:
      if getattr(other, "aval", None) == aval:
        return other
  return bound(equation, operands)[0]


def _is_pointwise(equation: JaxprEqn) -> bool:
  """Returns whether a convolution is a small product of the channels of each pixel with a matrix, channels last."""
  x, kernel = map(array_type, equation.invars)
  numbers, params = _numbers(equation), equation.params
  ones: list[int] = [kernel.shape[axis] for axis in numbers.rhs_spec[2:]]
  ones += [*params["window_strides"], *params["lhs_dilation"]]
  ones += [params["feature_group_count"], params["batch_group_count"]]
  padding: list[tuple[int, int]] = [*params["padding"]]
  return (
    x.dtype == kernel.dtype == np.float32
    and all(isinstance(size, int) and size == 1 for size in ones)
    and all(low == high == 0 for low, high in padding)
    and numbers.lhs_spec == numbers.out_spec
    and numbers.lhs_spec[1] == len(numbers.lhs_spec) - 1
    and _num_products(equation) <= _FEW_PRODUCTS
  )


def _numbers(equation: JaxprEqn) -> lax.ConvDimensionNumbers:
  found: lax.ConvDimensionNumbers = equation.params["dimension_numbers"]
  return found


def _num_products(equation: JaxprEqn) -> float:
  """Returns how many numbers a convolution by windows of one pixel multiplies; infinity if it is not known."""
  x, kernel = map(array_type, equation.invars)
  sizes = (*x.shape, kernel.shape[_numbers(equation).rhs_spec[0]])
  return math.prod(sizes) if all(isinstance(size, int) for size in sizes) else math.inf


def _product(equation: JaxprEqn, operands: Sequence[Operand]) -> Operand:
  """Returns the result of a convolution by windows of one pixel."""
  x, kernel = operands
  numbers, params = _numbers(equation), equation.params
  matrix = lax.squeeze(kernel, numbers.rhs_spec[2:])
  in_channels = int(numbers.rhs_spec[1] > numbers.rhs_spec[0])
  return lax.dot_general(
    x,
    matrix,
    (((numbers.lhs_spec[1],), (in_channels,)), ((), ())),
    precision=params["precision"],
    preferred_element_type=params["preferred_element_type"],
  )
