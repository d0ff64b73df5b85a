"""Prints which ops converters to other runtimes do not have, for `missing_ops.txt`. Runs alone, without graftax.

    python generate_missing_ops.py CPU_KERNELS_TXT > missing_ops.txt

runs in an interpreter with TensorFlow, tf2onnx and tensorflowjs, and reads the ops that plain ops may use. Converters
to ONNX and TensorFlow.js have lists of ops. For TFLite each op of one or a few tensors of the same dtype, and each
Fourier transform, is converted.
"""

import importlib.util
import itertools
import json
import re
import sys
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path

_OPSET = 18
_FOURIER = re.compile(r"I?R?FFT([23]D)?")
# TFLite has no form of these for float32 or int32. Their inputs are not of one dtype, so that they are not tried.
_NOT_IN_TFLITE = {"Cumprod", "CumulativeLogsumexp", "TensorScatterMax", "TensorScatterMin"}
_NOT_TRIED = {"tflite": _NOT_IN_TFLITE, "onnx": set(), "tfjs": set()}
# tf2onnx 1.17 writes a ScatterND without reduction, which loses all but one of the numbers added to one place. TF.js
# 4.22 runs BitwiseAnd with the names of other operands than it reads, so that they are null.
_WRONG = {"tflite": set(), "onnx": {"ScatterNd"}, "tfjs": {"BitwiseAnd"}}


def _onnx() -> set[str]:
  from tf2onnx import onnx_opset  # noqa: F401  # registers the ops
  from tf2onnx.handler import tf_op

  return {op for sets in tf_op.get_opsets().values() for ops in sets[: _OPSET + 1] for op in ops}


def _tfjs() -> set[str]:
  spec = importlib.util.find_spec("tensorflowjs")
  folder = Path(spec.submodule_search_locations[0]) / "op_list"
  return {op["tfOpName"] for file in folder.glob("*.json") for op in json.loads(file.read_text())}


def _tflite(ops: Iterable[str]) -> set[str]:
  return {op for op in ops if _converts(op)}


def _converts(op: str) -> bool:
  """Returns whether TFLite has the op for float32, int32 or complex64, or the op cannot be tried."""
  import tensorflow as tf
  from tensorflow.python.framework import op_def_registry

  if _FOURIER.fullmatch(op):
    return _runs(_transform(op))
  definition = op_def_registry.get(op)
  inputs = list(definition.input_arg)
  required = {attr.name for attr in definition.attr if not attr.HasField("default_value")}
  same = all(x.type_attr == "T" and not x.number_attr for x in inputs)
  if not same or not 1 <= len(inputs) <= 3 or required - {"T"}:
    return True
  functions = []
  for dtype, shape in itertools.product((tf.float32, tf.int32, tf.complex64), ([4], [2, 2])):
    signature = [tf.TensorSpec(shape, dtype) for _ in inputs]
    try:
      functions.append(_function(op, [x.name for x in inputs], signature))
    except (TypeError, ValueError):
      continue  # not an op of this dtype, or of this rank
  return not functions or any(map(_runs, functions))


def _transform(op: str) -> object:
  import tensorflow as tf

  is_real, rank = op.startswith("RFFT"), int(op[-2]) if op.endswith("D") else 1
  lengths = {"fft_length": [4] * rank} if "R" in op else {}

  def call(x: object) -> object:
    # TFLite takes no complex arguments.
    return getattr(tf.raw_ops, op)(input=x if is_real else tf.cast(x, tf.complex64), **lengths)

  signature = [tf.TensorSpec([4, 4, 4], tf.float32)]
  return tf.function(call, input_signature=signature, autograph=False).get_concrete_function()


def _function(op: str, names: list[str], signature: list[object]) -> object:
  import tensorflow as tf

  def call(*args: object) -> object:
    return getattr(tf.raw_ops, op)(**dict(zip(names, args, strict=True)))

  return tf.function(call, input_signature=signature, autograph=False).get_concrete_function()


def _runs(function: object) -> bool:
  import tensorflow as tf

  try:
    model = tf.lite.TFLiteConverter.from_concrete_functions([function]).convert()
    tf.lite.Interpreter(model_content=model).allocate_tensors()
  except Exception:
    return False
  return True


def main() -> None:
  lines = Path(sys.argv[1]).read_text().splitlines()
  ops = [line.split()[0] for line in lines if not line.startswith("#")]
  have = {"onnx": _onnx(), "tflite": _tflite(ops), "tfjs": _tfjs()}
  versions = ", ".join(f"{name} {version(name)}" for name in ("tf2onnx", "tensorflow_cpu", "tensorflowjs"))
  print("# The ops of cpu_kernels.txt that converters do not have, or compute wrongly; renewed by")
  print(f"# graftax/tools/codegen/generate_missing_ops.py with {versions} (opset {_OPSET}).")
  for consumer, found in have.items():
    missing = [op for op in ops if op not in found - _WRONG[consumer] - _NOT_TRIED[consumer]]
    print(f"{consumer}: {' '.join(missing)}")


if __name__ == "__main__":
  main()
