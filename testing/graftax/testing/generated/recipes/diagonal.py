"""Recipes of diagonal ops."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from graftax.testing.generated.draw import Draw
from graftax.testing.generated.recipes.registry import recipe


@recipe("Diag")
def diag(d: Draw) -> Sequence[Any]:
  """Up to rank 3."""
  return [d.array(d.shape(1, 3, 3), d.attrs["T"])]


@recipe("DiagPart")
def diag_part(d: Draw) -> Sequence[Any]:
  """A shape repeated."""
  shape = d.shape(1, 2, 3)
  return [d.array(shape * 2, d.attrs["T"])]


@recipe("MatrixDiag", "MatrixDiagPart")
def matrix_diag(d: Draw) -> Sequence[Any]:
  """Batches of vectors or matrices."""
  return [d.array(d.shape(2, 4) if "Part" in d.op else d.shape(1, 3), d.attrs["T"])]


@recipe("MatrixSetDiag")
def matrix_set_diag(d: Draw) -> Sequence[Any]:
  """Matrices of any proportions."""
  shape = d.shape(2, 4)
  return [d.array(shape, d.attrs["T"]), d.array((*shape[:-2], min(shape[-2:])), d.attrs["T"])]


@recipe("MatrixBandPart")
def band_part(d: Draw) -> Sequence[Any]:
  """Band widths; -1 keeps a triangle."""
  shape = d.shape(2, 4)
  dtype = d.attrs.get("Tindex", np.int64)
  return [d.array(shape, d.attrs["T"]), *(d.between((), dtype, -1, n) for n in shape[-2:])]


def _band(d: Draw, rows: int, columns: int) -> tuple[np.ndarray, tuple[int, ...]]:
  """Returns `k` and the shape of the diagonals that it selects."""
  low, high = sorted(d.integer(1 - max(rows, 1), max(columns, 1) - 1) for _ in range(2))
  if d.chance(0.4):
    low = high
  longest = min(rows + min(high, 0), columns - max(low, 0))
  if low == high:
    return np.array(low if d.chance(0.5) else [low], np.int32), (longest,)
  return np.array([low, high], np.int32), (high - low + 1, longest)


@recipe("MatrixDiagPartV2", "MatrixDiagPartV3")
def matrix_diag_part(d: Draw) -> Sequence[Any]:
  """A band of diagonals."""
  shape = (*d.shape(0, 2), d.size(1, 4), d.size(1, 4))
  return [d.array(shape, d.attrs["T"]), _band(d, *shape[-2:])[0], d.array((), d.attrs["T"])]


@recipe("MatrixSetDiagV2", "MatrixSetDiagV3")
def matrix_set_diag_v2(d: Draw) -> Sequence[Any]:
  """A band of diagonals."""
  shape = (*d.shape(0, 2), d.size(1, 4), d.size(1, 4))
  k, diagonals = _band(d, *shape[-2:])
  return [d.array(shape, d.attrs["T"]), d.array((*shape[:-2], *diagonals), d.attrs["T"]), k]


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
    d.array((*batch, *diagonals), d.attrs["T"]),
    k,
    *(np.array(n, np.int32) for n in given),
    d.array((), d.attrs["T"]),
  ]
