import numpy as np
import pytest

from graftax.graphdef_ir import DType
from graftax.savedmodel_io.checkpoint.partition import check_slices, read_partitioned
from graftax.savedmodel_io.checkpoint.tensor_entry import TensorEntry
from graftax.savedmodel_io.checkpoint.tensor_slice import TensorSlice
from graftax.savedmodel_io.errors import DamagedCheckpointError

_WHOLE = np.arange(24).reshape(4, 6)
_QUARTERS = tuple(TensorSlice(((row, 2), (column, 3))) for row in (0, 2) for column in (0, 3))


def _read(bounds, slices=_QUARTERS, touched=None):
  def read_slice(part, box):
    if touched is not None:
      touched.append(str(part))
    stored = _WHOLE[tuple(slice(*bound) for bound in part.bounds(_WHOLE.shape))]
    return stored[tuple(slice(*bound) for bound in box)]

  entry = TensorEntry("t", DType.INT64, _WHOLE.shape, slices=slices)
  return read_partitioned(entry, bounds, _WHOLE.dtype, read_slice, "here")


@pytest.mark.parametrize(
  "bounds", [((0, 4), (0, 6)), ((1, 3), (2, 4)), ((0, 1), (5, 6)), ((2, 2), (0, 6)), ((0, 4), (3, 3))]
)
def test_a_box_is_put_together_from_the_slices_it_meets(bounds):
  expected = _WHOLE[tuple(slice(*bound) for bound in bounds)]
  np.testing.assert_array_equal(_read(bounds), expected)


def test_slices_that_do_not_meet_the_box_are_not_read():
  touched = []
  _read(((0, 1), (2, 4)), touched=touched)
  assert touched == ["0,2:0,3", "0,2:3,3"]


def test_a_box_that_is_a_slice_is_not_copied():
  assert np.shares_memory(_read(((2, 4), (0, 3))), _WHOLE)


def test_a_result_that_was_put_together_is_read_only():
  assert not _read(((0, 4), (0, 6))).flags.writeable


def test_slices_that_overlap_are_refused_as_in_tensorflow():
  overlapping = (TensorSlice(((0, 3), (0, None))), TensorSlice(((2, 2), (0, None))))
  with pytest.raises(DamagedCheckpointError, match="slices 0,3:-, 2,2:- do not cover shape .* once"):
    _read(((0, 4), (0, 6)), overlapping)
  with pytest.raises(ValueError, match="30 elements overlap"):
    check_slices(overlapping, (4, 6))
  with pytest.raises(ValueError, match="36 elements overlap"):
    check_slices((*_QUARTERS, *_QUARTERS[:2]), (4, 6))
  check_slices(_QUARTERS, (4, 6))


def test_a_hole_is_an_error_even_where_overlap_makes_up_the_size():
  twice = (TensorSlice(((0, 2), (0, None))), TensorSlice(((0, 3), (0, None))))
  with pytest.raises(DamagedCheckpointError, match=r"here: partitioned tensor 't': slices 0,2:-, 0,3:- do not cover"):
    _read(((0, 4), (0, 6)), twice)
