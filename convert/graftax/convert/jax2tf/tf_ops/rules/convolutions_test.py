"""Convolutions as plain TensorFlow ops."""

import jax
import numpy as np
import pytest
from jax import lax

from graftax.testing.plain_ops import check_plain_ops

pytestmark = pytest.mark.tensorflow


@pytest.mark.parametrize(
  "options",
  [
    {"window_strides": (2, 1), "padding": "SAME", "rhs_dilation": (1, 2)},
    {"window_strides": (1, 1), "padding": "VALID", "feature_group_count": 2},
    {"window_strides": (1, 1), "padding": "VALID", "batch_group_count": 2},
  ],
  ids=["strides", "channel groups", "batch groups"],
)
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_convolutions_of_complex_numbers(options, dtype):
  rng = np.random.default_rng(0)
  channels = 2 if options.get("feature_group_count") else 4
  x, kernel = (
    (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype)
    for shape in ((2, 4, 7, 6), (4, channels, 3, 2))
  )
  with jax.enable_x64(dtype == np.complex128):
    check_plain_ops(lambda x, kernel: lax.conv_general_dilated(x, kernel, **options), x, kernel, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_kernels_larger_than_the_images_have_an_empty_result(rank):
  x, kernel = np.ones((2, 4, *[3] * rank), np.float32), np.ones((5, 4, *[4] * rank), np.float32)
  check_plain_ops(lambda x, kernel: lax.conv_general_dilated(x, kernel, (1,) * rank, "VALID"), x, kernel)


def test_kernels_of_no_channels_give_zeros():
  x, kernel = np.ones((2, 0, 3, 3), np.float32), np.ones((5, 0, 2, 2), np.float32)
  check_plain_ops(lambda x, kernel: lax.conv_general_dilated(x, kernel, (1, 1), "VALID"), x, kernel)
