"""What is known of the length of a `While` loop before it runs: a number, a symbolic size, or a bound."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import jax

from graftax.convert.evaluation.loop_walk import PlannedLoop, as_known, walk_loop
from graftax.convert.evaluation.symbolic_loops import symbolic_loop
from graftax.graphdef_ir import FunctionRef, LimitExceededError
from graftax.ops_jax import LoopLength, Value, is_symbolic

if TYPE_CHECKING:
  from graftax.convert.evaluation.evaluate import Evaluator

__all__ = ["loop_length"]


def loop_length(
  evaluator: "Evaluator", path: str, cond: FunctionRef, body: FunctionRef, args: Sequence[Value]
) -> LoopLength:
  """Returns what is known of the length of `while cond(vars): vars = body(vars)`.

  Args:
    evaluator: of the function with the loop.
    path: names of the enclosing call nodes, then the loop's own name.
    cond: the condition.
    body: the loop body.
    args: loop variables before the loop.
  """
  loop = PlannedLoop(evaluator, path, cond, body)
  walked = functools.partial(_counted, functools.partial(walk_loop, loop, args))
  if not any(map(is_symbolic, args)):
    return walked()
  found = _counted(lambda: LoopLength(symbolic_loop(loop, [as_known(value) for value in args])))
  return walked() if found.counted is None else dataclasses.replace(found, otherwise=walked)


def _counted(count: Callable[[], LoopLength]) -> LoopLength:
  """Returns what a function finds out about a loop, or that it took too many steps."""
  try:
    # As in `run_on_known`, whose contexts take longer to enter than a counter takes to step.
    with jax.core.eval_context(), jax.enable_x64(True):
      return count()
  except LimitExceededError as e:
    if e.limit != "walk_steps":
      raise
    return LoopLength(reason=f"counting iterations takes more than {e.allowed:,} steps, the limit walk_steps")
