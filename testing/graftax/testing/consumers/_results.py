"""Converts and runs models, compares their results, and prints a line of JSON for each. Runs alone, without graftax."""

import json
import sys
import tempfile
from collections.abc import Callable, Mapping

import numpy as np

__all__ = ["main"]

_TOLERANCE = 1e-5

Run = Callable[[str, Mapping[str, np.ndarray], str], Mapping[str, np.ndarray]]


def main(run: Run) -> None:
  """Runs the models that the command line names.

  Args:
    run: converts a SavedModel, and returns its results for inputs. It may write into the folder that comes last.
  """
  for path in sys.argv[1:]:
    arrays = np.load(f"{path}.npz")
    inputs = {name: arrays[name] for name in arrays.files if name.startswith("x")}
    expected = {name: arrays[name] for name in arrays.files if name.startswith("y")}
    row: dict[str, object] = {"path": path, "right": False}
    try:
      with tempfile.TemporaryDirectory() as folder:
        found = run(path, inputs, folder)
      differences = {name: _difference(np.asarray(found[name]), expected[name]) for name in expected}
      row["right"] = all(difference <= _TOLERANCE for difference in differences.values())
      if not row["right"]:
        row["error"] = f"wrong: differs by {differences}"
    except BaseException as e:  # converters raise SystemExit, too
      if isinstance(e, KeyboardInterrupt):
        raise
      row["error"] = f"{type(e).__name__}: {' '.join(str(e).split())[:6000]}"
    print("\n" + json.dumps(row), flush=True)


def _difference(got: np.ndarray, expected: np.ndarray) -> float:
  """Returns the largest difference as part of the largest value; infinity if shapes or the places of NaN differ."""
  if got.shape != expected.shape:
    return np.inf
  got, expected = got.astype(np.float64), expected.astype(np.float64)
  finite = np.isfinite(expected)
  if not np.array_equal(got[~finite], expected[~finite], equal_nan=True):
    return np.inf
  if not finite.any():
    return 0.0
  difference = float(np.max(np.abs(got[finite] - expected[finite])) / max(1.0, float(np.max(np.abs(expected[finite])))))
  return np.inf if np.isnan(difference) else difference
