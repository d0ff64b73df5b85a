"""Models with an image, or a label for each pixel, as their result."""

from graftax.testing.harness.conversion_case import Collector, normal, uniform
from graftax.testing.tensorflow_programs.layers import with_layers

define = Collector("segmentation", with_layers)

_ALL = ("jit", "batch", "grad", "param_grad")
_LOOSE = (1e-4, 1e-5)
_IMAGES = uniform(2, 32, 32, 3)


@define(_IMAGES, checks=_ALL, tolerance=_LOOSE)
def unet(tf, layers, x):
  skips = []
  for i in range(2):
    x = layers.conv(f"down{i}", x, 8, activation=tf.nn.relu)
    skips.append(x)
    x = tf.nn.max_pool2d(x, 2, 2, "VALID")
  x = layers.conv("middle", x, 16, activation=tf.nn.relu)
  for i in (1, 0):
    shape = tf.shape(skips[i])
    x = tf.nn.conv2d_transpose(x, layers.weight(f"up{i}", 2, 2, 8, x.shape[-1]), [shape[0], shape[1], shape[2], 8], 2)
    x = layers.conv(f"join{i}", tf.concat([x, skips[i]], -1), 8, activation=tf.nn.relu)
  return tf.nn.softmax(layers.conv("classes", x, 4, 1))


@define(_IMAGES, checks=("jit", "batch", "param_grad"), tolerance=_LOOSE)
def deeplab(tf, layers, images):
  size = tf.shape(images)[1:3]
  x = layers.conv("stem", images, 8, 3, 4, activation=tf.nn.relu)
  branches = [layers.conv(f"rate{rate}", x, 8, 3, rate=rate, activation=tf.nn.relu) for rate in (1, 2, 3)]
  pooled = layers.conv("pool", tf.reduce_mean(x, [1, 2], keepdims=True), 8, 1)
  branches.append(tf.image.resize(pooled, tf.shape(x)[1:3]))
  x = layers.conv("classes", tf.concat(branches, -1), 5, 1)
  logits = tf.compat.v1.image.resize_bilinear(x, size, align_corners=True)
  return {"logits": logits, "labels": tf.argmax(logits, -1)}


# Without biases before a normalization: it removes them, so their gradients are zero but for rounding.
@define(_IMAGES, checks=_ALL, tolerance=(1e-3, 1e-4))
def style_transfer(tf, layers, x):
  def instance_norm(name, x):
    mean, variance = tf.nn.moments(x, [1, 2], keepdims=True)
    return (x - mean) * tf.math.rsqrt(variance + 1e-3) * layers.weight(name, 8, scale=0.1, offset=1.0)

  x = tf.pad(x, [[0, 0], [2, 2], [2, 2], [0, 0]], "REFLECT")
  x = tf.nn.relu(instance_norm("norm1", layers.conv("conv1", x, 8, 5, 2, padding="VALID", bias=False)))
  x += instance_norm("norm2", layers.conv("conv2", x, 8, bias=False))
  x = tf.image.resize(x, 2 * tf.shape(x)[1:3], method="nearest")
  return tf.tanh(layers.conv("conv3", x, 3)) * 127.5 + 127.5


@define(_IMAGES, checks=_ALL, tolerance=_LOOSE)
def super_resolution(tf, layers, x):
  y = layers.conv("conv1", x, 8, activation=lambda v: tf.nn.leaky_relu(v, 0.2))
  y = tf.nn.depth_to_space(layers.conv("conv2", y, 12), 2)
  return tf.clip_by_value(y + tf.image.resize(x, 2 * tf.shape(x)[1:3], method="bicubic"), -3.0, 3.0)


@define(_IMAGES, checks=("jit", "batch", "param_grad"), tolerance=_LOOSE)
def monocular_depth(tf, layers, x):
  small = layers.conv("conv1", x, 8, 3, 2, activation=tf.nn.elu)
  up = tf.image.resize(layers.conv("conv2", small, 8, activation=tf.nn.elu), tf.shape(x)[1:3], antialias=True)
  disparity = tf.sigmoid(layers.conv("conv3", tf.concat([up, x], -1), 1))
  return 1.0 / (0.01 + 9.99 * disparity[..., 0])


@define(uniform(2, 24, 24, 3), normal(2, 24, 24, 2, scale=2.0), checks=("jit", "batch"), tolerance=_LOOSE)
def optical_flow_warp(tf):
  def warp(images, flow):
    grid = tf.cast(tf.stack(tf.meshgrid(tf.range(24), tf.range(24), indexing="ij"), -1), tf.float32)
    places = tf.clip_by_value(grid + flow, 0.0, 22.999)
    low = tf.cast(tf.floor(places), tf.int32)
    part = places - tf.floor(places)
    corner = lambda y, x: tf.gather_nd(images, low + [y, x], batch_dims=1)  # noqa: E731
    dy, dx = part[..., :1], part[..., 1:]
    top = corner(0, 0) * (1 - dx) + corner(0, 1) * dx
    return top * (1 - dy) + (corner(1, 0) * (1 - dx) + corner(1, 1) * dx) * dy

  return tf.function(warp)
