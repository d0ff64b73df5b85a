"""Space moved into batch and depth, against TensorFlow."""

import numpy as np
import pytest

from graftax.testing.raw_ops import check_raw_op, check_raw_op_rejects

_IMAGE = np.arange(2 * 4 * 6 * 3, dtype=np.float32).reshape(2, 4, 6, 3)


@pytest.mark.parametrize(
  ("shape", "block", "paddings"),
  [
    ((2, 4, 6, 3), [2, 3], [[0, 0], [0, 0]]),
    ((2, 3, 5), [2], [[1, 0]]),
    ((2, 3), [2], [[1, 0]]),
    ((1, 4, 5, 2), [2, 2], [[2, 0], [1, 2]]),
    ((2, 2, 3, 4), [1, 1], [[0, 0], [0, 0]]),
    ((2, 2, 4, 6, 1), [2, 2, 2], [[0, 0], [1, 1], [0, 0]]),
  ],
)
def test_space_to_batch_and_back_match_tensorflow(shape, block, paddings):
  x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
  block, paddings = np.array(block, np.int32), np.array(paddings, np.int32)
  check_raw_op("SpaceToBatchND", [x, block, paddings], grad=True)
  y = np.repeat(x, np.prod(block), axis=0)
  crops = np.minimum(paddings, 1)
  check_raw_op("BatchToSpaceND", [y, block, crops], grad=True)
  check_raw_op("BatchToSpaceND", [y.astype(np.int64), block, crops], vmap=False)


def test_the_old_ops_match_tensorflow():
  zeros = np.array([[0, 0], [1, 1]], np.int32)
  check_raw_op("SpaceToBatch", [_IMAGE, zeros], {"block_size": 2}, grad=True)
  y = np.repeat(_IMAGE, 4, axis=0)
  check_raw_op("BatchToSpace", [y, zeros], {"block_size": 2}, grad=True)


def test_what_does_not_divide_raises():
  none = np.zeros((2, 2), np.int32)
  check_raw_op_rejects("SpaceToBatchND", [_IMAGE, np.array([3, 2], np.int32), none], match="not a multiple")
  check_raw_op_rejects("BatchToSpaceND", [_IMAGE, np.array([3, 2], np.int32), none], match="not a multiple")
  check_raw_op_rejects("SpaceToDepth", [_IMAGE], {"block_size": 4}, match="not multiples")
  check_raw_op_rejects("DepthToSpace", [_IMAGE], {"block_size": 2}, match="not a multiple")


@pytest.mark.parametrize("dtype", [np.float32, np.uint8])
def test_space_to_depth_and_back_match_tensorflow(dtype):
  x = (_IMAGE % 200).astype(dtype)
  check_raw_op("SpaceToDepth", [x], {"block_size": 2}, grad=dtype == np.float32)
  deep = np.concatenate([x, x, x, x], axis=-1)
  check_raw_op("DepthToSpace", [deep], {"block_size": 2}, grad=dtype == np.float32)
