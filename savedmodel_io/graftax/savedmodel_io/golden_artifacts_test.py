"""Golden artifacts: what TensorFlow releases wrote once, read, converted and run without TensorFlow.

`graftax.tools.artifacts.golden` wrote them, with the outputs that TensorFlow computed. They are never written again.
"""

import json
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from graftax.convert import ConvertOptions
from graftax.savedmodel_io import load, read_weights

_GOLDEN = Path(__file__).parent / "testdata/golden"
_TOLERANCE = 2e-5


def _artifacts() -> dict[str, tuple[Path, str, dict[str, Any]]]:
  found = {}
  for manifest in sorted(_GOLDEN.glob("*/*/artifacts.json")):
    for name, entry in json.loads(manifest.read_text())["artifacts"].items():
      found[f"{manifest.parent.parent.name}-{manifest.parent.name}-{name}"] = (manifest.parent, name, entry)
  return found


_ARTIFACTS = _artifacts()
_MODELS = [key for key, (_, _, entry) in _ARTIFACTS.items() if entry["kind"] == "model"]
_TEXTS = [key for key, (_, _, entry) in _ARTIFACTS.items() if entry["kind"] == "text"]
_WEIGHTS = [key for key, (_, _, entry) in _ARTIFACTS.items() if entry["kind"] == "weights"]


def _some_slow(keys: list[str]) -> list[Any]:
  """Marks three of four artifacts as slow: together they take a minute."""
  return [pytest.param(key, marks=[pytest.mark.slow] if i % 4 else []) for i, key in enumerate(keys)]


def test_there_are_artifacts_of_eight_releases():
  versions = {folder.name.removeprefix("tensorflow_") for folder, _, _ in _ARTIFACTS.values()}
  assert {"1.15.5", "2.15.1", "2.16.2", "2.17.1", "2.18.1", "2.19.1", "2.20.0", "2.21.0"} <= versions
  assert len(_ARTIFACTS) >= 100


@pytest.mark.parametrize("key", _some_slow(_MODELS))
def test_a_model_computes_what_tensorflow_did(key):
  folder, name, entry = _ARTIFACTS[key]
  given, expected = _values(folder, name)
  model = load(folder / entry["path"], entry.get("tags"))
  for asset, text in entry.get("assets", {}).items():
    assert model.assets[asset].read_text() == text
  for actual, wanted in zip(_computed(model, entry, given, sorted(expected)), expected.values(), strict=True):
    actual = np.asarray(actual)
    assert actual.shape == wanted.shape
    np.testing.assert_allclose(actual.astype(wanted.dtype), wanted, rtol=_TOLERANCE, atol=_TOLERANCE)


# Strings and integers to the bit; TensorFlow Text wrote them.
@pytest.mark.parametrize("key", _TEXTS)
def test_a_split_model_of_text_computes_what_tensorflow_did(key):
  folder, name, entry = _ARTIFACTS[key]
  if name == "text_sentencepiece":
    pytest.importorskip("sentencepiece")
  given, expected = _values(folder, name)
  head, body, params, tail = load(folder / entry["path"]).split()
  outputs = tail(jax.jit(body)(params, *head(text=given["text"].tolist())))
  assert sorted(outputs) == sorted(expected)
  for key, wanted in expected.items():
    actual = np.asarray(outputs[key])
    if wanted.dtype.kind == "f":
      np.testing.assert_allclose(actual, wanted, rtol=_TOLERANCE, atol=_TOLERANCE)
    else:
      np.testing.assert_array_equal(actual.astype(bytes) if wanted.dtype.kind == "S" else actual, wanted)


@pytest.mark.parametrize("key", _some_slow(_WEIGHTS))
def test_weights_are_those_that_tensorflow_wrote(key):
  folder, name, entry = _ARTIFACTS[key]
  _, expected = _values(folder, name)
  # The helper process of the guard takes half a second; `keras_files` has tests of it.
  found = read_weights(folder / entry["path"], guard=False)
  weights = {key: value for key, value in found.items() if key in expected or _is_weight(key)}
  if entry.get("names") == "by value":
    # The file has other names for layers than Keras for variables: values are compared as sets.
    ours, theirs = (sorted(map(_fingerprint, values.values())) for values in (weights, expected))
    assert ours == theirs
    return
  assert sorted(weights) == sorted(expected)
  for name, wanted in expected.items():
    ours = weights[name].astype(bytes) if weights[name].dtype == object else weights[name].astype(wanted.dtype)
    np.testing.assert_array_equal(ours, wanted)


def _values(folder: Path, name: str) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
  with np.load(folder / f"{name}.npz") as stored:
    values = {key: stored[key] for key in stored.files}
  given, expected = (
    {key.removeprefix(prefix): value for key, value in sorted(values.items()) if key.startswith(prefix)}
    for prefix in ("in:", "out:")
  )
  return given, expected


def _computed(model: Any, entry: dict[str, Any], given: dict[str, np.ndarray], outputs: list[str]) -> list[Any]:
  """Returns the outputs in the order of their names."""
  options = ConvertOptions(xlacallmodule_strict_checks=False) if entry.get("other_platform") else None
  arrays = list(given.values())
  fn, params = _convert(model, entry, arrays, options)
  run = jax.jit(fn) if entry.get("jit", True) else fn  # without jit, sizes may depend on values
  match entry.get("structure"):
    case None:
      results, _ = run(params, **given)
      assert sorted(results) == outputs
      return [results[name] for name in outputs]
    case "signature":
      results, _ = run(params, **_by_fit(model, arrays))
      return list(results.values())
    case "gradient":
      gradient = jax.grad(lambda x: fn(params, x)[0].sum())(*arrays)
      return [fn(params, *arrays)[0], gradient]
    case "nested":
      return jax.tree.leaves(run(params, {"a": arrays[0], "b": [arrays[1]]})[0])
    case _:
      return jax.tree.leaves(run(params, *arrays)[0])


def _convert(model: Any, entry: dict[str, Any], arrays: list[np.ndarray], options: Any) -> Any:
  if entry.get("structure") == "traces":
    return model.convert(entry["entry"], *arrays, options=options)
  return model.convert(entry.get("entry"), options=options)


def _by_fit(model: Any, arrays: list[np.ndarray]) -> dict[str, np.ndarray]:
  """Returns the arrays under the names of a signature's inputs. Keras names these differently in each version."""
  inputs = model.signatures[model.default_entry].inputs
  assert len(inputs) == len(arrays)
  return {
    name: next(array for array in arrays if array.dtype == spec.dtype.numpy and len(spec.shape.dims) == array.ndim)
    for name, spec in inputs.items()
  }


def _is_weight(name: str) -> bool:
  """Returns whether a tensor is not one of those that TensorFlow adds to every checkpoint of objects."""
  return not name.startswith(("_CHECKPOINTABLE", "save_counter"))


def _fingerprint(array: np.ndarray) -> tuple[Any, ...]:
  return (array.shape, *array.astype(np.float64).ravel().tolist())
