"""Stores artifacts and what is expected of them."""

from __future__ import annotations

import json
import os
import shutil
from typing import Any

import numpy as np

__all__ = ["Arrays", "Recorder", "TensorFlow", "TfTensor", "floats", "integers"]

# TensorFlow ships no type information, so a type checker takes each of these for `Any`. Python before 3.10, which older
# releases need, has no `TypeAlias`.
TensorFlow = Any
"""The `tensorflow` module, or its `compat.v1`."""
TfTensor = Any
"""A tensor, eager or of a graph, or what TensorFlow reads as one, such as a variable."""
Arrays = Any
"""Arrays by name, in a list or alone, as `Recorder.model` takes them."""


def floats(values: Arrays) -> np.ndarray:
  """Returns a float32 array."""
  return np.array(values, np.float32)


def integers(values: Arrays, dtype: Any = np.int64) -> np.ndarray:
  """Returns an int64 array, or one of another integer type."""
  return np.array(values, dtype)


class Recorder:
  """One folder of artifacts of one version of TensorFlow, with `artifacts.json`, which lists them."""

  def __init__(self, tf: TensorFlow, folder: str):
    self._version = tf.__version__
    self._folder = os.path.join(folder, "tensorflow_" + tf.__version__)
    self._entries = {}  # type: dict[str, dict[str, Any]]
    os.makedirs(self._folder)

  def path(self, name: str) -> str:
    """Returns where an artifact goes: a folder that does not exist yet, or a file."""
    return os.path.join(self._folder, name)

  def model(self, name: str, inputs: Arrays, outputs: Arrays, file: str = "", **options: Any) -> None:
    """Notes what a model computes.

    Args:
      name: the artifact.
      inputs: arrays by the name of the input, or a list of positional ones.
      outputs: arrays by name, a list or one array.
      file: the path of the model, if it is not that of the artifact.
      **options: `entry`, `tags`, `assets` and the like, for the test.
    """
    arrays = {}
    for prefix, values in (("in", inputs), ("out", outputs)):
      items = (
        values.items() if isinstance(values, dict) else enumerate(values if isinstance(values, list) else [values])
      )
      arrays.update({prefix + ":" + str(key): _plain(value) for key, value in items})
    self._add(name, "model", arrays, file, options)

  def weights(self, name: str, values: Arrays, file: str = "", **options: Any) -> None:
    """Notes the values of a file of weights, by name."""
    self._add(name, "weights", {"out:" + key: _plain(value) for key, value in values.items()}, file, options)

  def text(self, name: str, inputs: Arrays, outputs: Arrays) -> None:
    """Notes what a model computes from text: arrays by name, with strings among them."""
    arrays = {"in:" + key: _plain(value) for key, value in inputs.items()}
    arrays.update({"out:" + key: _plain(value) for key, value in outputs.items()})
    self._add(name, "text", arrays, "", {})

  def discard(self, name: str) -> None:
    """Removes what a writer that failed has left."""
    self._entries.pop(name, None)
    path = self.path(name)
    if os.path.exists(path + ".npz"):
      os.remove(path + ".npz")
    if os.path.isdir(path):
      shutil.rmtree(path)
    elif os.path.exists(path):
      os.remove(path)

  def close(self) -> None:
    """Writes the list."""
    with open(os.path.join(self._folder, "artifacts.json"), "w") as f:
      json.dump({"tensorflow": self._version, "artifacts": self._entries}, f, indent=1, sort_keys=True)
      f.write("\n")
    print(len(self._entries), "artifacts in", self._folder)

  def _add(self, name: str, kind: str, arrays: Arrays, file: str, options: Any) -> None:
    np.savez_compressed(os.path.join(self._folder, name + ".npz"), **arrays)
    entry = {"kind": kind, "path": file or name}
    entry.update(options)
    self._entries[name] = entry


def _plain(value: Any) -> np.ndarray:
  """Returns an array that numpy can store: what it has no type for is widened, and strings are bytes."""
  array = np.asarray(value)
  if array.dtype == object:
    return array.astype(bytes)
  if array.dtype.kind == "V" or "float8" in array.dtype.name or array.dtype.name in ("bfloat16", "int4", "uint4"):
    return array.astype(np.float32)
  return array
