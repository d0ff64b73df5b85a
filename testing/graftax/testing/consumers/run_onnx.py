"""Converts SavedModels with tf2onnx and runs them in ONNX Runtime. Runs alone.

python run_onnx.py FOLDER...
"""

import os
import sys
from collections.abc import Mapping

import numpy as np

_OPSET = "18"


def run(path: str, inputs: Mapping[str, np.ndarray], folder: str) -> Mapping[str, np.ndarray]:
  import onnxruntime
  import tf2onnx.convert

  output = os.path.join(folder, "model.onnx")
  arguments, sys.argv = sys.argv, ["tf2onnx", "--saved-model", path, "--output", output, "--opset", _OPSET]
  try:
    tf2onnx.convert.main()
  finally:
    sys.argv = arguments
  session = onnxruntime.InferenceSession(output, providers=["CPUExecutionProvider"])
  names = [output.name for output in session.get_outputs()]
  wanted = {given.name for given in session.get_inputs()}
  found = session.run(None, {name: x for name, x in inputs.items() if name in wanted})
  return dict(zip(names, found, strict=True))


if __name__ == "__main__":
  from _results import main

  main(run)
