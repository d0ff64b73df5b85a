"""Color conversions against TensorFlow."""

import ml_dtypes
import numpy as np
import pytest

from graftax.testing.raw_ops import check_raw_op, check_raw_op_rejects

pytestmark = pytest.mark.tensorflow

_RNG = np.random.default_rng(0)
_IMAGES = _RNG.uniform(size=(2, 3, 4, 3)).astype(np.float32)
_EDGES = np.array(
  [
    [0, 0, 0],
    [1, 1, 1],
    [0.5, 0.5, 0.5],
    [1, 0, 0],
    [0, 1, 0],
    [0, 0, 1],
    [1, 1, 0],
    [0, 1, 1],
    [1, 0, 1],
    [0.2, 0.2, 0.1],
  ],
  np.float32,
)


@pytest.mark.parametrize("op", ["RGBToHSV", "HSVToRGB"])
def test_conversion(op):
  check_raw_op(op, [_IMAGES], grad=op == "RGBToHSV")
  check_raw_op(op, [_EDGES])
  check_raw_op(op, [_IMAGES.astype(np.float64)])
  check_raw_op(op, [_IMAGES.astype(np.float16)], vmap=False, tolerance=(1e-2, 1e-2))
  check_raw_op(op, [_IMAGES.astype(ml_dtypes.bfloat16)], vmap=False, tolerance=(5e-2, 5e-2))


@pytest.mark.parametrize("number", [-0.7, 0.0, 0.3, 2.0])
@pytest.mark.parametrize("op", ["AdjustHue", "AdjustSaturation", "AdjustContrastv2"])
def test_adjustment(op, number):
  check_raw_op(op, [_IMAGES, np.float32(number)], vmap=number == 0.3)
  check_raw_op(op, [_EDGES.reshape(2, 5, 1, 3), np.float32(number)], vmap=False)


def test_channels_are_checked():
  check_raw_op_rejects("RGBToHSV", [_IMAGES[..., :2]], match="3 channels")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gradient_of_rgb_to_hsv_where_channels_tie(dtype):
  ties = [[9, 9, 1], [9, 1, 9], [1, 9, 9], [5, 5, 5], [5, 2, 2], [2, 5, 2], [2, 2, 5], [0, 0, 0]]
  check_raw_op("RGBToHSV", [np.array(ties, dtype) / dtype(10)], grad=True, vmap=False)
