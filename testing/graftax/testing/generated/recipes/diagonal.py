"""Recipes of diagonal ops."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from graftax.testing.generated.draw import Draw
from graftax.testing.generated.recipes.registry import recipe, recipes, recipes_of_shapes


def _band(d: Draw, rows: int, columns: int) -> tuple[np.ndarray, tuple[int, ...]]:
  """Returns `k` and the shape of the diagonals that it selects."""
  low, high = sorted(d.integer(1 - max(rows, 1), max(columns, 1) - 1) for _ in range(2))
  if d.chance(0.4):
    low = high
  longest = min(rows + min(high, 0), columns - max(low, 0))
  if low == high:
    return np.array(low if d.chance(0.5) else [low], np.int32), (longest,)
  return np.array([low, high], np.int32), (high - low + 1, longest)


@recipe("MatrixSetDiagV2", "MatrixSetDiagV3")
def matrix_set_diag_v2(d: Draw) -> Sequence[Any]:
  shape = (*d.shape(0, 2), d.size(1, 4), d.size(1, 4))
  k, diagonals = _band(d, *shape[-2:])
  return [d.array(shape), d.array((*shape[:-2], *diagonals)), k]


@recipe("MatrixDiagV2", "MatrixDiagV3")
def matrix_diag_v2(d: Draw) -> Sequence[Any]:
  """A band of diagonals, with given and inferred sizes."""
  rows, columns = d.size(1, 5), d.size(1, 5)
  k, diagonals = _band(d, rows, columns)
  given = [n if d.chance(0.5) else -1 for n in (rows, columns)]
  if d.chance(0.2):
    # Inferred sizes follow from the longest diagonal alone, even if they leave diagonals of the band outside.
    given, diagonals = [-1, -1], (*diagonals[:-1], d.size(1, 4))
  batch = d.shape(0, 2)
  return [
    d.array((*batch, *diagonals)),
    k,
    *(np.array(n, np.int32) for n in given),
    d.array(()),
  ]


recipes_of_shapes({"Diag": lambda d, s: [d.array(s)]}, (1, 3, 3))
recipes_of_shapes({"DiagPart": lambda d, s: [d.array(s * 2)]}, (1, 2, 3))
recipes_of_shapes({"MatrixDiag": lambda d, s: [d.array(s)]}, (1, 3))
recipes_of_shapes(
  {
    "MatrixDiagPart": lambda d, s: [d.array(s)],
    "MatrixSetDiag": lambda d, s: [d.array(s), d.array((*s[:-2], min(s[-2:])))],
    # A width of -1 keeps a triangle.
    "MatrixBandPart": lambda d, s: [
      d.array(s),
      *(d.between((), d.attrs.get("Tindex", np.int64), -1, n) for n in s[-2:]),
    ],
  },
  (2, 4),
)
recipes(
  {
    "MatrixDiagPartV2 MatrixDiagPartV3": lambda d: [
      d.array(shape := (*d.shape(0, 2), d.size(1, 4), d.size(1, 4))),
      _band(d, *shape[-2:])[0],
      d.array(()),
    ]
  }
)
