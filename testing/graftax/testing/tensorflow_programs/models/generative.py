"""Models that make images and other data."""

from graftax.testing.harness.conversion_case import Collector, integers, normal, uniform
from graftax.testing.tensorflow_programs.layers import with_layers

define = Collector("generative", with_layers)

_ALL = ("jit", "batch", "grad", "param_grad")
_LOOSE = (1e-4, 1e-5)


@define(normal(2, 16), integers(2, high=5), checks=_ALL, tolerance=(1e-3, 1e-4))
def biggan_generator(tf, layers, noise, labels):
  def spectral(name, weights):
    matrix = tf.reshape(weights, [-1, weights.shape[-1]])
    v = layers.weight(f"{name}/u", 1, weights.shape[-1], scale=1.0)
    u = tf.math.l2_normalize(tf.matmul(v, matrix, transpose_b=True))
    v = tf.stop_gradient(tf.math.l2_normalize(tf.matmul(u, matrix)))
    return weights / tf.squeeze(tf.matmul(tf.matmul(tf.stop_gradient(u), matrix), v, transpose_b=True))

  def conditional_norm(name, x, condition):
    mean, variance = layers.weight(f"{name}/mean", 8, scale=0.1), layers.weight(f"{name}/var", 8, scale=0.1, offset=1.0)
    scale = 1.0 + layers.dense(f"{name}/scale", condition, 8)[:, None, None]
    return (x - mean) * tf.math.rsqrt(variance + 1e-4) * scale + layers.dense(f"{name}/shift", condition, 8)[
      :, None, None
    ]

  condition = tf.concat([noise[:, 8:], layers.embedding("classes", labels, 5, 8)], -1)
  x = tf.reshape(layers.dense("start", noise[:, :8], 128), [-1, 4, 4, 8])
  for i in range(2):
    y = tf.nn.relu(conditional_norm(f"norm{i}", x, condition))
    y = tf.repeat(tf.repeat(y, 2, 1), 2, 2)
    x = tf.nn.conv2d(y, spectral(f"conv{i}", layers.weight(f"conv{i}", 3, 3, 8, 8)), 1, "SAME")
  return tf.tanh(layers.conv("image", x, 3))


@define(uniform(2, 16, 16, 1), normal(2, 4), checks=_ALL, tolerance=_LOOSE)
def variational_autoencoder(tf, layers, x, noise):
  y = tf.reshape(layers.conv("down", x, 8, 3, 2, activation=tf.nn.relu), [-1, 512])
  mean, log_variance = tf.split(layers.dense("code", y, 8), 2, -1)
  code = mean + tf.exp(0.5 * log_variance) * noise
  y = tf.reshape(layers.dense("start", code, 512, tf.nn.relu), [-1, 8, 8, 8])
  logits = tf.nn.conv2d_transpose(y, layers.weight("up", 3, 3, 1, 8), [tf.shape(x)[0], 16, 16, 1], 2)
  likelihood = -tf.reduce_sum(tf.nn.sigmoid_cross_entropy_with_logits(labels=x, logits=logits), [1, 2, 3])
  divergence = 0.5 * tf.reduce_sum(tf.exp(log_variance) + mean**2 - 1.0 - log_variance, -1)
  return {"image": tf.sigmoid(logits), "bound": likelihood - divergence}


@define(uniform(2, 30), checks=_ALL, tolerance=_LOOSE)
def sparse_autoencoder(tf, layers, x):
  code = layers.dense("encode", x, 64)
  top = tf.math.top_k(code, 8)
  kept = tf.scatter_nd(_with_rows(tf, top.indices), tf.nn.relu(top.values), tf.shape(code))
  return layers.dense("decode", kept, 30), tf.math.count_nonzero(kept, axis=-1)


def _with_rows(tf, columns):
  return tf.stack([tf.broadcast_to(tf.range(tf.shape(columns)[0])[:, None], tf.shape(columns)), columns], -1)


