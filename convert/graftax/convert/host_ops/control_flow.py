"""Calls, conditionals and loops, step by step: PartitionedCall, If, Case, While, For."""

from typing import Any

import numpy as np

from graftax.convert.host_ops.registry import host_op
from graftax.graphdef_ir import FunctionRef
from graftax.ops_jax import Context, InvalidInputError, Value

__all__ = ["call", "case", "for_loop", "if_", "while_loop"]

_TYPES = ("Tin", "Tout", "Tcond", "T", "output_shapes", "parallel_iterations")


@host_op(
  "PartitionedCall",
  "StatefulPartitionedCall",
  ignores=("Tin", "Tout", "config", "config_proto", "executor_type"),
  always=True,
)
def call(ctx: Context, args: list[Any], *, f: FunctionRef) -> tuple[Value, ...]:
  """Returns the results of a function."""
  return ctx.call(f, args)


@host_op("If", "StatelessIf", ignores=_TYPES, always=True)
def if_(
  ctx: Context, cond: Value, input_: list[Any], *, then_branch: FunctionRef, else_branch: FunctionRef
) -> tuple[Value, ...]:
  """Returns the results of the branch that the condition chooses."""
  return ctx.call(then_branch if _is_true(cond) else else_branch, input_)


@host_op("Case", "StatelessCase", ignores=_TYPES, always=True)
def case(ctx: Context, branch_index: Value, input_: list[Any], *, branches: tuple[FunctionRef, ...]) -> Any:
  """Returns the results of the branch with the given number; of the last one if there is no such branch."""
  index = int(branch_index)
  return ctx.call(branches[index if 0 <= index < len(branches) else -1], input_)


@host_op("While", "StatelessWhile", ignores=_TYPES, always=True)
def while_loop(ctx: Context, input_: list[Any], *, cond: FunctionRef, body: FunctionRef) -> tuple[Value, ...]:
  """Returns the loop variables after the last iteration."""
  variables = tuple(input_)
  while _is_true(ctx.call(cond, variables)[0]):
    variables = ctx.call(body, variables)
  return variables


@host_op("For", ignores=_TYPES, always=True)
def for_loop(
  ctx: Context, start: Value, limit: Value, delta: Value, input_: list[Any], *, body: FunctionRef
) -> tuple[Value, ...]:
  """Returns the loop variables after all iterations."""
  variables = tuple(input_)
  if not int(delta):
    raise InvalidInputError(f"For node {ctx.node_name!r} (function {ctx.function_name!r}): delta is 0.")
  for index in range(int(start), int(limit), int(delta)):
    variables = ctx.call(body, (np.asarray(index, np.int32), *variables))
  return variables


def _is_true(condition: Value) -> bool:
  """Returns a condition as TensorFlow reads it: a scalar by its value, any other tensor by whether it is empty."""
  array = np.asarray(condition)
  if array.ndim:
    return array.size > 0
  if array.dtype == object:
    item = array[()]
    if not isinstance(item, bytes):
      raise InvalidInputError(f"a condition is {item!r}; expected a tensor.")
    return bool(item)
  return bool(array)
