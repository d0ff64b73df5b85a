"""Fourier transforms along the last one to three axes."""

from collections.abc import Sequence
from typing import Any

from graftax.convert.jax2tf.tf_ops.builder import Builder
from graftax.convert.jax2tf.tf_ops.registry import Unsupported, rule
from graftax.convert.jax2tf.tf_ops.tensors import Tensor
from graftax.graphdef_ir import DType

_OPS = {
  "FFT": ("FFT", "FFT2D", "FFT3D"),
  "IFFT": ("IFFT", "IFFT2D", "IFFT3D"),
  "IRFFT": ("IRFFT", "IRFFT2D", "IRFFT3D"),
  "RFFT": ("RFFT", "RFFT2D", "RFFT3D"),
}


@rule("fft")
def fft(b: Builder, x: Tensor, *, fft_type: Any, fft_lengths: Sequence[Any], out: Any) -> Tensor:
  """Returns a Fourier transform, of complex numbers or to or from the half that real numbers need."""
  kind = fft_type.name
  if not 1 <= len(fft_lengths) <= 3:
    raise Unsupported(f"a transform along {len(fft_lengths)} axes; expected 1 to 3")
  op = _OPS[kind][len(fft_lengths) - 1]
  lengths = b.shape(tuple(fft_lengths))
  match kind:
    case "RFFT":
      return b.op(op, x, lengths, shape=out.shape, Tcomplex=DType.from_numpy(out.dtype))
    case "IRFFT":
      return b.op(op, x, lengths, shape=out.shape, Treal=DType.from_numpy(out.dtype))
  return b.op(op, x, shape=out.shape)
