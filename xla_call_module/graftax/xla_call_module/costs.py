"""Compares what a module asks for with limits before it is lifted or embedded: depth, inlined ops, sizes of arrays."""

import dataclasses
import functools
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from graftax.xla_call_module import errors, ir
from graftax.xla_call_module.budget import Budget, Limits

__all__ = ["check", "num_bytes"]


@dataclasses.dataclass(slots=True)
class _Cost:
  """What one function asks for, without and then with the functions that it calls."""

  num_ops: int = 0
  depth: int = 0
  calls: list[tuple[str, int]] = dataclasses.field(default_factory=list)


def check(module_ir: ir.ModuleIR, limits: Limits) -> Callable[[], Budget]:
  """Checks a module and returns a function that makes the budget of one call.

  Raises:
    LimitExceededError: functions and regions are too deep inside each other, calls multiply, or an array is too large.
    UnsupportedModuleError: a function calls itself.
  """
  costs = {name: _own_cost(function.body) for name, function in module_ir.functions.items()}
  given = sum(map(num_bytes, module_ir.main.types)) + _stored_bytes(module_ir)
  num_ops = sum(cost.num_ops for cost in costs.values())
  make_budget = functools.partial(Budget, limits, num_nodes=num_ops, given_bytes=given)
  budget = make_budget()
  for name in _callees_first(costs):
    _add_callees(costs[name], costs)
    budget.check_depth(costs[name].depth, f"function {name!r}")
  budget.check_steps(costs["main"].num_ops, "function 'main'")
  _check_arrays(module_ir, budget)
  return make_budget


def num_bytes(kind: Any) -> int:
  """Returns the size of a tensor type, with open dimensions as 1; 0 for other types."""
  if not isinstance(kind, ir.TensorType):
    return 0
  return math.prod(1 if dim is None else dim for dim in kind.shape) * kind.dtype.itemsize


def _own_cost(body: ir.Region) -> _Cost:
  cost = _Cost(depth=1)
  pending = [(body, 1)]
  while pending:
    region, depth = pending.pop()
    cost.depth = max(cost.depth, depth)
    cost.num_ops += len(region.ops)
    for op in region.ops:
      if op.regions:
        pending += [(inner, depth + 1) for inner in op.regions]
      cost.calls += [(name, depth) for name in _callees(op)]
  return cost


_CALLS = {
  "func.call": "callee",
  "stablehlo.composite": "decomposition",
  "stablehlo.custom_call": "called_computations",
}


def _callees(op: ir.Op) -> tuple[str, ...]:
  attribute = _CALLS.get(op.name)
  found = None if attribute is None else op.attrs.get(attribute)
  return (found,) if isinstance(found, str) else tuple(map(str, found or ()))


def _callees_first(costs: Mapping[str, _Cost]) -> list[str]:
  """Returns the names of all functions, each after those that it calls."""
  done: dict[str, None] = {}
  for start in costs:
    active: dict[str, Iterator[str]] = {}
    pending = [start]
    while pending:
      name = pending[-1]
      if name in done:
        pending.pop()
        continue
      if name not in active:
        active[name] = iter([callee for callee, _ in costs[name].calls if callee in costs])
      following = next((callee for callee in active[name] if callee not in done), None)
      if following is None:
        done[name] = None
        del active[name]
      elif following in active:
        raise errors.UnsupportedModuleError(f"function {following!r} calls itself; JAX does not support recursion.")
      else:
        pending.append(following)
  return list(done)


def _add_callees(cost: _Cost, costs: Mapping[str, _Cost]) -> None:
  for name, depth in cost.calls:
    callee = costs.get(name)
    if callee is not None:
      cost.num_ops += callee.num_ops
      cost.depth = max(cost.depth, depth + callee.depth)


def _stored_bytes(module_ir: ir.ModuleIR) -> int:
  """Returns the size of the constants that the module stores in full."""
  found = 0
  for function in module_ir.functions.values():
    for op in ir.walk(function.body):
      if op.name == "stablehlo.constant":
        value = op.attrs.get("value")
        if isinstance(value, np.ndarray) and any(value.strides):
          found += value.nbytes
  return found


def _check_arrays(module_ir: ir.ModuleIR, budget: Budget) -> None:
  seen: set[int] = set()  # ids of types, which are decoded once per module
  for function in module_ir.functions.values():
    for op in ir.walk(function.body):
      if op.name in _WITH_WINDOWS:
        _check_window(op)
      for kind in op.types:
        if id(kind) not in seen:
          seen.add(id(kind))
          _check_type(kind, op, budget)
  budget.check_results(sum(map(num_bytes, module_ir.main.result_types)), "function 'main'")


_WITH_WINDOWS = ("stablehlo.convolution", "stablehlo.reduce_window", "stablehlo.select_and_scatter")
_WINDOW_ATTRIBUTES = (
  "base_dilations",
  "lhs_dilation",
  "padding",
  "rhs_dilation",
  "window_dilations",
  "window_dimensions",
  "window_strides",
)
# XLA multiplies and adds these numbers in 64 bits, and aborts the process if the result does not fit.
_MAX_WINDOW_NUMBER = 2**31 - 1


def _check_window(op: ir.Op) -> None:
  for name in _WINDOW_ATTRIBUTES:
    numbers = np.asarray(op.attrs.get(name, 0))
    if numbers.size and numbers.dtype.kind in "iu" and np.abs(numbers).max() > _MAX_WINDOW_NUMBER:
      raise errors.UnsupportedModuleError(
        f"{op.place}: {name} is {numbers.tolist()}; expected numbers up to {_MAX_WINDOW_NUMBER}."
      )


def _check_type(kind: Any, op: ir.Op, budget: Budget) -> None:
  if isinstance(kind, ir.TensorType):
    budget.check_array([1 if dim is None else dim for dim in kind.shape], kind.dtype.itemsize, op.place)
