"""What is known of the length of a `While` loop before it runs: a number, a symbolic size, or a bound."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import jax

from graftax.convert.evaluation.loop_walk import PlannedLoop, as_known, walk_loop
from graftax.convert.evaluation.symbolic_loops import symbolic_loop
from graftax.graphdef_ir import FunctionRef, LimitExceededError
from graftax.ops_jax import LoopLength, Value

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
  try:
    # As in `run_on_known`, whose contexts take longer to enter than a counter takes to step.
    with jax.core.eval_context(), jax.enable_x64(True):
      loop = PlannedLoop(evaluator, path, cond, body)
      counted = symbolic_loop(loop, [as_known(value) for value in args])
      if counted is not None:
        return LoopLength(counted, reason="its body needs to know values or shapes")
      return walk_loop(loop, args)
  except LimitExceededError as e:
    if e.limit != "walk_steps":
      raise
    return LoopLength(reason=f"counting iterations takes more than {e.allowed:,} steps, the limit walk_steps")
