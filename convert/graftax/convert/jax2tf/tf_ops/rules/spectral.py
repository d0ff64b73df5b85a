"""Fourier transforms along the last one to three axes."""

import functools
from collections.abc import Sequence
from typing import Any

import jax

from graftax.convert.jax2tf.tf_ops import complex_parts
from graftax.convert.jax2tf.tf_ops.builder import Builder
from graftax.convert.jax2tf.tf_ops.registry import Unsupported, rule
from graftax.convert.jax2tf.tf_ops.rules import _fourier
from graftax.convert.jax2tf.tf_ops.rules._common import reshape
from graftax.convert.jax2tf.tf_ops.rules._traced import traced_arrays
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
  if _lacks(b, kind, fft_lengths):
    return _by_products(b, x, kind, fft_lengths, out)
  if b.library.consumer == "tfjs":
    return _read_by_tfjs(b, x, fft_type, fft_lengths, out)
  return _transform(b, x, kind, fft_lengths, out)


def _lacks(b: Builder, kind: str, lengths: Sequence[Any]) -> bool:
  """Returns whether the consumer has no such transform. That of TFLite's interpreter has lengths of powers of two."""
  if b.library.consumer == "tflite" and not all(isinstance(n, int) and n & (n - 1) == 0 for n in lengths):
    return True
  return b.library.consumer == "onnx" or b.lacks(_OPS[kind][len(lengths) - 1])


def _by_products(b: Builder, x: Tensor, kind: str, lengths: Sequence[Any], out: Any) -> Tensor:
  if not all(isinstance(n, int) for n in lengths):
    raise Unsupported(f"the converter to {b.library.consumer} does not read transforms of open sizes")
  operands = [x] if kind == "RFFT" else complex_parts.parts(b, x)
  found = traced_arrays(b, functools.partial(_fourier.transform, kind, tuple(lengths)), operands)
  if kind == "IRFFT":
    return found[0]
  return b.op("Complex", *found, shape=out.shape, Tout=DType.from_numpy(out.dtype))


def _read_by_tfjs(b: Builder, x: Tensor, fft_type: Any, fft_lengths: Sequence[Any], out: Any) -> Tensor:
  """Returns a transform of a matrix. TF.js returns a matrix for a vector too, and it reshapes the operand in place."""
  rows = out if x.rank > 1 else jax.ShapeDtypeStruct((1, *out.shape), out.dtype)
  if x.dtype.kind == "c":
    x = b.op("Complex", *complex_parts.parts(b, x), shape=x.shape, Tout=DType.from_numpy(x.dtype))
  x = x if x.rank > 1 else reshape(b, x, (1, *x.shape))
  return reshape(b, _transform(b, x, fft_type.name, fft_lengths, rows), out.shape)


def _transform(b: Builder, x: Tensor, kind: str, fft_lengths: Sequence[Any], out: Any) -> Tensor:
  op = _OPS[kind][len(fft_lengths) - 1]
  lengths = b.shape(tuple(fft_lengths))
  match kind:
    case "RFFT":
      return b.op(op, x, lengths, shape=out.shape, Tcomplex=DType.from_numpy(out.dtype))
    case "IRFFT":
      return b.op(op, x, lengths, shape=out.shape, Treal=DType.from_numpy(out.dtype))
  return b.op(op, x, shape=out.shape)
