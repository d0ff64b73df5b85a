"""`fft`: discrete Fourier transforms."""

from jax import Array, lax

from graftax.xla_call_module import ir
from graftax.xla_call_module.context import Context
from graftax.xla_call_module.registry import register

__all__: list[str] = []


@register("stablehlo.fft", attributes=("fft_length", "fft_type"))
def _fft(context: Context, op: ir.Op, x: Array) -> Array:
  return lax.fft(x, lax.FftType[op.attrs.text("fft_type")], op.attrs.integers("fft_length"))
