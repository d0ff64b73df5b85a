"""Writes the networks as a SavedModel, an ONNX model, a TFLite model and arrays of weights.

python -m graftax.tools.benchmarks.runtimes.written FOLDER [NAME ...]

TFLite's converter is that of the installed TensorFlow; `tf2onnx` runs later, in an environment that has it.
"""

import json
import math
import os
import sys
from pathlib import Path
from typing import Any

from graftax.tools._tensorflow import TfTensor
from graftax.tools.benchmarks.runtimes.networks import NETWORKS, Network

__all__ = ["FUNCTION_NAME", "main"]

FUNCTION_NAME = "serve"


def main() -> None:
  os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
  os.environ["KERAS_BACKEND"] = "tensorflow"
  _, folder, *names = sys.argv
  for name in names or NETWORKS:
    path = Path(folder) / name
    if not (path / "inputs.json").exists():
      _write(NETWORKS[name], path)


def _write(network: Network, folder: Path) -> None:
  import keras
  import numpy as np
  import tensorflow as tf

  model = network.build()
  generator = np.random.default_rng(0)
  model.set_weights([_draw(weight.path, weight.shape, generator) for weight in model.weights])
  archive = keras.export.ExportArchive()
  archive.track(model)
  specs = [tf.TensorSpec([None, *x.shape[1:]], x.dtype, name=f"x{i}") for i, x in enumerate(model.inputs)]

  def serve(*inputs: TfTensor) -> dict[str, TfTensor]:
    found = model(list(inputs) if len(inputs) > 1 else inputs[0], training=False)
    return {f"y{i}": y for i, y in enumerate(found if isinstance(found, (list, tuple)) else [found])}

  archive.add_endpoint(FUNCTION_NAME, serve, input_signature=specs)
  archive.write_out(str(folder / "saved_model"), verbose=False)
  np.savez(folder / "weights.npz", *model.get_weights())
  if not network.train:
    _write_tflite(folder)
  inputs = [{"shape": list(spec.shape[1:]), "dtype": spec.dtype.name} for spec in specs]
  # The last file, so that a folder without it is not complete.
  (folder / "inputs.json").write_text(json.dumps(inputs), encoding="utf-8")


def _write_tflite(folder: Path) -> None:
  import tensorflow as tf

  try:
    converted = tf.lite.TFLiteConverter.from_saved_model(str(folder / "saved_model")).convert()
  except Exception as e:  # whatever its converter says of ops that TFLite lacks
    (folder / "no_tflite.txt").write_text(str(e), encoding="utf-8")
    return
  (folder / "model.tflite").write_bytes(converted)


def _draw(path: str, shape: Any, generator: Any) -> Any:
  """Returns weights that keep the size of what a layer computes, as He et al. (2015)."""
  last = path.rpartition("/")[2]
  if last in ("gamma", "moving_variance"):
    # Factors near 0.5 keep sums of many layers small.
    return generator.uniform(0.8, 1.2, shape) * (0.5 if last == "gamma" else 1)
  if "kernel" not in last:
    return 0.1 * generator.standard_normal(shape)
  fan_in = math.prod(shape[:2] if len(shape) == 4 and shape[-1] == 1 else shape[:-1])
  return generator.standard_normal(shape) * (0.1 if "predictions" in path else 1) * math.sqrt(2 / fan_in)


if __name__ == "__main__":
  main()
