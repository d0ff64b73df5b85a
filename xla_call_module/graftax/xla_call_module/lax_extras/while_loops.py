"""`jax.lax.while_loop` with derivatives in every mode, for loops whose length depends on data.

Reverse mode visits the iterations from the last to the first and needs the loop variables at the start of each. Their
number is not known while tracing, so they cannot be stored; `loop_reversal.py` recomputes them.

The derivatives are those of the iterations that ran. They do not include the dependence of the number of iterations on
data, which is piecewise constant.

Higher derivatives do not differentiate the checkpointing. The tangent of a loop is a loop over more variables with the
same number of iterations. The derivative of a reverse pass along a direction is the reverse pass of that loop.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jax import Array

from graftax.xla_call_module.lax_extras.arrays import is_inexact, replaced
from graftax.xla_call_module.lax_extras.closure_conversion import closed
from graftax.xla_call_module.lax_extras.linear_calls import linear_call
from graftax.xla_call_module.lax_extras.loop_reversal import pull_back
from graftax.xla_call_module.lax_extras.loop_steps import Arrays, Loop, inexact_positions, split
from graftax.xla_call_module.lax_extras.tangent_rules import call_with_tangents

__all__ = ["NUM_SLOTS", "while_loop"]

NUM_SLOTS = 32
"""The largest number of copies of the loop variables that reverse mode keeps."""

T = TypeVar("T")


def while_loop(cond: Callable[[T], Any], body: Callable[[T], T], init: T, *, max_iterations: int | None = None) -> T:
  """Repeats `body` while `cond` is true and returns the final loop variables.

  Args:
    cond: from the loop variables to a boolean scalar.
    body: from the loop variables to the loop variables, of the same shapes and dtypes. Both may close over traced
      values; derivatives with respect to those are correct, too.
    init: a pytree of arrays.
    max_iterations: an upper bound of the number of iterations, if known; limits the memory of reverse mode.

  Differs from `jax.lax.while_loop`: reverse mode is supported, unless the body has side effects, which the reverse pass
  would repeat. Forward mode runs the loop once for the values, and once for values and tangents.

  Example:
    >>> def root(x):
    ...   return while_loop(lambda y: abs(y * y - x) > 1e-3, lambda y: (y + x / y) / 2, x)
    >>> print(f"{jax.grad(root)(9.0):.4f}")
    0.1667
  """
  leaves, tree = jax.tree.flatten(init)
  leaves = [_strong(leaf) for leaf in leaves]
  start = jax.tree.unflatten(tree, leaves)
  test, step = closed(cond, start), closed(_checked(body, start), start)
  slots = NUM_SLOTS if max_iterations is None else max(1, min(NUM_SLOTS, max_iterations))
  loop = Loop(step.function, len(step.values), slots)
  if test.has_effects or step.has_effects or not any(map(is_inexact, leaves)):
    final = _run(loop, test.function, test.values, step.values, leaves)
  else:
    run, count = functools.partial(_run, loop, test.function), functools.partial(_run_and_count, loop, test.function)
    final = _differentiable(loop, run, count, test.values, step.values, leaves)
  return jax.tree.unflatten(tree, final)


def _strong(leaf: Array) -> Array:
  leaf = jnp.asarray(leaf)
  return leaf if jnp.issubdtype(leaf.dtype, jax.dtypes.extended) else jax.lax.convert_element_type(leaf, leaf.dtype)


def _checked(body: Callable[[T], T], start: T) -> Callable[[T], T]:
  def step(carry: T) -> T:
    after = body(carry)
    was: object = jax.tree.structure(start)
    now: object = jax.tree.structure(after)
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


def _run(loop: Loop, keep_going: Callable[..., Any], closed_over: Arrays, consts: Arrays, init: Arrays) -> list[Array]:
  """Runs the loop and returns the final carry."""
  final: list[Array] = jax.lax.while_loop(
    lambda carry: keep_going(*closed_over, *carry)[0], lambda carry: loop.step(*consts, *carry), list(init)
  )
  return final


def _run_and_count(
  loop: Loop, keep_going: Callable[..., Any], closed_over: Arrays, consts: Arrays, init: Arrays
) -> tuple[Array, list[Array]]:
  """Runs the loop and returns the number of iterations and the final carry."""

  def test(state: Any) -> Any:
    return keep_going(*closed_over, *state[1])[0]

  def step(state: Any) -> Any:
    return state[0] + 1, loop.step(*consts, *state[1])

  found: tuple[Array, list[Array]] = jax.lax.while_loop(test, step, (jnp.int32(0), list(init)))
  return found


def _run_times(loop: Loop, n: Arrays, consts: Arrays, init: Arrays) -> tuple[Array, list[Array]]:
  """Runs `n[0]` iterations; returns the same as `_run_and_count`."""

  def step(state: Any) -> Any:
    return state[0] + 1, loop.step(*consts, *state[1])

  found: tuple[Array, list[Array]] = jax.lax.while_loop(
    lambda state: state[0] < n[0], step, (jnp.zeros_like(n[0]), list(init))
  )
  return found


def _differentiable(
  loop: Loop,
  run: Callable[..., list[Array]],
  count: Callable[..., tuple[Array, list[Array]]],
  how_long: Arrays,
  consts: Arrays,
  init: Arrays,
) -> list[Array]:
  """Returns the final carry, `run(how_long, consts, init)`, with derivatives.

  `count` also returns the number of iterations, which is needed only for derivatives.
  """
  sizes = len(how_long), len(consts)

  def function(*operands: Array) -> list[Array]:
    return run(*split(operands, *sizes))

  def recorded(*operands: Array) -> list[Array]:
    n, final = count(*split(operands, *sizes))
    return [*final, n]

  def rule(operands: Arrays, results: Arrays, tangents: Sequence[Array | None]) -> list[Array | None]:
    _, consts, init = split(operands, *sizes)
    _, dconsts, dinit = split(tangents, *sizes)
    moving, positions = _given(dconsts), inexact_positions(init)
    out: list[Any] = [None] * len(results)
    if moving or _given(dinit):
      linear = _Linear(loop, moving, len(init))
      moved = [*(dconsts[i] for i in moving), *(_dense(dinit[i], init[i]) for i in positions)]
      residuals = [results[-1], *consts, *init]
      moved = linear_call(linear.push, linear.pull, residuals, moved, [init[i] for i in positions])
      out = replaced(out, positions, moved)
    return out

  return call_with_tangents(function, rule, [*how_long, *consts, *init], recorded=recorded)


@dataclasses.dataclass(frozen=True, slots=True)
class _Linear:
  """The derivative of a loop of known length, and its transpose. The first arguments are `n, *consts, *init`."""

  loop: Loop
  moving: tuple[int, ...]
  num_carry: int

  def push(self, n: Array, *operands: Array) -> list[Array]:
    """Maps tangents of the consts at `moving` and of the inexact initial carry to tangents of the final carry."""
    consts, init, dconsts, dinit = split(operands, self.loop.num_consts, self.num_carry, len(self.moving))
    loop = self.loop.tangent(self.moving)
    count = functools.partial(_run_times, loop)
    final = _differentiable(loop, lambda *args: count(*args)[1], count, [n], [*consts, *dconsts], [*init, *dinit])
    return final[self.num_carry :]

  def pull(self, n: Array, *operands: Array) -> list[Array]:
    """Maps cotangents of the inexact final carry to those of the consts at `moving` and the inexact initial carry."""
    consts, init, cotangents = split(operands, self.loop.num_consts, self.num_carry)
    return _pullback(self.loop, self.moving, n, consts, init, cotangents)


@dataclasses.dataclass(frozen=True, slots=True)
class _Second:
  """The derivative of a pullback with respect to the consts and the initial carry.

  It is a symmetric bilinear form, so its transpose has the same form. Its value along `v` is the pullback of the loop's
  tangent along `v`. The first arguments are `n, *consts, *init, *cotangents`.
  """

  loop: Loop
  moving: tuple[int, ...]
  along: tuple[int, ...]
  num_carry: int

  def apply(self, n: Array, *operands: Array) -> list[Array]:
    """Maps tangents of the consts at `along` and of the inexact initial carry to tangents of the pullback's results."""
    consts, init, rest = split(operands, self.loop.num_consts, self.num_carry)
    num = len(inexact_positions(init))
    cotangents, dconsts, dinit = split(rest, num, len(self.along))
    zeros = [jnp.zeros_like(ct) for ct in cotangents]
    found = _pullback(
      self.loop.tangent(self.along), self.moving, n, [*consts, *dconsts], [*init, *dinit], [*zeros, *cotangents]
    )
    return found[: len(self.moving) + num]

  def transposed(self) -> "_Second":
    return dataclasses.replace(self, moving=self.along, along=self.moving)


