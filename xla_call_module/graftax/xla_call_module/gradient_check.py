"""Compares the gradient function that an artifact carries with the derivative of the lifted code."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from graftax.xla_call_module import arguments
from graftax.xla_call_module.lax_extras.arrays import ArrayFunction, is_inexact, replaced
from graftax.xla_call_module.lifting import lift
from graftax.xla_call_module.module import Module

__all__ = ["GradientDifference", "check_gradients"]


@dataclasses.dataclass(frozen=True, slots=True)
class GradientDifference:
  """Difference between the stored gradient and the gradient of the lifted code, for one argument.

  Attributes:
    argument: the position of the argument.
    largest: the largest absolute difference.
    where: the index of that entry.
    saved: the stored gradient there.
    primal: the gradient of the lifted code there.
    num_different: number of entries that differ by more than the tolerance.
  """

  argument: int
  largest: float
  where: tuple[int, ...]
  saved: float
  primal: float
  num_different: int


def check_gradients(module: Module, *args: Any, tolerance: float = 1e-4) -> tuple[GradientDifference, ...]:
  """Compares the artifact's gradient function with the derivative of the lifted code at given arguments.

  Differences are expected if the author defined a derivative (straight-through, clipped, relu at 0).

  Args:
    module: a module with a gradient function.
    args: the arguments at which the two are compared.
    tolerance: relative and absolute tolerance.

  Returns:
    One entry per argument whose gradients differ by more than the tolerance.

  Raises:
    DerivativeError: the artifact has no gradient function.

  Example:
    >>> import jax
    >>> exported = jax.export.export(jax.jit(lambda x: x * x))(jax.ShapeDtypeStruct((), "float32"))
    >>> check_gradients(Module.from_exported(exported.serialize(vjp_order=1)), 3.0)
    ()
  """
  if not any(map(is_inexact, module.inputs)) or not any(map(is_inexact, module.outputs)):
    return ()
  saved, primal = lift(module, gradient="saved"), lift(module, gradient="primal")
  return _compare(saved, primal, module, arguments.check(module, args), tolerance)


def _compare(
  saved: ArrayFunction, primal: ArrayFunction, module: Module, args: Sequence[Any], tolerance: float
) -> tuple[GradientDifference, ...]:
  """Compares the reverse-mode derivatives of two lifted functions for cotangents of ones."""
  inputs = [i for i, spec in enumerate(module.inputs) if is_inexact(spec)]

  def total(function: ArrayFunction) -> Callable[..., Any]:
    def run(*inexact: Any) -> Any:
      results = function(*replaced(args, inputs, inexact))
      return sum(jnp.real(out).sum() for out in results if is_inexact(out))

    return run

  chosen = [jnp.asarray(args[i]) for i in inputs]
  positions = tuple(range(len(chosen)))
  pairs = zip(inputs, *(jax.grad(total(f), positions)(*chosen) for f in (saved, primal)), strict=True)
  found = []
  for argument, a, b in pairs:
    a, b = np.asarray(a), np.asarray(b)
    gap = np.abs(a.astype(np.complex128) - b.astype(np.complex128))
    gap = np.where(np.isnan(gap), np.where(np.isnan(a) & np.isnan(b), 0.0, np.inf), gap)
    far = gap > tolerance * (1 + np.abs(a.astype(np.complex128)))
    if far.any():
      where = tuple(int(i) for i in np.unravel_index(np.argmax(gap), gap.shape))
      found.append(
        GradientDifference(
          argument, float(gap[where]), where, float(a[where].real), float(b[where].real), int(far.sum())
        )
      )
  return tuple(found)
