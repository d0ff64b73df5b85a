"""Image classifiers and features of points and rays."""

from graftax.testing.harness.conversion_case import Collector, normal, uniform
from graftax.testing.tensorflow_programs.layers import with_layers

define = Collector("vision", with_layers)

_ALL = ("value", "jit", "batch", "grad", "param_grad")
_LOOSE = (1e-4, 1e-5)
_IMAGES = normal(2, 32, 32, 3)


@define(_IMAGES, checks=_ALL, tolerance=_LOOSE)
def resnet(tf, layers, x):
  def block(name, x, filters, stride):
    y = tf.nn.relu(layers.batch_norm(f"{name}/bn1", layers.conv(f"{name}/conv1", x, filters, 3, stride)))
    y = layers.batch_norm(f"{name}/bn2", layers.conv(f"{name}/conv2", y, filters))
    return tf.nn.relu(y + (layers.conv(f"{name}/skip", x, filters, 1, stride) if stride > 1 else x))

  x = tf.nn.max_pool2d(layers.conv("stem", x, 8, 7, 2, activation=tf.nn.relu), 3, 2, "SAME")
  for i, (filters, stride) in enumerate([(8, 1), (16, 2), (16, 1)]):
    x = block(f"block{i}", x, filters, stride)
  return tf.nn.softmax(layers.dense("head", tf.reduce_mean(x, [1, 2]), 10))


@define(_IMAGES, checks=_ALL, tolerance=_LOOSE)
def mobilenet_v2(tf, layers, x):
  def block(name, x, filters, stride):
    y = tf.nn.relu6(layers.batch_norm(f"{name}/bn1", layers.conv(f"{name}/expand", x, 4 * x.shape[-1], 1)))
    y = tf.nn.relu6(layers.batch_norm(f"{name}/bn2", layers.depthwise(f"{name}/depthwise", y, 3, stride)))
    y = layers.batch_norm(f"{name}/bn3", layers.conv(f"{name}/project", y, filters, 1))
    return x + y if stride == 1 and filters == x.shape[-1] else y

  x = tf.nn.relu6(layers.conv("stem", x, 8, 3, 2))
  for i, (filters, stride) in enumerate([(8, 1), (12, 2), (12, 1)]):
    x = block(f"block{i}", x, filters, stride)
  return {"features": tf.reduce_mean(x, [1, 2]), "logits": layers.dense("head", tf.reduce_mean(x, [1, 2]), 10)}


@define(_IMAGES, checks=_ALL, tolerance=_LOOSE)
def efficientnet_with_squeeze_and_excitation(tf, layers, x):
  x = tf.nn.silu(layers.conv("stem", x, 8, 3, 2))
  y = tf.nn.silu(layers.depthwise("depthwise", x, 5))
  squeezed = tf.nn.silu(layers.conv("squeeze", tf.reduce_mean(y, [1, 2], keepdims=True), 2, 1))
  y = y * tf.sigmoid(layers.conv("excite", squeezed, 8, 1))
  return layers.dense("head", tf.reduce_mean(x + y, [1, 2]), 10)


@define(_IMAGES, checks=_ALL, tolerance=_LOOSE)
def vision_transformer(tf, layers, x):
  patches = tf.image.extract_patches(x, [1, 8, 8, 1], [1, 8, 8, 1], [1, 1, 1, 1], "VALID")
  tokens = layers.dense("patches", tf.reshape(patches, [tf.shape(x)[0], 16, 192]), 16)
  first = tf.broadcast_to(layers.weight("class", 1, 1, 16), [tf.shape(x)[0], 1, 16])
  x = tf.concat([first, tokens], 1) + layers.weight("positions", 1, 17, 16)
  for i in range(2):
    x = layers.transformer(f"layer{i}", x)
  return layers.dense("head", layers.layer_norm("norm", x)[:, 0], 10)


@define(_IMAGES, checks=_ALL, tolerance=_LOOSE)
def convnext(tf, layers, x):
  x = layers.layer_norm("norm", layers.conv("stem", x, 8, 4, 4, padding="VALID"))
  for i in range(2):
    y = layers.layer_norm(f"norm{i}", layers.depthwise(f"depthwise{i}", x, 7))
    y = layers.dense(f"narrow{i}", layers.dense(f"wide{i}", y, 32, lambda v: tf.nn.gelu(v, approximate=True)), 8)
    x += y * layers.weight(f"scale{i}", 8, scale=0.1)
  return layers.dense("head", tf.reduce_mean(x, [1, 2]), 10)


