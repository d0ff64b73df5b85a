"""Calls, branches and loops. A `while` with a known trip count becomes `lax.scan`, which supports reverse mode."""

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from graftax.xla_call_module import analysis, ir
from graftax.xla_call_module.context import Context
from graftax.xla_call_module.evaluate import call_function, region_function, run_ops, run_region
from graftax.xla_call_module.lax_extras.arrays import replaced
from graftax.xla_call_module.lax_extras.reductions import mapped
from graftax.xla_call_module.lax_extras.while_loops import while_loop
from graftax.xla_call_module.patterns import loops
from graftax.xla_call_module.registry import register
from graftax.xla_call_module.values import TOKEN, known_int, materialize

__all__: list[str] = []


@register(
  "func.call",
  "stablehlo.func.call",
  takes_known=True,
  attributes=("callee",),
  ignores=("arg_attrs", "no_inline", "res_attrs"),
)
def _call(context: Context, op: ir.Op, *operands: Any) -> Any:
  return call_function(context, op.attrs.text("callee"), operands)


@register("stablehlo.if", takes_known=True)
def _if(context: Context, op: ir.Op, condition: Any, *, environment: dict[int, Any]) -> Any:
  known = known_int(condition)
  if known is not None:
    return run_region(context, op.regions[0 if known else 1], environment, ())
  when_true, when_false = (_branch(context, region, environment) for region in op.regions)
  return _with_tokens(op, lax.cond(condition, when_true, when_false))


@register("stablehlo.case", takes_known=True)
def _case(context: Context, op: ir.Op, index: Any, *, environment: dict[int, Any]) -> Any:
  num = len(op.regions)
  known = known_int(index)
  if known is not None or num == 1:
    taken = known if known is not None and 0 <= known < num else num - 1
    return run_region(context, op.regions[taken], environment, ())
  branches = [_branch(context, region, environment) for region in op.regions]
  source = analysis.definitions(context).get(op.operands[0])
  if num == 2 and source is not None and source.name == "stablehlo.convert":
    condition = environment.get(source.operands[0])
    if condition is not None and condition.dtype == np.bool_:
      return _with_tokens(op, lax.cond(condition, branches[1], branches[0]))
  return _with_tokens(op, lax.switch(_branch_index(context, source, index, num, environment), branches))


def _branch_index(context: Context, source: ir.Op | None, index: Any, num: int, environment: dict[int, Any]) -> Any:
  """Returns an index for `lax.switch`, which clamps; StableHLO runs the last branch for any index out of range."""
  if source is not None and source.name == "stablehlo.clamp":
    low, unclamped, high = (environment.get(number) for number in source.operands)
    if known_int(low) == 0 and known_int(high) == num - 1 and unclamped is not None:
      return unclamped
  return jnp.where(lax.lt(index, np.zeros((), index.dtype)), np.asarray(num - 1, index.dtype), index)


def _branch(context: Context, region: ir.Region, environment: dict[int, Any]) -> Callable[[], tuple[Any, ...]]:
  """Returns a region without arguments as a function that returns its arrays without tokens."""

  def branch() -> tuple[Any, ...]:
    results = run_region(context, region, environment, ())
    return tuple(jnp.asarray(materialize(value)) for value in results if value is not TOKEN)

  return branch


def _with_tokens(op: ir.Op, arrays: Any) -> tuple[Any, ...]:
  results = iter(arrays)
  return tuple(TOKEN if isinstance(kind, ir.TokenType) else next(results) for kind in op.types)


@register("stablehlo.while", takes_known=True)
def _while(context: Context, op: ir.Op, *operands: Any, environment: dict[int, Any]) -> Any:
  cond, body = op.regions
  loop = loops.read_loop(context, cond, body, operands, environment)
  if loop.num_trips is None:
    return _while_loop(context, cond, loop, operands, environment)
  return _scan(context, loop, operands, environment)


def _while_loop(
  context: Context, cond: ir.Region, loop: loops.LoopAnalysis, operands: Any, environment: Any
) -> list[Any]:
  body = loop.body
  changing = [i for i in range(len(operands)) if i not in loop.invariant and operands[i] is not TOKEN]

  def merge(carry: Sequence[Any]) -> list[Any]:
    return replaced(operands, changing, carry)

  def test(carry: Sequence[Any]) -> Any:
    return materialize(run_region(context, cond, environment, merge(carry))[0])

  def step(carry: Sequence[Any]) -> Any:
    results = _run_body(context, body, body.ops, environment, dict(zip(body.args, merge(carry), strict=True)))
    return tuple(jnp.asarray(materialize(results[body.returns[i]])) for i in changing)

  final = while_loop(test, step, tuple(jnp.asarray(materialize(operands[i])) for i in changing))
  return merge(final)


def _run_body(context: Context, body: ir.Region, ops: Any, outer: dict[int, Any], inside: dict[int, Any]) -> Any:
  environment = {number: outer[number] for number in body.captures}
  environment.update(inside)
  run_ops(context, ops, environment)
  return environment


def _scan(context: Context, loop: loops.LoopAnalysis, operands: Sequence[Any], outer: dict[int, Any]) -> list[Any]:
  body = loop.body
  positions = {number: i for i, number in enumerate(body.args)}
  carried = [i for i in loop.carried if operands[i] is not TOKEN]
  sources = [_source(item, operands, positions, outer) for item in loop.scanned]

  def step(carry: Sequence[Any], slices: Sequence[Any]) -> Any:
    inside = {number: operands[i] for number, i in positions.items() if i in loop.invariant or operands[i] is TOKEN}
    inside.update((body.args[i], value) for i, value in zip(carried, carry, strict=True))
    for item, value in zip(loop.scanned, slices, strict=True):
      inside[item.number] = lax.expand_dims(value, (0,))
    known = _run_body(context, body, body.ops, outer, inside)
    after = tuple(jnp.asarray(materialize(known[body.returns[i]])) for i in carried)
    return after, tuple(lax.squeeze(materialize(known[item.number]), (0,)) for item in loop.stacked)

  if loop.num_trips == 0:
    return list(operands)
  init = tuple(jnp.asarray(materialize(operands[i])) for i in carried)
  final, stacks = lax.scan(step, init, tuple(sources), length=loop.num_trips, reverse=loop.reverse)
  results = list(operands)
  for i, known in loop.final.items():
    results[i] = known
  for i, value in zip(carried, final, strict=True):
    results[i] = loop.final.get(i, value)
  for item, value in zip(loop.stacked, stacks, strict=True):
    results[item.position] = value
  return results


def _source(item: loops.Scanned, operands: Sequence[Any], positions: dict[int, int], outer: dict[int, Any]) -> Any:
  value = operands[positions[item.source]] if item.source in positions else outer[item.source]
  return materialize(value)


@register("stablehlo.map", ignores=("dimensions",))
def _map(context: Context, op: ir.Op, *operands: Any, environment: dict[int, Any]) -> Any:
  return mapped(region_function(context, op.regions[0], environment), jnp.ndim(operands[0]))(*operands)
