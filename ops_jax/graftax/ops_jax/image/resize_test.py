"""Resizing against TensorFlow: all conventions of pixel centers, up and down, by whole and broken factors."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from graftax.ops_jax.image.resize import resize_nearest_neighbor
from graftax.testing.raw_ops import check_raw_op, check_raw_op_rejects

pytestmark = pytest.mark.tensorflow

_RNG = np.random.default_rng(0)
_CENTERS = [{}, {"align_corners": True}, {"half_pixel_centers": True}]
_SIZES = [(10, 12), (3, 4), (7, 1), (5, 6), (13, 5)]
_X = _RNG.normal(size=(2, 5, 6, 2)).astype(np.float32)


@pytest.mark.parametrize("size", _SIZES)
@pytest.mark.parametrize("attrs", _CENTERS)
@pytest.mark.parametrize("op", ["ResizeBilinear", "ResizeBicubic", "ResizeNearestNeighbor"])
def test_resize(op, attrs, size):
  # One case per op with all transforms; the others differ in constants only.
  full = size == (3, 4)
  check_raw_op(op, [_X, np.array(size, np.int32)], attrs, grad=full, vmap=full, known=full)


@pytest.mark.parametrize("size", _SIZES)
@pytest.mark.parametrize("align_corners", [False, True])
def test_resize_area(size, align_corners):
  check_raw_op("ResizeArea", [_X, np.array(size, np.int32)], {"align_corners": align_corners}, vmap=False)


@pytest.mark.parametrize("align_corners", [False, True])
def test_area_of_images_one_pixel_wide(align_corners):
  x = np.array([1, 3, 3, 1], np.uint16).reshape(1, 2, 1, 2)
  check_raw_op("ResizeArea", [x, np.array([4, 2], np.int32)], {"align_corners": align_corners}, vmap=False)


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.float16, ml_dtypes.bfloat16, np.float64])
@pytest.mark.parametrize("op", ["ResizeBilinear", "ResizeBicubic", "ResizeArea", "ResizeNearestNeighbor"])
def test_types(op, dtype):
  x = (np.abs(_X) * 50).astype(dtype)
  check_raw_op(op, [x, np.array([7, 4], np.int32)], vmap=False, tolerance=(1e-4, 1e-3))


@pytest.mark.parametrize("attrs", _CENTERS)
@pytest.mark.parametrize("op", ["ResizeBilinearGrad", "ResizeBicubicGrad"])
def test_gradient_ops(op, attrs):
  for size in _SIZES[:2]:
    grads = _RNG.normal(size=(2, *size, 2)).astype(np.float32)
    check_raw_op(op, [grads, _X], attrs, vmap=size == (3, 4))


@pytest.mark.parametrize("attrs", _CENTERS)
def test_gradient_of_nearest_neighbor(attrs):
  for size in _SIZES[:2]:
    grads = _RNG.normal(size=(2, *size, 2)).astype(np.float32)
    check_raw_op("ResizeNearestNeighborGrad", [grads, np.array([5, 6], np.int32)], attrs)


@pytest.mark.parametrize("size", [4, 16, 8, 3])
@pytest.mark.parametrize("attrs", _CENTERS)
@pytest.mark.parametrize("op", ["ResizeBilinear", "ResizeBicubic", "ResizeArea"])
def test_nan_reaches_only_its_neighbors(op, attrs, size):
  if op == "ResizeArea" and "half_pixel_centers" in attrs:
    return
  x = np.arange(32, dtype=np.float32).reshape(1, 8, 4, 1)
  x[0, 0, 1] = np.nan
  for images in (x, x.transpose(0, 2, 1, 3).copy()):
    height, width = (size, 5) if images.shape[1] == 8 else (5, size)
    check_raw_op(op, [images, np.array([height, width], np.int32)], attrs, vmap=False)


def test_contradictory_flags_raise():
  attrs = {"align_corners": True, "half_pixel_centers": True}
  check_raw_op_rejects("ResizeBilinear", [_X, np.array([3, 4], np.int32)], attrs, match="exclude each other")


def test_resizing_exports_with_symbolic_sizes():
  height, width = jax.export.symbolic_shape("h, w")

  def function(x):
    return resize_nearest_neighbor(x, (2 * x.shape[1], 3), half_pixel_centers=True)

  exported = jax.export.export(jax.jit(function))(jax.ShapeDtypeStruct((2, height, width, 2), np.float32))
  np.testing.assert_array_equal(exported.call(jnp.asarray(_X)), function(jnp.asarray(_X)))


@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize(
  "kernel", ["lanczos1", "lanczos3", "lanczos5", "gaussian", "box", "triangle", "keyscubic", "mitchellcubic"]
)
def test_scale_and_translate(kernel, antialias):
  attrs = {"kernel_type": kernel, "antialias": antialias}
  full = kernel == "lanczos3"
  for scale, translation in (((0.6, 1.7), (0.4, -1.3)), ((2.0, 0.5), (0.0, 0.0))):
    numbers = [np.array(scale, np.float32), np.array(translation, np.float32)]
    inputs = [_X, np.array([4, 7], np.int32), *numbers]
    check_raw_op("ScaleAndTranslate", inputs, attrs, grad=["images"] if full else False, vmap=full)
    grads = _RNG.normal(size=(2, 4, 7, 2)).astype(np.float32)
    check_raw_op("ScaleAndTranslateGrad", [grads, _X, *numbers], attrs, vmap=full)
