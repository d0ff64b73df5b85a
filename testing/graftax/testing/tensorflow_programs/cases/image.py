"""Image operations."""

import numpy as np

from graftax.testing.harness.conversion_case import Collector, integers, normal, uniform

define = Collector("image")

_DIFFERENTIABLE = ("value", "jit", "grad", "vmap", "batch")
_LOOSE = (1e-4, 1e-5)
_IMAGES = uniform(2, 8, 8, 3)


@define(_IMAGES, checks=_DIFFERENTIABLE, tolerance=_LOOSE)
def resize_bilinear(tf, x):
  return tf.image.resize(x, [12, 5]), tf.image.resize(x, [4, 4], antialias=True)


@define(_IMAGES, checks=_DIFFERENTIABLE)
def resize_nearest(tf, x):
  return tf.image.resize(x, [12, 5], "nearest")


@define(_IMAGES, checks=_DIFFERENTIABLE, tolerance=_LOOSE)
def resize_bicubic_and_lanczos(tf, x):
  return tf.image.resize(x, [12, 5], "bicubic"), tf.image.resize(x, [5, 6], "lanczos3")


@define(_IMAGES, checks=("value", "jit", "vmap", "batch"), tolerance=_LOOSE)
def resize_as_tf1_did(tf):
  resize = tf.compat.v1.image.resize_bilinear
  return lambda x: (resize(x, [12, 5]), resize(x, [12, 5], align_corners=True))


@define(_IMAGES, checks=("value", "jit", "grad", "vmap"), tolerance=_LOOSE)
def colors(tf, x):
  image = tf.image
  return image.rgb_to_hsv(x), image.rgb_to_grayscale(x), image.rgb_to_yuv(x), image.yuv_to_rgb(x)


@define(_IMAGES, checks=("value", "jit", "vmap"), tolerance=_LOOSE)
def adjustments(tf, x):
  image = tf.image
  return (
    image.adjust_hue(x, 0.1),
    image.adjust_saturation(x, 0.7),
    image.adjust_gamma(x, 1.2),
    image.adjust_brightness(x, 0.1),
    image.adjust_contrast(x, 1.5),
    image.hsv_to_rgb(x),
  )


@define(_IMAGES, checks=_DIFFERENTIABLE)
def flips_crops_and_pads(tf, x):
  image = tf.image
  cropped = image.crop_to_bounding_box(x, 1, 2, 5, 4)
  padded = image.pad_to_bounding_box(cropped, 1, 1, 8, 8)
  return image.flip_left_right(x), image.flip_up_down(x), image.rot90(x), padded, image.central_crop(x, 0.5)


@define(_IMAGES, uniform(3, 4), integers(3, high=2), checks=("value", "jit", "grad"), tolerance=_LOOSE)
def crop_and_resize(tf, x, boxes, index):
  return tf.image.crop_and_resize(x, tf.sort(boxes, 1), index, [4, 4])


@define(uniform(6, 4) * 0.5, uniform(6, seed=1), checks=("value", "jit"))
def non_max_suppression(tf, boxes, scores):
  boxes = tf.concat([boxes[:, :2], boxes[:, :2] + 0.3], 1)
  return tuple(tf.image.non_max_suppression_padded(boxes, scores, 4, 0.3, pad_to_max_output_size=True))


@define(_IMAGES, checks=("value", "jit", "grad", "vmap", "batch"), tolerance=_LOOSE)
def gradients_and_variation(tf, x):
  return *tf.image.image_gradients(x), tf.image.total_variation(x), tf.image.sobel_edges(x)


@define(_IMAGES, uniform(2, 8, 8, 3, seed=1), checks=("value", "jit", "grad"), tolerance=_LOOSE)
def similarity(tf, a, b):
  return tf.image.psnr(a, b, 1.0), tf.image.ssim(a, b, 1.0, filter_size=5)


@define(_IMAGES, checks=("value", "jit", "batch"), tolerance=_LOOSE)
def standardization_and_uint8(tf, x):
  as_bytes = tf.image.convert_image_dtype(x, tf.uint8, saturate=True)
  return tf.image.per_image_standardization(x), as_bytes, tf.image.convert_image_dtype(as_bytes, tf.float32)


@define(
  _IMAGES,
  np.array([[1, 0.1, 0.5, -0.1, 0.9, 1, 0, 0]] * 2, np.float32),
  checks=("value", "jit", "grad"),
  tolerance=_LOOSE,
)
def projective_transform(tf, x, transform):
  return tf.raw_ops.ImageProjectiveTransformV3(
    images=x, transforms=transform, output_shape=[8, 8], fill_value=0.0, interpolation="BILINEAR", fill_mode="REFLECT"
  )


@define(normal(2, 8, 8, 3), checks=("value", "jit", "vmap"), tolerance=_LOOSE)
def keras_preprocessing(tf):
  layers = tf.keras.layers
  return tf.keras.Sequential(
    [layers.Rescaling(2.0, -1.0), layers.Resizing(6, 6), layers.CenterCrop(4, 4), layers.ZeroPadding2D(1)]
  )