def _pullback(loop: Loop, moving: Sequence[int], n: Array, consts: Arrays, init: Arrays, cotangents: Arrays) -> Any:
  sizes = len(consts), len(init)

  def function(n: Array, *operands: Array) -> list[Array]:
    return pull_back(loop, moving, n, *split(operands, *sizes))

  def rule(operands: Arrays, results: Arrays, tangents: Sequence[Array | None]) -> list[Array | None]:
    (n,), consts, init, cotangents = split(operands, 1, *sizes)
    _, dconsts, dinit, dcotangents = split(tangents, 1, *sizes)
    out: list[Any] = [None] * len(results)
    if _given(dcotangents):
      linear = _Linear(loop, tuple(moving), len(init))
      given = [_dense(t, ct) for t, ct in zip(dcotangents, cotangents, strict=True)]
      out = linear_call(linear.pull, linear.push, [n, *consts, *init], given, results)
    along = _given(dconsts)
    if along or _given(dinit):
      second = _Second(loop, tuple(moving), along, len(init))
      given = [*(dconsts[i] for i in along), *(_dense(dinit[i], init[i]) for i in inexact_positions(init))]
      terms = linear_call(second.apply, second.transposed().apply, operands, given, results)
      out = [b if a is None else a + b for a, b in zip(out, terms, strict=True)]
    return out

  return call_with_tangents(function, rule, [n, *consts, *init, *cotangents])


def _given(tangents: Sequence[Array | None]) -> tuple[int, ...]:
  return tuple(i for i, tangent in enumerate(tangents) if tangent is not None)


def _dense(tangent: Array | None, primal: Array) -> Any:
  return jnp.zeros_like(primal) if tangent is None else tangent