@define(normal(2, 16, 16, 3), integers(2, high=100), checks=("jit", "batch", "param_grad"), tolerance=(1e-3, 1e-4))
def diffusion_step_of_a_unet(tf, layers, x, time):
  def group_norm(name, x):
    y = tf.reshape(x, [tf.shape(x)[0], -1, 4, x.shape[-1] // 4])
    mean, variance = tf.nn.moments(y, [1, 3], keepdims=True)
    return tf.reshape((y - mean) * tf.math.rsqrt(variance + 1e-5), tf.shape(x)) * layers.weight(
      name, x.shape[-1], offset=1.0
    )

  frequencies = tf.exp(tf.range(4, dtype=tf.float32) * -2.0)
  angles = tf.cast(time, tf.float32)[:, None] * frequencies
  embedded = layers.dense("time", tf.concat([tf.sin(angles), tf.cos(angles)], -1), 8, tf.nn.silu)
  y = layers.conv("in", x, 8) + embedded[:, None, None]
  y = layers.conv("down", tf.nn.silu(group_norm("norm1", y)), 8, 3, 2)
  flat = tf.reshape(y, [-1, 64, 8])
  y += tf.reshape(layers.attention("attention", flat, flat, 2), tf.shape(y))
  y = tf.image.resize(y, [16, 16], "nearest")
  noise = layers.conv("out", tf.nn.silu(group_norm("norm2", y)), 3)
  alphas = tf.math.cumprod(1.0 - tf.linspace(1e-4, 0.02, 100))
  alpha = tf.gather(alphas, time)[:, None, None, None]
  return (x - tf.sqrt(1.0 - alpha) * noise) / tf.sqrt(alpha)


@define(normal(3, 6), checks=_ALL, tolerance=(1e-3, 1e-4))
def normalizing_flow(tf, layers, x):
  total = tf.zeros([tf.shape(x)[0]])
  for i in range(3):
    a, b = tf.split(x, 2, -1)
    shift, scale = tf.split(layers.dense(f"out{i}", layers.dense(f"hidden{i}", a, 16, tf.tanh), 6), 2, -1)
    scale = tf.tanh(scale)
    x = tf.reverse(tf.concat([a, b * tf.exp(scale) + shift], -1), [-1])
    total += tf.reduce_sum(scale, -1)
    lower = tf.linalg.band_part(layers.weight(f"mix{i}", 6, 6), -1, 0) + 2.0 * tf.eye(6)
    x = tf.linalg.matvec(lower, x)
    total += tf.reduce_sum(tf.math.log(tf.abs(tf.linalg.diag_part(lower))))
  return total - 0.5 * tf.reduce_sum(x**2 + tf.math.log(6.2831855), -1)


@define(normal(2, 8, 8, 4), checks=("jit", "batch", "param_grad"), tolerance=_LOOSE)
def vector_quantized_codes(tf, layers, x):
  codes = layers.weight("codes", 12, 4, scale=1.0)
  flat = tf.reshape(x, [-1, 4])
  distances = tf.reduce_sum(flat**2, 1, keepdims=True) - 2.0 * tf.matmul(flat, codes, transpose_b=True)
  indices = tf.argmin(distances + tf.reduce_sum(codes**2, 1), 1)
  quantized = tf.reshape(tf.nn.embedding_lookup(codes, indices), tf.shape(x))
  usage = tf.math.bincount(tf.cast(indices, tf.int32), minlength=12, maxlength=12, dtype=tf.float32)
  return x + tf.stop_gradient(quantized - x), tf.reduce_mean((tf.stop_gradient(x) - quantized) ** 2), usage


@define(integers(2, 6, high=4), checks=("jit", "batch"), tolerance=_LOOSE)
def pixelcnn(tf, layers, ids):
  x = layers.embedding("values", ids, 4, 8)
  for i in range(2):
    x = tf.pad(x, [[0, 0], [2, 0], [0, 0]])
    a, b = tf.split(layers.conv(f"conv{i}", x, 16, 3, padding="VALID"), 2, -1)
    x = tf.tanh(a) * tf.sigmoid(b)
  return tf.nn.log_softmax(layers.dense("out", x, 4))
