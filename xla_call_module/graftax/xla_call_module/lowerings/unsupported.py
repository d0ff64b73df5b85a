"""Ops that never lift, each with the reason."""

from typing import Any

from graftax.xla_call_module import communication, ir
from graftax.xla_call_module.context import Context
from graftax.xla_call_module.registry import register

__all__: list[str] = []


@register(*communication.HOST_TRANSFERS, takes_known=True, attributes=None)
def _host_transfer(context: Context, op: ir.Op, *operands: Any) -> Any:
  raise context.unsupported(op, "it exchanges data with the process that exported it.", embeds=False)


@register("stablehlo.uniform_quantize", "stablehlo.uniform_dequantize", takes_known=True)
def _quantize(context: Context, op: ir.Op, *operands: Any) -> Any:
  raise context.unsupported(
    op, "quantized types have no counterpart in JAX; XLA does not run them either.", embeds=False
  )