@define(_IMAGES, checks=_ALL, tolerance=_LOOSE)
def swin_with_shifted_windows(tf, layers, x):
  def windows(x):
    shape = tf.shape(x)
    x = tf.reshape(x, [shape[0], shape[1] // 4, 4, shape[2] // 4, 4, 8])
    return tf.reshape(tf.transpose(x, [0, 1, 3, 2, 4, 5]), [-1, 16, 8])

  def back(x, shape):
    x = tf.reshape(x, [shape[0], shape[1] // 4, shape[2] // 4, 4, 4, 8])
    return tf.reshape(tf.transpose(x, [0, 1, 3, 2, 4, 5]), [shape[0], shape[1], shape[2], 8])

  x = tf.nn.space_to_depth(x, 4)
  x = layers.dense("embed", x, 8)
  shape = tf.shape(x)
  x += back(layers.transformer("layer0", windows(x)), shape)
  shifted = tf.roll(x, [-2, -2], [1, 2])
  x += tf.roll(back(layers.transformer("layer1", windows(shifted)), shape), [2, 2], [1, 2])
  return layers.dense("head", tf.reduce_mean(x, [1, 2]), 10)


@define(normal(2, 16, 16, 1), checks=_ALL, tolerance=_LOOSE)
def capsule_network(tf, layers, x):
  def squash(x):
    squared = tf.reduce_sum(tf.square(x), -1, keepdims=True)
    return squared / (1.0 + squared) * x * tf.math.rsqrt(squared + 1e-7)

  x = layers.conv("conv2", layers.conv("conv1", x, 8, 3, 2, activation=tf.nn.relu), 16, 3, 2)
  capsules = squash(tf.reshape(x, [tf.shape(x)[0], -1, 8]))
  votes = tf.einsum("bij,cijk->bcik", capsules, layers.weight("votes", 4, 32, 8, 6, scale=0.3))
  logits = tf.zeros(tf.shape(votes)[:3])
  for _ in tf.range(3):
    outputs = squash(tf.einsum("bci,bcik->bck", tf.nn.softmax(logits, 1), votes))
    logits += tf.einsum("bcik,bck->bci", votes, outputs)
  return tf.norm(squash(tf.einsum("bci,bcik->bck", tf.nn.softmax(logits, 1), votes)), axis=-1)


@define(normal(2, 40, 3), checks=_ALL, tolerance=_LOOSE)
def pointnet(tf, layers, points):
  pooled = tf.reduce_max(layers.dense("t1", points, 16, tf.nn.relu), 1)
  transform = tf.reshape(layers.dense("t2", pooled, 9), [-1, 3, 3]) + tf.eye(3)
  x = layers.dense("local", tf.matmul(points, transform), 16, tf.nn.relu)
  whole = tf.reduce_max(x, 1, keepdims=True)
  distances = tf.reduce_sum(tf.square(points[:, :, None] - points[:, None]), -1)
  nearest = tf.gather(x, tf.math.top_k(-distances, 4).indices, batch_dims=1)
  return layers.dense("parts", tf.concat([x, tf.reduce_max(nearest, 2), tf.tile(whole, [1, 40, 1])], -1), 5)


@define(normal(2, 3), uniform(2, 3, low=-0.5, high=0.5), checks=_ALL, tolerance=_LOOSE)
def neural_radiance_field(tf, layers, directions, origins):
  depths = tf.linspace(2.0, 6.0, 16)
  points = origins[:, None] + depths[:, None] * tf.linalg.normalize(directions, axis=-1)[0][:, None]
  angles = points[..., None] * 2.0 ** tf.range(4, dtype=tf.float32)
  encoded = tf.reshape(tf.concat([tf.sin(angles), tf.cos(angles)], -1), [tf.shape(points)[0], 16, 24])
  x = layers.dense("hidden", encoded, 32, tf.nn.relu)
  density, color = tf.nn.softplus(layers.dense("density", x, 1)[..., 0]), tf.sigmoid(layers.dense("color", x, 3))
  opacity = 1.0 - tf.exp(-density * (depths[1] - depths[0]))
  weights = opacity * tf.math.cumprod(1.0 - opacity + 1e-10, axis=1, exclusive=True)
  return tf.reduce_sum(weights[..., None] * color, 1), tf.reduce_sum(weights * depths, 1)


@define(normal(2, 16, 16, 3), normal(2, 16, 16, 3, seed=5), checks=_ALL, tolerance=_LOOSE)
def siamese_network(tf, layers, a, b):
  def embed(x):
    x = layers.conv("conv", x, 8, 3, 2, activation=tf.nn.relu)
    return tf.math.l2_normalize(layers.dense("embed", tf.reshape(x, [-1, 8 * 8 * 8]), 12), -1)

  return tf.reduce_sum(embed(a) * embed(b), -1)
