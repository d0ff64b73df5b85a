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

# The package imports decision forests, JAX and Keras, which the converter of SavedModels does not need.
_PLACE = str(importlib.util.find_spec("tensorflowjs").submodule_search_locations[0])  # type: ignore[union-attr]
for _name, _folder in (
  ("tensorflow_decision_forests", ""),
  ("tensorflowjs", _PLACE),
  ("tensorflowjs.converters", os.path.join(_PLACE, "converters")),
):
  _stub: Any = types.ModuleType(_name)
  _stub.keras = None
  _stub.__path__ = [_folder]
  sys.modules[_name] = _stub

from _results import main  # noqa: E402
from tensorflowjs.converters import tf_saved_model_conversion_v2  # noqa: E402

_SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "run_tfjs.js")


def run(path: str, inputs: Mapping[str, np.ndarray], folder: str) -> Mapping[str, np.ndarray]:
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
  main(run)
