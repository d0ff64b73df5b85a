"""Functions such as softmax, whose results do not depend on a value that they subtract."""

from typing import Any

from jax import Array, lax

from graftax.xla_call_module import ir
from graftax.xla_call_module.context import Context
from graftax.xla_call_module.evaluate import run_region
from graftax.xla_call_module.patterns.softmax import SHIFTED
from graftax.xla_call_module.registry import register

__all__: list[str] = []


@register(SHIFTED)
def _shifted(context: Context, op: ir.Op, x: Array, shift: Array, *, environment: dict[int, Any]) -> Any:
  return run_region(context, op.regions[0], environment, (x, lax.stop_gradient(shift)))
