"""Diagonals and bands of matrices: MatrixBandPart, MatrixDiag, MatrixDiagPart, MatrixSetDiag, Diag.

`k` is one diagonal (0 is the main one, positive ones are above it) or a range `[lowest, highest]`. Several diagonals
are stacked from the highest to the lowest and padded to one length; `align` says at which side.
"""

import dataclasses
import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from graftax.ops_jax._core.errors import InvalidInputError
from graftax.ops_jax._core.known import canonical_dtype
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array, Static, StaticSize, is_known

__all__ = [
  "diag",
  "diag_part",
  "matrix_band_part",
  "matrix_diag",
  "matrix_diag_part",
  "matrix_diag_part_v2",
  "matrix_diag_part_v3",
  "matrix_diag_v2",
  "matrix_diag_v3",
  "matrix_set_diag",
  "matrix_set_diag_v2",
  "matrix_set_diag_v3",
]


@register("MatrixBandPart", "BatchMatrixBandPart", ignores=("T", "Tindex"), data_inputs=("input",))
def matrix_band_part(input: Array, num_lower: Array, num_upper: Array) -> Array:
  """Returns `input` with everything outside a band around the main diagonal set to 0.

  Source op: `tf.raw_ops.MatrixBandPart`.

  Args:
    input: `[..., rows, cols]`.
    num_lower: scalar, how many diagonals below the main one to keep; negative keeps all.
    num_upper: scalar, how many above.

  Raises:
    InvalidInputError: more diagonals are asked for than there are, if that is known.
  """
  rows, cols = input.shape[-2:]
  for name, count, limit in (("num_lower", num_lower, rows), ("num_upper", num_upper, cols)):
    if is_known(count) and isinstance(limit, int) and np.any(np.asarray(count) > limit):
      raise InvalidInputError(f"MatrixBandPart: {name}={count!r} exceeds the {limit} of shape {input.shape}.")
  offset = _offsets(rows, cols)
  lower, upper = (jnp.asarray(count).astype(np.int32) for count in (num_lower, num_upper))
  keep = ((lower < 0) | (-offset <= lower)) & ((upper < 0) | (offset <= upper))
  return jnp.where(keep, input, jnp.zeros((), canonical_dtype(input.dtype)))


@register("Diag", ignores=("T",), data_inputs=("diagonal",))
def diag(diagonal: Array) -> Array:
  """Returns `[*d, *d]` with `diagonal` of shape `d` at positions whose halves are equal, 0 elsewhere."""
  size = math.prod(diagonal.shape)
  return matrix_diag(diagonal.reshape(size)).reshape(*diagonal.shape, *diagonal.shape)


@register("DiagPart", ignores=("T",), data_inputs=("input",))
def diag_part(input: Array) -> Array:
  """Returns, from an array of shape `[*d, *d]`, the elements at positions whose halves are equal, shape `d`.

  Raises:
    InvalidInputError: the two halves of the shape differ.
  """
  half = input.ndim // 2
  shape = input.shape[:half]
  if input.shape != shape + shape:
    raise InvalidInputError(f"DiagPart: the two halves of shape {input.shape} must be equal.")
  size = math.prod(shape)
  return jnp.diagonal(input.reshape(size, size)).reshape(shape)


@register("MatrixDiag", "BatchMatrixDiag", ignores=("T",), data_inputs=("diagonal",))
def matrix_diag(diagonal: Array) -> Array:
  """Returns `[..., n, n]` with `diagonal` of shape `[..., n]` on the main diagonal, 0 elsewhere."""
  return _matrix("MatrixDiag", diagonal, (0,), -1, -1, np.zeros((), canonical_dtype(diagonal.dtype)), "LEFT_LEFT")


@register("MatrixDiagV2", ignores=("T",), data_inputs=("diagonal", "padding_value"))
def matrix_diag_v2(
  diagonal: Array,
  k: Static[tuple[int, ...]],
  num_rows: StaticSize,
  num_cols: StaticSize,
  padding_value: Array,
) -> Array:
  """Computes `matrix_diag_v3` with diagonals aligned to the left."""
  return _matrix("MatrixDiagV2", diagonal, k, num_rows, num_cols, padding_value, "LEFT_LEFT")


