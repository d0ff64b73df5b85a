"""Layout arithmetic against TensorFlow."""

import numpy as np
import pytest

from graftax.ops_jax._core.values import is_known
from graftax.ops_jax.nn.data_format import data_format_vec_permute
from graftax.testing.raw_ops import check_raw_op, check_raw_op_rejects

pytestmark = pytest.mark.tensorflow


def test_dimensions():
  check_raw_op("DataFormatDimMap", [np.array([[0, 1, -1], [3, -4, 2]], np.int32)])
  check_raw_op("DataFormatDimMap", [np.array([4, 1], np.int64)], {"src_format": "NDHWC", "dst_format": "NCDHW"})


@pytest.mark.parametrize("x", [[1, 2, 3, 4], [[1, 2], [3, 4], [5, 6], [7, 8]], [5, 6], [[1, 2], [3, 4]]])
def test_shapes(x):
  check_raw_op("DataFormatVecPermute", [np.array(x, np.int32)])
  check_raw_op("DataFormatVecPermute", [np.array(x, np.int32)], {"src_format": "NCHW", "dst_format": "NHWC"})
  assert is_known(data_format_vec_permute(np.array(x, np.int32)))


def test_other_lengths_raise():
  check_raw_op_rejects("DataFormatVecPermute", [np.array([1, 2, 3], np.int32)], match="3 rows")
