"""Finds `shard_map` in modules of GSPMD, where it is a call between two changes of shape.

JAX before 0.7 writes `SPMDFullToShardShape` for each operand, a call of the body, and `SPMDShardToFullShape` for each
result. Together they are the `sdy.manual_computation` of newer modules.
"""

import collections
import dataclasses

from graftax.xla_call_module import ir

__all__ = ["with_manual_computations"]

_TO_SHARDS, _TO_FULL = "SPMDFullToShardShape", "SPMDShardToFullShape"


def with_manual_computations(module_ir: ir.ModuleIR) -> ir.ModuleIR:
  """Returns the module with a `sdy.manual_computation` for each call between changes of shape."""
  ops = [op for function in module_ir.functions.values() for op in ir.walk(function.body)]
  if not any(_target(op) == _TO_SHARDS for op in ops):
    return module_ir
  calls = collections.Counter(op.attrs.text("callee") for op in ops if op.name == "func.call")
  defined = {number: op for op in ops for number in op.results}
  users: dict[int, list[ir.Op | None]] = collections.defaultdict(list)
  for op in ops:
    for number in op.operands:
      users[number].append(op)
  bodies = [function.body for function in module_ir.functions.values()]
  for region in (*bodies, *(inner for op in ops for inner in op.regions)):
    for number in region.returns:
      users[number].append(None)
  replaced: dict[int, ir.Op | None] = {}
  for op in ops:
    # A body that is called once keeps its numbers.
    if op.name == "func.call" and calls[op.attrs.text("callee")] == 1:
      _replace_call(module_ir, op, defined, users, replaced)
  for op in ops:
    if _target(op) == _TO_SHARDS and all(id(user) in replaced for user in users[op.results[0]]):
      replaced[id(op)] = None
  functions = {name: _rewritten(function, replaced) for name, function in module_ir.functions.items()}
  return dataclasses.replace(module_ir, functions=functions)


def _target(op: ir.Op | None) -> str:
  """Returns the target of a custom call of one value that returns one, and no text for another op."""
  is_change = op is not None and op.name == "stablehlo.custom_call" and len(op.operands) == len(op.results) == 1
  return str(op.attrs["call_target_name"]) if op is not None and is_change else ""


def _sharding(op: ir.Op | None) -> str:
  return str(op.attrs.get("mhlo.sharding", "")) if op is not None else ""


def _replace_call(
  module_ir: ir.ModuleIR,
  call: ir.Op,
  defined: dict[int, ir.Op],
  users: dict[int, list[ir.Op | None]],
  replaced: dict[int, ir.Op | None],
) -> None:
  """Stores the manual computation for a call, and None for the changes of shape behind it, by identity."""
  before = [defined.get(number) for number in call.operands]
  after: list[ir.Op] = []
  dropped: list[ir.Op] = []
  for number in call.results:
    user = _only(users[number])
    if user is not None and _target(user) == "Sharding" and _sharding(user) == "{manual}":
      dropped.append(user)
      user = _only(users[user.results[0]])
    if user is None or _target(user) != _TO_FULL:
      return
    after.append(user)
  if not all(op is not None and _target(op) == _TO_SHARDS for op in before):
    return
  outer = [op.operands[0] for op in before if op is not None]
  body = module_ir.functions[call.attrs.text("callee")].body
  replaced[id(call)] = ir.Op(
    "sdy.manual_computation",
    tuple(outer),
    tuple(op.results[0] for op in after),
    tuple(op.type for op in after),
    # In newer modules, `in_shardings` and `out_shardings` are texts of Shardy, not lists of HLO shardings.
    ir.Attributes(
      in_shardings=tuple(_sharding(defined.get(number)) for number in outer),
      out_shardings=tuple(map(_sharding, after)),
      manual_axes=(),
    ),
    (body,),
    call.location,
  )
  for op in (*after, *dropped):
    replaced[id(op)] = None


def _only(users: list[ir.Op | None]) -> ir.Op | None:
  """Returns the op that uses a value; None if there are others, or if a region returns it."""
  return users[0] if len(users) == 1 else None


def _rewritten(function: ir.Function, replaced: dict[int, ir.Op | None]) -> ir.Function:
  return dataclasses.replace(function, body=_region(function.body, replaced))


def _region(region: ir.Region, replaced: dict[int, ir.Op | None]) -> ir.Region:
  ops = []
  for op in region.ops:
    now = replaced.get(id(op), op)
    if now is not None:
      ops.append(dataclasses.replace(now, regions=tuple(_region(inner, replaced) for inner in now.regions)))
  return dataclasses.replace(region, ops=tuple(ops))
