"""Compares what a module asks for with limits before it is lifted or embedded: depth, inlined ops, sizes of arrays."""

import functools
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from graftax.xla_call_module import errors, ir
from graftax.xla_call_module.budget import Budget, Limits
from graftax.xla_call_module.survey import WITH_WINDOWS, FunctionSize, Survey

__all__ = ["check", "num_bytes"]


def check(found: Survey, module_ir: ir.ModuleIR, limits: Limits) -> Callable[[], Budget]:
  """Checks a module, given its survey, and returns a function that makes the budget of one call.

  Raises:
    LimitExceededError: functions and regions are too deep inside each other, calls multiply, or an array is too large.
    UnsupportedModuleError: a function calls itself.
  """
  given = sum(map(num_bytes, module_ir.main.types)) + found.stored_bytes
  num_ops = sum(size.num_ops for size in found.sizes.values())
  make_budget = functools.partial(Budget, limits, num_nodes=num_ops, given_bytes=given)
  budget = make_budget()
  inlined: dict[str, tuple[int, int]] = {}
  for name in _callees_first(found.sizes):
    inlined[name] = _inlined(found.sizes[name], inlined)
    if inlined[name][1] > limits.depth:
      budget.check_depth(inlined[name][1], f"function {name!r}")
  budget.check_steps(inlined["main"][0], "function 'main'")
  _check_arrays(found, module_ir, budget)
  return make_budget


def num_bytes(kind: Any) -> int:
  """Returns the size of a tensor type, with open dimensions as 1; 0 for other types."""
  if not isinstance(kind, ir.TensorType):
    return 0
  return math.prod([1 if dim is None else dim for dim in kind.shape]) * kind.dtype.itemsize


def _callees_first(sizes: Mapping[str, FunctionSize]) -> list[str]:
  """Returns the names of all functions, each after those that it calls."""
  done: dict[str, None] = {}
  for start in sizes:
    if not sizes[start].calls:
      done[start] = None
      continue
    active: dict[str, Iterator[str]] = {}
    pending = [start]
    while pending:
      name = pending[-1]
      if name in done:
        pending.pop()
        continue
      if name not in active:
        active[name] = iter([callee for callee, _ in sizes[name].calls if callee in sizes])
      following = next((callee for callee in active[name] if callee not in done), None)
      if following is None:
        done[name] = None
        del active[name]
      elif following in active:
        raise errors.UnsupportedModuleError(f"function {following!r} calls itself; JAX does not support recursion.")
      else:
        pending.append(following)
  return list(done)


def _inlined(size: FunctionSize, inlined: Mapping[str, tuple[int, int]]) -> tuple[int, int]:
  """Returns the number of ops and of levels that a function has with the functions that it calls."""
  num_ops, levels = size.num_ops, size.depth
  for name, depth in size.calls:
    if name in inlined:
      num_ops += inlined[name][0]
      levels = max(levels, depth + inlined[name][1])
  return num_ops, levels


def _check_arrays(found: Survey, module_ir: ir.ModuleIR, budget: Budget) -> None:
  for kind, op in found.types:
    if num_bytes(kind) > budget.limits.array_bytes:
      budget.check_array([1 if dim is None else dim for dim in kind.shape], kind.dtype.itemsize, op.place)
  for _, op in found.ops:
    if op.name in WITH_WINDOWS:
      _check_window(op)
  budget.check_results(sum(map(num_bytes, module_ir.main.result_types)), "function 'main'")


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
