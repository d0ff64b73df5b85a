"""Runs SavedModels and their gradients in TensorFlow and prints a line of JSON for each. Runs alone, without graftax.

    python run_models.py FOLDER...

Beside each folder is a file with its inputs, results and gradients, as `make_models.py` writes it.
"""

import json
import re
import sys
from typing import Any

import numpy as np
import tensorflow as tf

_TOLERANCE = 2e-5


def _run(path: str) -> dict[str, float | str]:
  """Returns the largest difference of the result and of the gradients, as part of their size, or the error."""
  expected = np.load(re.sub(r"@.*", "", path) + ".npz")
  inputs = {name: tf.constant(expected[name]) for name in expected.files if re.fullmatch(r"x\d", name)}
  model: Any = tf.saved_model.load(path)
  found: dict[str, float | str] = {}
  if "gradient_0" not in expected.files:
    found["value"] = _difference(model.signatures["serving_default"](**inputs)["y"].numpy(), expected["y"])
    return found
  with tf.GradientTape() as tape:
    tape.watch(list(inputs.values()))
    result = model.signatures["serving_default"](**inputs)["y"]
    total = tf.reduce_sum(result)
  found["value"] = _difference(result.numpy(), expected["y"])
  gradients = tape.gradient(total, list(inputs.values()))
  found["gradient"] = max(_difference(g.numpy(), expected[f"gradient_{i}"]) for i, g in enumerate(gradients))
  return found


def _difference(got: np.ndarray, expected: np.ndarray) -> float:
  if got.shape != expected.shape:
    raise ValueError(f"shape {got.shape}; expected {expected.shape}")
  return float(np.max(np.abs(got - expected)) / max(1.0, float(np.max(np.abs(expected)))))


def main(paths: list[str]) -> None:
  for path in paths:
    try:
      found = _run(path)
      right = all(isinstance(value, float) and value < _TOLERANCE for value in found.values())
    except Exception as e:
      found, right = {"error": f"{type(e).__name__}: {' '.join(str(e).split())[:300]}"}, False
    print(json.dumps({"path": path, "tensorflow": tf.__version__, "right": right, **found}), flush=True)


if __name__ == "__main__":
  main(sys.argv[1:])
