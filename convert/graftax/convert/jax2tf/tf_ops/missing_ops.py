"""Which TensorFlow ops the converters to other runtimes do not have, from `missing_ops.txt`."""

import functools
from importlib import resources

__all__ = ["CONSUMERS", "lacks_complex", "missing_ops"]

CONSUMERS = ("onnx", "tflite", "tfjs")
"""What plain ops can be written for, besides TensorFlow: tf2onnx, and the converters to TFLite and TensorFlow.js."""


# TFLite needs other ops of complex numbers from TensorFlow's runtime (tried with 2.18 and 2.21). The kernels of TF.js
# 4.22 for processors refuse other ops, and those that reshape change the shape of the parts of their operand.
_COMPLEX_OPS: dict[str, frozenset[str]] = {
  "onnx": frozenset(),
  "tflite": frozenset(
    "BroadcastTo Cast ComplexAbs Const ExpandDims Identity Imag Mul RFFT RFFT2D Real Reshape Squeeze".split()
  ),
  "tfjs": frozenset(
    "AddV2 Cast Complex ComplexAbs ConcatV2 FFT IFFT IRFFT Identity Imag Mul RFFT Real StatelessIf StatelessWhile "
    "Sub".split()
  ),
}


def lacks_complex(consumer: str, op: str) -> bool:
  """Returns whether a consumer has an op for real numbers only."""
  return consumer in _COMPLEX_OPS and op not in _COMPLEX_OPS[consumer]


@functools.cache
def missing_ops(consumer: str) -> frozenset[str]:
  """Returns the ops of `cpu_kernels.txt` that a consumer does not have, or computes wrongly."""
  text = resources.files(__package__).joinpath("missing_ops.txt").read_text(encoding="utf-8")
  found = dict(line.split(":", 1) for line in text.splitlines() if line and not line.startswith("#"))
  return frozenset(found[consumer].split())
