"""Which TensorFlow ops the converters to other runtimes do not have, from `missing_ops.txt`."""

import functools
from importlib import resources

__all__ = ["CONSUMERS", "lacks_complex", "missing_ops"]

CONSUMERS = ("onnx", "tflite", "tfjs")
"""What plain ops can be written for, besides TensorFlow: tf2onnx, and the converters to TFLite and TensorFlow.js."""


# Tried with TensorFlow 2.18 and 2.21: TFLite needs other ops of complex numbers from TensorFlow's runtime.
_COMPLEX_OPS = {
  "tflite": frozenset(
    "BroadcastTo Cast ComplexAbs Const ExpandDims Identity Imag Mul RFFT RFFT2D Real Reshape Squeeze".split()
  )
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