@register("MatrixDiagV3", ignores=("T",), data_inputs=("diagonal", "padding_value"))
def matrix_diag_v3(
  diagonal: Array,
  k: Static[tuple[int, ...]],
  num_rows: StaticSize,
  num_cols: StaticSize,
  padding_value: Array,
  *,
  align: str = "RIGHT_LEFT",
) -> Array:
  """Returns matrices with given diagonals.

  Source op: `tf.raw_ops.MatrixDiagV3`.

  Args:
    diagonal: `[..., length]` for one diagonal, `[..., num_diagonals, length]` for several.
    k: which ones. Must be known, like the sizes.
    num_rows: number of rows; -1 for as few as fit.
    num_cols: number of columns; -1 for as few as fit.
    padding_value: scalar, value of the other elements.
    align: "RIGHT_LEFT", "LEFT_RIGHT", "LEFT_LEFT" or "RIGHT_RIGHT": the side to which superdiagonals (then
      subdiagonals) are pushed in `diagonal`.

  Returns:
    `[..., num_rows, num_cols]`, of the dtype of `diagonal`.

  Raises:
    InvalidInputError: the diagonals do not fit.
  """
  return _matrix("MatrixDiagV3", diagonal, k, num_rows, num_cols, padding_value, align)


@register("MatrixDiagPart", "BatchMatrixDiagPart", ignores=("T",), data_inputs=("input",))
def matrix_diag_part(input: Array) -> Array:
  """Returns `[..., min(rows, cols)]`: the main diagonal of `input` of shape `[..., rows, cols]`."""
  return jnp.diagonal(jnp.asarray(input), axis1=-2, axis2=-1)


@register("MatrixDiagPartV2", ignores=("T",), data_inputs=("input", "padding_value"))
def matrix_diag_part_v2(input: Array, k: Static[tuple[int, ...]], padding_value: Array) -> Array:
  """Computes `matrix_diag_part_v3` with diagonals aligned to the left."""
  return matrix_diag_part_v3(input, k, padding_value, align="LEFT_LEFT")


@register("MatrixDiagPartV3", ignores=("T",), data_inputs=("input", "padding_value"))
def matrix_diag_part_v3(
  input: Array, k: Static[tuple[int, ...]], padding_value: Array, *, align: str = "RIGHT_LEFT"
) -> Array:
  """Returns diagonals of matrices.

  Source op: `tf.raw_ops.MatrixDiagPartV3`.

  Args:
    input: `[..., rows, cols]`.
    k: which diagonals. Must be known.
    padding_value: scalar, value that pads shorter diagonals.
    align: as for `matrix_diag_v3`.

  Returns:
    `[..., length]` for one diagonal, else `[..., num_diagonals, longest]`, of the dtype of `input`.

  Raises:
    InvalidInputError: a diagonal lies outside the matrix.
  """
  band = _band("MatrixDiagPart", k, input.shape[-2], input.shape[-1], align)
  input = jnp.asarray(input)
  if band.is_single:
    return jnp.diagonal(input, offset=band.highest, axis1=-2, axis2=-1)
  offsets = np.arange(band.highest, band.lowest - 1, -1)[:, None]
  along = np.arange(band.longest)[None, :] - band.shift(offsets)
  is_inside = (along >= 0) & (along < band.length(offsets))
  rows = np.where(is_inside, along - np.minimum(offsets, 0), 0)
  cols = np.where(is_inside, along + np.maximum(offsets, 0), 0)
  return jnp.where(is_inside, input[..., rows, cols], jnp.asarray(padding_value).astype(input.dtype))


@register("MatrixSetDiag", "BatchMatrixSetDiag", ignores=("T",), data_inputs=("input", "diagonal"))
def matrix_set_diag(input: Array, diagonal: Array) -> Array:
  """Replaces the main diagonal of `input`, of shape `[..., rows, cols]`."""
  return matrix_set_diag_v3(input, diagonal, (0,), align="LEFT_LEFT")


@register("MatrixSetDiagV2", ignores=("T",), data_inputs=("input", "diagonal"))
def matrix_set_diag_v2(input: Array, diagonal: Array, k: Static[tuple[int, ...]]) -> Array:
  """Computes `matrix_set_diag_v3` with diagonals aligned to the left."""
  return matrix_set_diag_v3(input, diagonal, k, align="LEFT_LEFT")


@register("MatrixSetDiagV3", ignores=("T",), data_inputs=("input", "diagonal"))
def matrix_set_diag_v3(
  input: Array, diagonal: Array, k: Static[tuple[int, ...]], *, align: str = "RIGHT_LEFT"
) -> Array:
  """Replaces the diagonals `k` of `input`, of shape `[..., rows, cols]`; see `matrix_diag_v3`.

  Raises:
    InvalidInputError: the diagonals do not fit.
  """
  band = _band("MatrixSetDiag", k, input.shape[-2], input.shape[-1], align)
  _check_diagonal("MatrixSetDiag", diagonal, band)
  return jnp.where(band.mask(), _spread(jnp.asarray(diagonal), band), input)


