"""Diagonals against TensorFlow: every alignment, several at once, matrices of every aspect."""

import numpy as np
import pytest

from graftax.testing.raw_ops import check_raw_op, check_raw_op_rejects

_ALIGNS = ("RIGHT_LEFT", "LEFT_RIGHT", "LEFT_LEFT", "RIGHT_RIGHT")
_SHAPES = [(4, 4), (3, 5), (5, 3)]
_KS = [(0, 0), (1, 1), (-2, -2), (-1, 1), (0, 2), (-2, 0), (-2, 2)]


def _matrix(rows, cols):
  return np.arange(1, 2 * rows * cols + 1, dtype=np.float32).reshape(2, rows, cols)


def _longest(rows, cols, low, high):
  return min(rows + min(high, 0), cols - max(low, 0))


def _diagonal(rows, cols, low, high):
  longest = _longest(rows, cols, low, high)
  shape = (2, longest) if low == high else (2, high - low + 1, longest)
  return -np.arange(1, np.prod(shape) + 1, dtype=np.float32).reshape(shape)


@pytest.mark.parametrize("shape", _SHAPES)
def test_diagonals_in_every_alignment_match_tensorflow(shape):
  x = _matrix(*shape)
  for i, (low, high) in enumerate(_KS):
    k = np.array([low, high] if low != high else low, np.int32)
    for align in _ALIGNS if low != high else _ALIGNS[:1]:
      attrs = {"align": align}
      # Derivatives and batches do not depend on the alignment, so one of each is enough.
      full = align == _ALIGNS[i % 4]
      options = {"jit": full, "vmap": ("input",) if full else False, "grad": ("input",) if full else False}
      check_raw_op("MatrixDiagPartV3", [x, k, np.float32(7)], attrs, **options)
      diagonal = _diagonal(*shape, low, high)
      check_raw_op("MatrixSetDiagV3", [x, diagonal, k], attrs, jit=full, vmap=full, grad=full)
      sizes = [np.int32(size) for size in shape]
      options["grad"], options["vmap"] = False, ("diagonal",) if full else False
      check_raw_op("MatrixDiagV3", [diagonal, k, *sizes, np.float32(7)], attrs, **options)


@pytest.mark.parametrize("k", [0, 1, -2, [-1, 1], [1, 2], [-2, -1]])
def test_sizes_that_are_left_open_match_tensorflow(k):
  diagonal = np.arange(1, 25, dtype=np.float32).reshape(2, -1, 4)
  low, high = np.min(k), np.max(k)
  diagonal = diagonal[:, 0] if low == high else diagonal[:, : high - low + 1]
  for rows, cols in ((-1, -1), (4 - min(int(high), 0), -1), (-1, 4 + max(int(low), 0))):
    inputs = [diagonal, np.array(k, np.int32), np.int32(rows), np.int32(cols), np.float32(0)]
    check_raw_op("MatrixDiagV3", inputs, vmap=False, grad=("diagonal",))
    check_raw_op("MatrixDiagV2", inputs, vmap=False)


def test_older_versions_match_tensorflow():
  for shape in _SHAPES:
    x, main = _matrix(*shape), _diagonal(*shape, 0, 0)
    check_raw_op("MatrixDiagPart", [x], grad=True)
    check_raw_op("MatrixSetDiag", [x, main], grad=True)
    k = np.array([-1, 1], np.int32)
    check_raw_op("MatrixDiagPartV2", [x, k, np.float32(0)], vmap=False)
    check_raw_op("MatrixSetDiagV2", [x, _diagonal(*shape, -1, 1), k], vmap=False)
  check_raw_op("MatrixDiag", [_X_DIAGONAL], grad=True)


_X_DIAGONAL = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.mark.parametrize("dtype", [np.int32, np.complex64, np.bool_])
def test_other_dtypes_match_tensorflow(dtype):
  x = _matrix(3, 5).astype(dtype)
  check_raw_op("MatrixDiagPartV3", [x, np.int32(1), np.ones((), dtype)], vmap=False)
  check_raw_op("MatrixSetDiagV3", [x, _diagonal(3, 5, 1, 1).astype(dtype), np.int32(1)], vmap=False)
  check_raw_op("MatrixDiag", [_X_DIAGONAL.astype(dtype)], vmap=False)
  check_raw_op("MatrixBandPart", [x, np.int64(0), np.int64(1)], vmap=False)


@pytest.mark.parametrize(("lower", "upper"), [(0, 0), (-1, 0), (0, -1), (1, 2), (-1, -1), (2, 0)])
def test_bands_match_tensorflow(lower, upper):
  for shape in _SHAPES:
    check_raw_op("MatrixBandPart", [_matrix(*shape), np.int32(lower), np.int32(upper)], grad=True, vmap=("input",))


@pytest.mark.parametrize("shape", [(3,), (2, 3)])
def test_diagonals_of_any_rank_match_tensorflow(shape):
  x = np.arange(1, np.prod(shape) + 1, dtype=np.float32).reshape(shape)
  check_raw_op("Diag", [x], grad=True)
  check_raw_op("DiagPart", [np.arange(x.size**2, dtype=np.float32).reshape(*shape, *shape)], grad=True)


def test_what_does_not_fit_raises():
  x = _matrix(3, 5)
  check_raw_op_rejects("MatrixDiagPartV3", [x, np.int32(5), np.float32(0)], match="lie outside")
  check_raw_op_rejects("MatrixDiagPartV3", [x, np.array([1, 0], np.int32), np.float32(0)], match="must be one diagonal")
  check_raw_op_rejects("MatrixSetDiagV3", [x, _diagonal(3, 4, 0, 0)[:, :2], np.int32(0)], match="end in shape")
  check_raw_op_rejects("DiagPart", [x[0]], match="must be equal")


@pytest.mark.parametrize(
  ("k", "rows", "columns"), [((0, 3), -1, -1), ((-3, 0), -1, -1), ((0, 3), 3, -1), ((0, 3), -1, 3)]
)
def test_inferred_sizes_may_leave_diagonals_outside_the_matrix(k, rows, columns):
  diagonal = np.arange(1, 13, dtype=np.float32).reshape(4, 3)
  inputs = [diagonal, np.array(k, np.int32), np.int32(rows), np.int32(columns), np.float32(0)]
  check_raw_op("MatrixDiagV3", inputs, vmap=("diagonal",))
