"""Reverse mode of a loop with a fixed number of checkpoints, as in treeverse and revolve.

The pass visits the iterations from the last to the first and recomputes each. Slots store the loop variables of some
iterations. To reach an iteration, the loop restarts from the nearest slot before it. A slot that is no longer needed is
reused for a later iteration. With `s` slots, a loop of up to `s` iterations runs twice, and one of up to about
`s**2 / 4` iterations three times. Memory is bounded, and the number of runs grows slowly with the length of the loop.

References: A. Griewank, "Achieving logarithmic growth of temporal and spatial complexity in reverse automatic
differentiation" (1992; treeverse). A. Griewank and A. Walther, "Algorithm 799: revolve" (2000), which places the
checkpoints optimally; this module places them by a simpler rule.
"""

import dataclasses
import functools
from collections.abc import Sequence
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from graftax.xla_call_module.lax_extras.loop_steps import Arrays, Loop, inexact_positions

__all__ = ["pull_back"]

# The iteration to go back from, the stored ones, and the cotangents of the consts and of the carry.
_Backward: TypeAlias = tuple[Array, "_Slots", list[Array], list[Array]]
# The iteration, the next one to store, the stored ones, and the carry.
_Forward: TypeAlias = tuple[Array, Array, "_Slots", list[Array]]


def pull_back(
  loop: Loop, moving: Sequence[int], n: Array, consts: Arrays, init: Arrays, cotangents: Arrays
) -> list[Array]:
  """Returns the cotangents of the consts at `moving`, then of the inexact initial carry.

  Args:
    loop: the loop.
    moving: positions of the consts to differentiate with respect to.
    n: number of iterations, an integer scalar.
    consts: arrays that do not change in the loop.
    init: the initial carry.
    cotangents: cotangents of the inexact final carry.
  """
  positions = inexact_positions(init)

  def keep_going(state: _Backward) -> Array:
    return state[0] > 0

  def back(state: _Backward) -> _Backward:
    k, slots, found, cotangents = state
    slots, carry = slots.seek(loop, consts, k - 1)
    run = loop.partial(moving, consts, carry)

    def inexact(some_consts: Arrays, some_carry: Arrays) -> list[Array]:
      results = run(some_consts, some_carry)
      return [results[i] for i in positions]

    _, pull = jax.vjp(inexact, [consts[i] for i in moving], [carry[i] for i in positions])
    more, cotangents = pull(cotangents)
    return k - 1, slots, [a + b for a, b in zip(found, more, strict=True)], cotangents

  start = n, _Slots.holding(init, loop.slots), [jnp.zeros_like(consts[i]) for i in moving], list(cotangents)
  *_, found, cotangents = jax.lax.while_loop(keep_going, back, start)
  return [*found, *cotangents]


@functools.partial(jax.tree_util.register_dataclass, data_fields=("depth", "numbers", "carries"), meta_fields=())
@dataclasses.dataclass(frozen=True, slots=True)
class _Slots:
  """A stack of loop variables at increasing iterations; the slot above the top is scratch space.

  Attributes:
    depth: int32, number of slots in use.
    numbers: `[slots + 1]`, int32, the iteration at whose start each slot was stored.
    carries: `[slots + 1, ...]`, the loop variables.
  """

  depth: Array
  numbers: Array
  carries: list[Array]

  @classmethod
  def holding(cls, init: Arrays, slots: int) -> "_Slots":
    carries = [jnp.broadcast_to(x[None], (slots + 1, *x.shape)) for x in init]
    return cls(jnp.int32(1), jnp.zeros(slots + 1, np.int32), carries)

  def top(self) -> tuple[Array, list[Array]]:
    number, *carry = (
      jax.lax.dynamic_index_in_dim(x, self.depth - 1, keepdims=False) for x in (self.numbers, *self.carries)
    )
    return number, carry

  def pushed(self, number: Array, carry: Arrays, is_kept: Array) -> "_Slots":
    """Returns the stack with one more entry if `is_kept`; otherwise writes only to the scratch slot, without a copy."""
    numbers, *carries = (
      jax.lax.dynamic_update_index_in_dim(x, value, self.depth, 0)
      for x, value in zip((self.numbers, *self.carries), (number, *carry), strict=True)
    )
    return _Slots(self.depth + is_kept.astype(self.depth.dtype), numbers, list(carries))

  def next_kept(self, number: Array, k: Array) -> Array:
    """Returns the next iteration between `number` and `k` to store.

    If all of them fit in the free slots, it is the next one. Otherwise the stride leaves half of the free slots for
    later passes over the iterations in between.
    """
    free, distance = len(self.numbers) - 1 - self.depth, k - number
    part = jnp.maximum(free // 2, 1)
    stride = jnp.where(distance <= free, 1, (distance + part - 1) // part)
    return jnp.where(free > 0, number + stride, k + 1)

  def seek(self, loop: Loop, consts: Arrays, k: Array) -> tuple["_Slots", list[Array]]:
    """Returns the loop variables at the start of iteration `k`, which is at most one less than in the last call."""
    is_past = self.top()[0] > k
    slots = dataclasses.replace(self, depth=self.depth - is_past.astype(self.depth.dtype))

    def is_before(state: _Forward) -> Array:
      return state[0] < k

    def advance(state: _Forward) -> _Forward:
      number, kept, slots, carry = state
      number, carry = number + 1, loop.step(*consts, *carry)
      is_kept = number == kept
      slots = slots.pushed(number, carry, is_kept)
      return number, jnp.where(is_kept, slots.next_kept(number, k), kept), slots, carry

    number, carry = slots.top()
    *_, slots, carry = jax.lax.while_loop(is_before, advance, (number, slots.next_kept(number, k), slots, carry))
    return slots, carry
