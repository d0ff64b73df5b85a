"""Compares nested results and reports where and by how much they differ."""

from collections.abc import Sequence

import jax
import numpy as np
import tree

from graftax.ops_jax import BoundedArray
from graftax.testing.harness.compare import Difference, check_equal, is_inexact, scale_of
from graftax.testing.pytrees import PyTree

__all__ = ["compare", "compare_flat", "without_padding"]


def without_padding(nested: PyTree) -> PyTree:
  """Returns results of a compiled call with arrays of bounded size cut to their length."""
  return jax.tree.map(
    lambda leaf: leaf.cut() if isinstance(leaf, BoundedArray) else leaf,
    nested,
    is_leaf=lambda leaf: isinstance(leaf, BoundedArray),
  )


def compare(actual: PyTree, expected: PyTree, tolerance: tuple[float, float]) -> None:
  """Checks that `actual` has the structure, shapes, dtypes and values of `expected`.

  Raises:
    Difference: they differ; the message says where and by how much.
  """
  try:
    tree.assert_same_structure(actual, expected, check_types=False)
  except (TypeError, ValueError) as e:
    raise Difference(f"structure: {str(e).splitlines()[0]}") from e
  paths = [path for path, _ in tree.flatten_with_path(expected)]
  # A list may replace a tuple, but not a dict.
  if [path for path, _ in tree.flatten_with_path(actual)] != paths:
    raise Difference(
      f"structure: {type(actual).__name__} instead of {type(expected).__name__}, here or in a nested container"
    )
  names = ["/".join(map(str, path)) or "result" for path in paths]
  compare_flat(tree.flatten(actual), tree.flatten(expected), tolerance, names)


def compare_flat(
  actual: Sequence[PyTree], expected: Sequence[PyTree], tolerance: tuple[float, float], names: Sequence[str]
) -> None:
  """Compares flat lists of results like `compare`; `names` are used in messages."""
  if len(actual) != len(expected):
    raise Difference(f"{len(actual)} results instead of {len(expected)}")
  for name, got, want in zip(names, actual, expected, strict=True):
    if isinstance(want, np.ndarray | np.generic):
      _compare_arrays(name, np.asarray(got), np.asarray(want), tolerance)
    elif got != want:
      raise Difference(f"{name}: {got!r} instead of {want!r}")


def _compare_arrays(name: str, got: np.ndarray, want: np.ndarray, tolerance: tuple[float, float]) -> None:
  """Compares two arrays; `atol` is relative to the largest value. Integers, booleans and strings must be equal."""
  dtype = want.dtype if want.dtype == object else np.dtype(jax.dtypes.canonicalize_dtype(want.dtype))
  rtol, atol = tolerance if is_inexact(want.dtype) else (0.0, 0.0)
  check_equal(name, got, want, rtol, atol * scale_of(want) if atol else 0.0, dtype)
