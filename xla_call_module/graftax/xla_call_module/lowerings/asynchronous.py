"""Asynchronous ops. They run when they are started, because XLA schedules a lifted function itself."""

import dataclasses
from typing import Any

from graftax.xla_call_module import ir
from graftax.xla_call_module.context import Context
from graftax.xla_call_module.evaluate import run_region
from graftax.xla_call_module.registry import register

__all__: list[str] = []


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class _Future:
  """A `!stablehlo.future` value, whose results are computed already."""

  results: tuple[Any, ...]


@register("stablehlo.async_start", takes_known=True)
def _async_start(context: Context, op: ir.Op, *operands: Any, environment: dict[int, Any]) -> _Future:
  return _Future(tuple(run_region(context, op.regions[0], environment, operands)))


@register("stablehlo.async_done", takes_known=True)
def _async_done(context: Context, op: ir.Op, future: _Future) -> tuple[Any, ...]:
  return future.results
