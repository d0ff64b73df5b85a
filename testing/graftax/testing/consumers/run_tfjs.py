"""Converts SavedModels for TensorFlow.js and runs them in node. Runs alone.

    python run_tfjs.py FOLDER...

The environment variable NODE_PATH names a folder with the npm package @tensorflow/tfjs.
"""

import importlib.util
import json
import os
import subprocess
import sys
import types
from collections.abc import Mapping
from typing import Any

import numpy as np

_SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "run_tfjs.js")


def _put_stubs() -> None:
  """Replaces what the package imports and the converter of SavedModels does not need: decision forests, JAX, Keras."""
  place = str(importlib.util.find_spec("tensorflowjs").submodule_search_locations[0])  # type: ignore[union-attr]
  for name, folder in (
    ("tensorflow_decision_forests", ""),
    ("tensorflowjs", place),
    ("tensorflowjs.converters", os.path.join(place, "converters")),
  ):
    stub: Any = types.ModuleType(name)
    stub.keras = None
    stub.__path__ = [folder]
    sys.modules[name] = stub


def run(path: str, inputs: Mapping[str, np.ndarray], folder: str) -> Mapping[str, np.ndarray]:
  from tensorflowjs.converters import tf_saved_model_conversion_v2

  tf_saved_model_conversion_v2.convert_tf_saved_model(path, folder)
  given = {
    name: {"shape": x.shape, "dtype": x.dtype.name, "values": np.asarray(x, np.float64).ravel().tolist()}
    for name, x in inputs.items()
  }
  done = subprocess.run(["node", _SCRIPT, folder], input=json.dumps(given), capture_output=True, text=True, check=False)
  if done.returncode:
    raise RuntimeError(done.stderr[-3000:])
  found = json.loads(done.stdout.splitlines()[-1])
  return {name: np.array(y["values"], np.float64).reshape(y["shape"]) for name, y in found.items()}


if __name__ == "__main__":
  from _results import main

  _put_stubs()
  main(run)
