"""`jax.lax.while_loop` with derivatives in every mode, for loops whose length depends on data.

Reverse mode visits the iterations from the last to the first, and needs the loop variables at the start of each. Nobody
knows how many there are, so they are not kept but computed again: a fixed number of slots holds the loop variables at
some iterations, and the loop runs on from the nearest one before. Wherever a slot becomes free it is used again,
further on. With `s` slots, a loop of up to `s` iterations runs twice, one of up to about `s**2 / 4` three times, and so
on: memory is bounded, time grows by one more run of the loop every time that its length grows several times.

The derivatives are exact: they are those of the iterations that ran. Like all derivatives of such loops, they do not
see that the number of iterations depends on data.

Derivatives of higher order differentiate no checkpointing. The tangent of a loop is a loop over more variables, with
the same number of iterations; and the derivative of a reverse pass along some direction is the reverse pass of that
loop.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from graftax.xla_call_module.linear_calls import call_with_tangents, closed, is_inexact, linear_call

__all__ = ["NUM_SLOTS", "while_loop"]

NUM_SLOTS = 32
"""How many copies of the loop variables reverse mode keeps at most."""

T = TypeVar("T")
Arrays = Sequence[Any]


def while_loop(
  cond: Callable[[T], Any], body: Callable[[T], T], init: T, *, max_iterations: int | None = None
) -> tuple[Any, T]:
  """`(n, final)`: how often `body` ran, and the loop variables when `cond` was no longer true.

  Args:
    cond: from the loop variables to a boolean scalar.
    body: from the loop variables to the loop variables, of the same shapes and dtypes. Both may close over traced
      values; derivatives with respect to those are right, too.
    init: a pytree of arrays.
    max_iterations: a bound for `n`, where there is one: reverse mode need not keep room for more.

  Returns:
    `n` is int32; `final` is like `init`.

  Differs from `jax.lax.while_loop`: there are reverse-mode derivatives, unless the body has side effects, which would
  happen again in the reverse pass. Forward mode runs the loop once for the values and once for values and tangents.

  Example:
    >>> def root(x):
    ...   return while_loop(lambda y: abs(y * y - x) > 1e-3, lambda y: (y + x / y) / 2, x)[1]
    >>> print(f"{jax.grad(root)(9.0):.4f}")
    0.1667
  """
  leaves, tree = jax.tree.flatten(init)
  leaves = [_strong(leaf) for leaf in leaves]
  start = jax.tree.unflatten(tree, leaves)
  test, step = closed(cond, start), closed(_checked(body, start), start)
  slots = NUM_SLOTS if max_iterations is None else max(1, min(NUM_SLOTS, max_iterations))
  loop = _Loop(step.function, len(step.values), slots)
  run = functools.partial(_run_while, loop, test.function)
  if test.has_effects or step.has_effects or not any(map(is_inexact, leaves)):
    n, final = run(test.values, step.values, leaves)
  else:
    n, final = _differentiable(loop, run, test.values, step.values, leaves)
  return n, jax.tree.unflatten(tree, final)


def _strong(leaf: Any) -> Any:
  leaf = jnp.asarray(leaf)
  return leaf if jnp.issubdtype(leaf.dtype, jax.dtypes.extended) else jax.lax.convert_element_type(leaf, leaf.dtype)


def _checked(body: Callable[[T], T], start: T) -> Callable[[T], T]:
  def step(carry: T) -> T:
    after = body(carry)
    was, now = (jax.tree.structure(tree) for tree in (start, after))
    if was != now:
      raise TypeError(f"a loop body changes the structure of the loop variables: from {was} to {now}.")
    for (path, a), b in zip(jax.tree_util.tree_leaves_with_path(start), jax.tree.leaves(after), strict=True):
      if jnp.shape(a) != jnp.shape(b) or a.dtype != jnp.asarray(b).dtype:
        raise TypeError(
          f"a loop body changes loop variable {jax.tree_util.keystr(path)}: from {a.dtype}{list(jnp.shape(a))} to "
          f"{jnp.asarray(b).dtype}{list(jnp.shape(b))}; it must keep its shape and dtype."
        )
    return jax.tree.map(_strong, after)

  return step


# --------------------------------------------------------------------------------------------------- running forwards


@dataclasses.dataclass(frozen=True, slots=True)
class _Loop:
  """The body of a loop on flat arrays: what stays the same (`consts`), and what it carries.

  Attributes:
    step: `step(*consts, *carry)` gives the next carry.
    num_consts: how many arrays `consts` are.
    slots: how many copies of the carry a reverse pass keeps.
  """

  step: Callable[..., list[Any]]
  num_consts: int
  slots: int

  def partial(self, moving: Sequence[int], consts: Arrays, carry: Arrays) -> Callable[[Arrays, Arrays], list[Any]]:
    """The step as a function of `consts` at positions `moving` and the inexact part of `carry`."""
    positions = _inexact(carry)

    def run(some_consts: Arrays, some_carry: Arrays) -> list[Any]:
      return self.step(*_put(consts, moving, some_consts), *_put(carry, positions, some_carry))

    return run

  def tangent(self, moving: Sequence[int]) -> "_Loop":
    """The loop over `(*carry, *tangents)`, with the tangents of the consts at `moving` as further consts."""

    def step(*operands: Any) -> list[Any]:
      consts, dconsts, rest = _split(operands, self.num_consts, len(moving))
      # Each inexact array of the first part has its tangent in the second; both come in the same order.
      num = next(n for n in range(len(rest) + 1) if n + len(_inexact(rest[:n])) == len(rest))
      carry, dcarry = rest[:num], rest[num:]
      run = self.partial(moving, consts, carry)
      primals = [consts[i] for i in moving], [carry[i] for i in _inexact(carry)]
      results, tangents = jax.jvp(run, primals, (list(dconsts), list(dcarry)))
      return [*results, *(tangents[i] for i in _inexact(carry))]

    return dataclasses.replace(self, step=step, num_consts=self.num_consts + len(moving))


def _run_while(loop: _Loop, keep_going: Callable[..., Any], closed_over: Arrays, consts: Arrays, init: Arrays) -> Any:
  def test(state: Any) -> Any:
    return keep_going(*closed_over, *state[1])[0]

  def step(state: Any) -> Any:
    return state[0] + 1, loop.step(*consts, *state[1])

  return jax.lax.while_loop(test, step, (jnp.int32(0), list(init)))


def _run_counted(loop: _Loop, n: Arrays, consts: Arrays, init: Arrays) -> Any:
  def step(state: Any) -> Any:
    return state[0] + 1, loop.step(*consts, *state[1])

  return jax.lax.while_loop(lambda state: state[0] < n[0], step, (jnp.zeros_like(n[0]), list(init)))


# -------------------------------------------------------------------------------------------------------- derivatives


def _differentiable(loop: _Loop, run: Callable[..., Any], how_long: Arrays, consts: Arrays, init: Arrays) -> Any:
  """`run(how_long, consts, init)`, which gives the number of iterations and the final carry, with derivatives."""
  sizes = len(how_long), len(consts)

  def function(*operands: Any) -> list[Any]:
    n, final = run(*_split(operands, *sizes))
    return [n, *final]

  def rule(operands: Arrays, results: Arrays, tangents: Arrays) -> list[Any]:
    _, consts, init = _split(operands, *sizes)
    _, dconsts, dinit = _split(tangents, *sizes)
    moving, positions = _given(dconsts), _inexact(init)
    out: list[Any] = [None] * len(results)
    if moving or _given(dinit):
      linear = _Linear(loop, moving, len(init))
      moved = [*(dconsts[i] for i in moving), *(_dense(dinit[i], init[i]) for i in positions)]
      residuals = [results[0], *consts, *init]
      moved = linear_call(linear.push, linear.pull, residuals, moved, [init[i] for i in positions])
      out = _put(out, [1 + i for i in positions], moved)
    return out

  n, *final = call_with_tangents(function, rule, [*how_long, *consts, *init])
  return n, final


@dataclasses.dataclass(frozen=True, slots=True)
class _Linear:
  """The derivative of a loop of known length, and its transpose; both begin with `n, *consts, *init`."""

  loop: _Loop
  moving: tuple[int, ...]
  num_carry: int

  def push(self, n: Any, *operands: Any) -> list[Any]:
    """Tangents of the consts at `moving`, and of the inexact initial carry, to those of the final carry."""
    consts, init, dconsts, dinit = _split(operands, self.loop.num_consts, self.num_carry, len(self.moving))
    loop = self.loop.tangent(self.moving)
    run = functools.partial(_run_counted, loop)
    _, final = _differentiable(loop, run, [n], [*consts, *dconsts], [*init, *dinit])
    return list(final[self.num_carry :])

  def pull(self, n: Any, *operands: Any) -> list[Any]:
    """Cotangents of the inexact final carry to those of the consts at `moving` and of the inexact initial carry."""
    consts, init, cotangents = _split(operands, self.loop.num_consts, self.num_carry)
    return _pullback(self.loop, self.moving, n, consts, init, cotangents)


@dataclasses.dataclass(frozen=True, slots=True)
class _Second:
  """How a pullback changes with consts and initial carry: a symmetric bilinear form in these and what it returns.

  Along `v` that change is the pullback of the loop's tangent along `v`. Everything begins with
  `n, *consts, *init, *cotangents`.
  """

  loop: _Loop
  moving: tuple[int, ...]
  along: tuple[int, ...]
  num_carry: int

  def apply(self, n: Any, *operands: Any) -> list[Any]:
    """Tangents of the consts at `along`, and of the inexact initial carry, to those of what the pullback returns."""
    consts, init, rest = _split(operands, self.loop.num_consts, self.num_carry)
    num = len(_inexact(init))
    cotangents, dconsts, dinit = _split(rest, num, len(self.along))
    zeros = [jnp.zeros_like(ct) for ct in cotangents]
    found = _pullback(
      self.loop.tangent(self.along), self.moving, n, [*consts, *dconsts], [*init, *dinit], [*zeros, *cotangents]
    )
    return found[: len(self.moving) + num]

  def transposed(self) -> "_Second":
    return dataclasses.replace(self, moving=self.along, along=self.moving)


def _pullback(loop: _Loop, moving: Sequence[int], n: Any, consts: Arrays, init: Arrays, cotangents: Arrays) -> Any:
  sizes = len(consts), len(init)

  def function(n: Any, *operands: Any) -> list[Any]:
    return _reverse(loop, moving, n, *_split(operands, *sizes))

  def rule(operands: Arrays, results: Arrays, tangents: Arrays) -> list[Any]:
    (n,), consts, init, cotangents = _split(operands, 1, *sizes)
    _, dconsts, dinit, dcotangents = _split(tangents, 1, *sizes)
    out: list[Any] = [None] * len(results)
    if _given(dcotangents):
      linear = _Linear(loop, tuple(moving), len(init))
      given = [_dense(t, ct) for t, ct in zip(dcotangents, cotangents, strict=True)]
      out = linear_call(linear.pull, linear.push, [n, *consts, *init], given, results)
    along = _given(dconsts)
    if along or _given(dinit):
      second = _Second(loop, tuple(moving), along, len(init))
      given = [*(dconsts[i] for i in along), *(_dense(dinit[i], init[i]) for i in _inexact(init))]
      terms = linear_call(second.apply, second.transposed().apply, operands, given, results)
      out = [b if a is None else a + b for a, b in zip(out, terms, strict=True)]
    return out

  return call_with_tangents(function, rule, [n, *consts, *init, *cotangents])


# -------------------------------------------------------------------------------------------------- running backwards


def _reverse(loop: _Loop, moving: Sequence[int], n: Any, consts: Arrays, init: Arrays, cotangents: Arrays) -> Any:
  """Cotangents of the consts at `moving`, then of the inexact initial carry."""
  positions = _inexact(init)

  def keep_going(state: Any) -> Any:
    return state[0] > 0

  def back(state: Any) -> Any:
    k, slots, found, cotangents = state
    slots, carry = slots.seek(loop, consts, k - 1)
    run = loop.partial(moving, consts, carry)
    primals = [consts[i] for i in moving], [carry[i] for i in positions]
    _, pull = jax.vjp(lambda *args: [run(*args)[i] for i in positions], *primals)
    more, cotangents = pull(cotangents)
    return k - 1, slots, [a + b for a, b in zip(found, more, strict=True)], cotangents

  start = n, _Slots.holding(init, loop.slots), [jnp.zeros_like(consts[i]) for i in moving], list(cotangents)
  *_, found, cotangents = jax.lax.while_loop(keep_going, back, start)
  return [*found, *cotangents]


@functools.partial(jax.tree_util.register_dataclass, data_fields=("depth", "numbers", "carries"), meta_fields=())
@dataclasses.dataclass(frozen=True, slots=True)
class _Slots:
  """A stack of loop variables at rising iterations; one more slot, above the top, is scratch.

  Attributes:
    depth: int32, how many are in use.
    numbers: `[slots + 1]`, int32, the iteration before which each holds the loop variables.
    carries: `[slots + 1, ...]`, the loop variables.
  """

  depth: Any
  numbers: Any
  carries: list[Any]

  @classmethod
  def holding(cls, init: Arrays, slots: int) -> "_Slots":
    carries = [jnp.broadcast_to(x[None], (slots + 1, *x.shape)) for x in init]
    return cls(jnp.int32(1), jnp.zeros(slots + 1, np.int32), carries)

  def top(self) -> tuple[Any, list[Any]]:
    number, *carry = (
      jax.lax.dynamic_index_in_dim(x, self.depth - 1, keepdims=False) for x in (self.numbers, *self.carries)
    )
    return number, carry

  def pushed(self, number: Any, carry: Arrays, is_kept: Any) -> "_Slots":
    """With one more entry if `is_kept`; else only the scratch slot changes, which needs no copy of the stack."""
    numbers, *carries = (
      jax.lax.dynamic_update_index_in_dim(x, value, self.depth, 0)
      for x, value in zip((self.numbers, *self.carries), (number, *carry), strict=True)
    )
    return _Slots(self.depth + is_kept, numbers, list(carries))

  def next_kept(self, number: Any, k: Any) -> Any:
    """Which iteration on the way from `number` to `k` to keep next: all if there is room, else with a stride that
    leaves half of the room for the way between."""
    free, distance = len(self.numbers) - 1 - self.depth, k - number
    part = jnp.maximum(free // 2, 1)
    stride = jnp.where(distance <= free, 1, (distance + part - 1) // part)
    return jnp.where(free > 0, number + stride, k + 1)

  def seek(self, loop: _Loop, consts: Arrays, k: Any) -> tuple["_Slots", list[Any]]:
    """The loop variables before iteration `k`, which is at most one less than in the last call."""
    slots = dataclasses.replace(self, depth=self.depth - (self.top()[0] > k))

    def is_before(state: Any) -> Any:
      return state[0] < k

    def advance(state: Any) -> Any:
      number, kept, slots, carry = state
      number, carry = number + 1, loop.step(*consts, *carry)
      is_kept = number == kept
      slots = slots.pushed(number, carry, is_kept)
      return number, jnp.where(is_kept, slots.next_kept(number, k), kept), slots, carry

    number, carry = slots.top()
    *_, slots, carry = jax.lax.while_loop(is_before, advance, (number, slots.next_kept(number, k), slots, carry))
    return slots, carry


# ------------------------------------------------------------------------------------------------------- flat values


def _inexact(values: Arrays) -> list[int]:
  return [i for i, value in enumerate(values) if is_inexact(value)]


def _put(values: Arrays, positions: Sequence[int], some: Arrays) -> list[Any]:
  full = list(values)
  for position, value in zip(positions, some, strict=True):
    full[position] = value
  return full


def _split(values: Arrays, *sizes: int) -> list[list[Any]]:
  """The first `sizes[0]`, the next `sizes[1]`, ..., and the rest."""
  parts, rest = [], list(values)
  for size in sizes:
    parts.append(rest[:size])
    rest = rest[size:]
  return [*parts, rest]


def _given(tangents: Arrays) -> tuple[int, ...]:
  return tuple(i for i, tangent in enumerate(tangents) if tangent is not None)


def _dense(tangent: Any, primal: Any) -> Any:
  return jnp.zeros_like(primal) if tangent is None else tangent