@dataclasses.dataclass(frozen=True, slots=True)
class _Band:
  """Neighboring diagonals of a matrix.

  Attributes:
    lowest: the lowest diagonal.
    highest: the highest one.
    rows: of the matrix.
    cols: of the matrix.
    align: see `matrix_diag_v3`.
  """

  lowest: int
  highest: int
  rows: int
  cols: int
  align: str

  @property
  def is_single(self) -> bool:
    return self.lowest == self.highest

  @property
  def longest(self) -> int:
    return min(self.rows + min(self.highest, 0), self.cols - max(self.lowest, 0))

  def length(self, offset: Any) -> Any:
    xp = np if isinstance(offset, np.ndarray) else jnp
    return xp.minimum(self.rows + xp.minimum(offset, 0), self.cols - xp.maximum(offset, 0))

  def shift(self, offset: Any) -> Any:
    """Returns how far each diagonal is pushed to the right."""
    xp = np if isinstance(offset, np.ndarray) else jnp
    upper, lower = (side == "RIGHT" for side in self.align.split("_"))
    is_right = xp.where(offset >= 0, upper, lower)
    return xp.where(is_right, self.longest - self.length(offset), 0)

  def mask(self) -> Array:
    offset = _offsets(self.rows, self.cols)
    return (offset >= self.lowest) & (offset <= self.highest)


def _offsets(rows: int, cols: int) -> Array:
  row = lax.broadcasted_iota(np.int32, (rows, cols), 0)
  return lax.broadcasted_iota(np.int32, (rows, cols), 1) - row


def _band(op: str, k: tuple[int, ...], rows: int, cols: int, align: str) -> _Band:
  lowest, highest = k[0], k[-1]
  _check_range(op, k)
  if not (-rows < lowest or lowest == 0) or not (highest < cols or highest == 0):
    raise InvalidInputError(f"{op}: diagonals {k!r} lie outside a matrix of {rows} rows and {cols} columns.")
  return _Band(lowest, highest, rows, cols, align)


def _check_range(op: str, k: tuple[int, ...]) -> None:
  if not (len(k) in (1, 2) and k[0] <= k[-1]):
    raise InvalidInputError(f"{op}: k={k!r} must be one diagonal, or a range from the lowest to the highest.")


def _check_diagonal(op: str, diagonal: Array, band: _Band) -> None:
  tail = (band.longest,) if band.is_single else (band.highest - band.lowest + 1, band.longest)
  if diagonal.shape[diagonal.ndim - len(tail) :] != tail:
    raise InvalidInputError(
      f"{op}: diagonals {band.lowest} to {band.highest} of a {band.rows}x{band.cols} matrix end in shape {tail}; got "
      f"{diagonal.shape}."
    )


def _matrix(
  op: str, diagonal: Array, k: tuple[int, ...], num_rows: int, num_cols: int, padding_value: Array, align: str
) -> Array:
  diagonal = jnp.asarray(diagonal)
  lowest, highest = k[0], k[-1]
  fewest_rows = diagonal.shape[-1] - min(highest, 0)
  fewest_cols = diagonal.shape[-1] + max(lowest, 0)
  if num_rows == -1 and num_cols == -1:
    fewest_rows = fewest_cols = max(fewest_rows, fewest_cols)
  rows, cols = fewest_rows if num_rows == -1 else num_rows, fewest_cols if num_cols == -1 else num_cols
  if -1 in (num_rows, num_cols):
    # StaticSizes that are inferred from the longest diagonal may leave other diagonals of the band outside the matrix.
    _check_range(op, k)
    band = _Band(lowest, highest, rows, cols, align)
  else:
    band = _band(op, k, rows, cols, align)
  _check_diagonal(op, diagonal, band)
  return jnp.where(band.mask(), _spread(diagonal, band), jnp.asarray(padding_value).astype(diagonal.dtype))


def _spread(diagonal: Array, band: _Band) -> Array:
  """Returns `[..., rows, cols]` with each diagonal in its place, and arbitrary values outside the band."""
  if band.is_single:
    # On one diagonal the row alone tells the element.
    before = max(-band.highest, 0)
    after = band.rows - before - band.longest
    config = [(0, 0, 0)] * (diagonal.ndim - 1) + [(before, after, 0)]
    return lax.pad(diagonal, jnp.zeros((), diagonal.dtype), config)[..., None]
  offset = _offsets(band.rows, band.cols)
  row = lax.broadcasted_iota(np.int32, (band.rows, band.cols), 0)
  along = row + jnp.minimum(offset, 0) + band.shift(offset)
  which = jnp.clip(band.highest - offset, 0, band.highest - band.lowest)
  return diagonal[..., which, jnp.clip(along, 0, band.longest - 1)]
