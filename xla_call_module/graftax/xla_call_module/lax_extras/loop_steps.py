"""The body of a loop on flat arrays, and its derivative."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import TypeVar

import jax
from jax import Array

from graftax.xla_call_module.lax_extras.arrays import is_inexact, replaced

__all__ = ["Arrays", "Loop", "inexact_positions", "split"]

T = TypeVar("T")
Arrays = Sequence[Array]


@dataclasses.dataclass(frozen=True, slots=True)
class Loop:
  """The body of a loop on flat arrays: constant arrays (`consts`) and the carry.

  Attributes:
    step: `step(*consts, *carry)` returns the next carry.
    num_consts: number of arrays in `consts`.
    slots: number of copies of the carry that a reverse pass stores.
  """

  step: Callable[..., list[Array]]
  num_consts: int
  slots: int

  def partial(self, moving: Sequence[int], consts: Arrays, carry: Arrays) -> Callable[[Arrays, Arrays], list[Array]]:
    """Returns the step as a function of the consts at `moving` and of the inexact part of the carry."""
    positions = inexact_positions(carry)

    def run(some_consts: Arrays, some_carry: Arrays) -> list[Array]:
      return self.step(*replaced(consts, moving, some_consts), *replaced(carry, positions, some_carry))

    return run

  def tangent(self, moving: Sequence[int]) -> "Loop":
    """Returns the loop over `(*carry, *tangents)`, with the tangents of the consts at `moving` as additional consts."""

    def step(*operands: Array) -> list[Array]:
      consts, dconsts, rest = split(operands, self.num_consts, len(moving))
      # The second part has one tangent for each inexact array of the first part, in the same order.
      num = next(n for n in range(len(rest) + 1) if n + len(inexact_positions(rest[:n])) == len(rest))
      carry, dcarry = rest[:num], rest[num:]
      run = self.partial(moving, consts, carry)
      primals = [consts[i] for i in moving], [carry[i] for i in inexact_positions(carry)]
      results, tangents = jax.jvp(run, primals, (list(dconsts), list(dcarry)))
      return [*results, *(tangents[i] for i in inexact_positions(carry))]

    return dataclasses.replace(self, step=step, num_consts=self.num_consts + len(moving))


def inexact_positions(values: Arrays) -> list[int]:
  """Returns the positions of the floating-point and complex arrays."""
  return [i for i, value in enumerate(values) if is_inexact(value)]


def split(values: Sequence[T], *sizes: int) -> list[list[T]]:
  """Returns lists of the first `sizes[0]` values, the next `sizes[1]`, ..., and the rest."""
  parts, rest = [], list(values)
  for size in sizes:
    parts.append(rest[:size])
    rest = rest[size:]
  return [*parts, rest]
