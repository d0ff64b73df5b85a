"""Patches, crops and projective transforms of images against TensorFlow."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from graftax.ops_jax.image.crop_and_resize import crop_and_resize
from graftax.testing.raw_ops import check_raw_op

pytestmark = pytest.mark.tensorflow

_RNG = np.random.default_rng(0)
_IMAGES = _RNG.normal(size=(2, 6, 7, 2)).astype(np.float32)
_BOXES = np.array(
  [
    [0.0, 0.0, 1.0, 1.0],
    [0.11, 0.23, 0.73, 0.91],
    [0.83, 0.92, 0.13, 0.24],
    [-0.43, 0.31, 0.52, 1.41],
    [0.5, 0.5, 0.5, 0.5],
  ],
  np.float32,
)
_BOX_IND = np.array([0, 1, 1, 0, 1], np.int32)


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("rates", [[1, 1, 1, 1], [1, 2, 1, 1]])
def test_image_patches(rates, padding):
  attrs = {"ksizes": [1, 3, 2, 1], "strides": [1, 2, 1, 1], "rates": rates, "padding": padding}
  check_raw_op("ExtractImagePatches", [_IMAGES], attrs, grad=padding == "VALID")
  check_raw_op("ExtractImagePatches", [(_IMAGES * 9).astype(np.int32)], attrs, vmap=False)


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_volume_patches(padding):
  attrs = {"ksizes": [1, 2, 3, 2, 1], "strides": [1, 1, 2, 2, 1], "padding": padding}
  check_raw_op("ExtractVolumePatches", [_RNG.normal(size=(1, 4, 5, 6, 2)).astype(np.float32)], attrs)


def test_volumes_without_room_for_a_window_have_no_patches():
  attrs = {"ksizes": [1, 2, 2, 2, 1], "strides": [1, 2, 2, 2, 1], "padding": "VALID"}
  check_raw_op("ExtractVolumePatches", [np.ones((2, 1, 2, 2, 2))], attrs, vmap=False)


@pytest.mark.parametrize("crop_size", [(3, 4), (1, 1), (9, 2)])
@pytest.mark.parametrize("method", ["bilinear", "nearest"])
def test_crop_and_resize(method, crop_size):
  attrs = {"method": method, "extrapolation_value": 7.0}
  inputs = [_IMAGES, _BOXES, _BOX_IND, np.array(crop_size, np.int32)]
  grad = ["image", "boxes"] if method == "bilinear" else ["image"]
  check_raw_op("CropAndResize", inputs, attrs, grad=grad, vmap=crop_size == (3, 4), grad_tolerance=(1e-3, 1e-3))


def test_crop_and_resize_of_integers():
  inputs = [(_IMAGES * 50).astype(np.int32), _BOXES, _BOX_IND, np.array([3, 4], np.int32)]
  check_raw_op("CropAndResize", inputs, vmap=False, tolerance=(1e-4, 1e-3))


@pytest.mark.parametrize(("image_size", "crop_size"), [(7, 8), (8, 4), (8, 13), (10, 12), (10, 8)])
def test_the_last_position_of_a_whole_image_is_inside(image_size, crop_size):
  image = _RNG.normal(size=(1, image_size, image_size, 1)).astype(np.float32)
  boxes = np.array([[0, 0, 1, 1], [1, 1, 0, 0], [0, 0.5, 1, 1]], np.float32)
  inputs = [image, boxes, np.zeros(3, np.int32), np.array([crop_size, crop_size], np.int32)]
  check_raw_op("CropAndResize", inputs, {"extrapolation_value": 7.0}, vmap=["image"])


def test_positions_on_pixels_are_the_same_under_jit():
  import tensorflow as tf

  rng = np.random.default_rng(0)
  image = rng.normal(size=(1, 16, 24, 2)).astype(np.float32)
  boxes = np.round(rng.uniform(-0.2, 1.2, (400, 4)), 1).astype(np.float32)
  box_ind = np.zeros(400, np.int32)
  crops = jax.jit(lambda *inputs: crop_and_resize(*inputs, (13, 9)))(image, boxes, box_ind)
  expected = tf.image.crop_and_resize(image, boxes, box_ind, (13, 9)).numpy()
  np.testing.assert_allclose(crops, expected, rtol=1e-5, atol=1e-5)


def test_crop_gradient_ops():
  grads = _RNG.normal(size=(5, 3, 4, 2)).astype(np.float32)
  for method in ("bilinear", "nearest"):
    inputs = [grads, _BOXES, _BOX_IND, np.array(_IMAGES.shape, np.int32)]
    check_raw_op("CropAndResizeGradImage", inputs, {"T": np.float32, "method": method}, vmap=["grads"])
  check_raw_op("CropAndResizeGradBoxes", [grads, _IMAGES, _BOXES, _BOX_IND], vmap=["grads"], tolerance=(1e-4, 1e-4))


def test_nearest_crops_have_no_derivative_for_boxes():
  def loss(boxes):
    return jnp.sum(crop_and_resize(_IMAGES, boxes, _BOX_IND, (3, 4), method="nearest"))

  np.testing.assert_array_equal(jax.grad(loss)(jnp.asarray(_BOXES)), np.zeros_like(_BOXES))


_TRANSFORMS = np.array(
  [[0.9, 0.2, 0.5, -0.1, 1.1, -0.7, 0.01, 0.02], [1.3, -0.4, 2.0, 0.3, 0.8, 1.0, 0.0, 0.0]], np.float32
)


@pytest.mark.parametrize("fill_mode", ["CONSTANT", "REFLECT", "WRAP", "NEAREST"])
@pytest.mark.parametrize("interpolation", ["NEAREST", "BILINEAR"])
def test_projective_transform(interpolation, fill_mode):
  attrs = {"interpolation": interpolation, "fill_mode": fill_mode}
  for size in ((6, 7), (9, 11)):
    inputs = [_IMAGES, _TRANSFORMS, np.array(size, np.int32), np.float32(1.5)]
    full = size == (9, 11) and fill_mode == "CONSTANT"
    check_raw_op(
      "ImageProjectiveTransformV3", inputs, attrs, grad=["images"] if full else False, vmap=full, tolerance=(1e-4, 1e-4)
    )
  check_raw_op("ImageProjectiveTransformV2", inputs[:3], attrs, vmap=False, tolerance=(1e-4, 1e-4))


def test_less_than_a_half_is_nearest_to_the_pixel_before():
  shift = np.array([[1, 0, 0.49999997, 0, 1, 0.49999997, 0, 0]], np.float32)
  inputs = [_IMAGES[:1], shift, np.array([1, 1], np.int32)]
  check_raw_op("ImageProjectiveTransformV2", inputs, {"interpolation": "NEAREST"}, vmap=False)


def test_one_transform_serves_all_images_of_integers():
  attrs = {"interpolation": "NEAREST"}
  inputs = [(_IMAGES * 50).astype(np.int32), _TRANSFORMS[1:], np.array([4, 5], np.int32)]
  check_raw_op("ImageProjectiveTransformV2", inputs, attrs, vmap=False)
