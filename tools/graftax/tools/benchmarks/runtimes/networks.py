"""The networks whose run times are compared, built with Keras on either of its backends.

Each function returns a Keras model. Nothing here imports TensorFlow, but for the parts that Keras has no layer for.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from graftax.tools._tensorflow import KerasModel, TfTensor

__all__ = ["NETWORKS", "Network"]


@dataclasses.dataclass(frozen=True, slots=True)
class Network:
  """A row of the table.

  Attributes:
    title: what it is, for a table.
    build: returns the Keras model.
    tensorflow_only: whether it calls TensorFlow's ops, so that Keras cannot build it on JAX.
    train: whether a step of gradient descent is measured, rather than a call.
  """

  title: str
  build: Callable[[], KerasModel]
  tensorflow_only: bool = False
  train: bool = False


def _model(shape: Sequence[int], *layers: KerasModel) -> KerasModel:
  import keras

  x = y = keras.Input(shape)
  for layer in layers:
    y = layer(y)
  return keras.Model(x, y)


def _conv(width: int, size: int = 3, stride: int = 1, **keywords: Any) -> Any:
  import keras

  return keras.layers.Conv2D(width, size, stride, padding="same", activation="relu", **keywords)


def _mlp() -> KerasModel:
  from keras.layers import Dense

  layers = (Dense(1024, "relu", name="dense_0"), Dense(1024, "relu", name="dense_1"), Dense(10, name="dense_2"))
  return _model([784], *layers)


def _dense_convolutions() -> KerasModel:
  """VGG's kind: two convolutions of 3x3, then half the size."""
  from keras.layers import Dense, GlobalAveragePooling2D, MaxPooling2D

  blocks = [layer for width in (32, 64, 128, 256) for layer in (_conv(width), _conv(width), MaxPooling2D())]
  return _model([64, 64, 3], *blocks, GlobalAveragePooling2D(), Dense(10))


def _depthwise_convolutions() -> KerasModel:
  from keras.layers import DepthwiseConv2D

  return _model([56, 56, 96], *(DepthwiseConv2D(k, padding="same", activation="relu") for k in (3, 5, 3, 7, 3)))


def _grouped_convolutions() -> KerasModel:
  """ResNeXt's kind: 1x1, 3x3 in 32 groups, 1x1."""
  import keras

  x = keras.Input([28, 28, 256])
  y = x
  for _ in range(3):
    inner = _conv(128, 3, groups=32)(_conv(128, 1)(y))
    y = y + keras.layers.Conv2D(256, 1)(inner)
  return keras.Model(x, y)


def _transposed_convolutions() -> KerasModel:
  """DCGAN's generator."""
  from keras.layers import Conv2DTranspose, Dense, Reshape

  ups = [Conv2DTranspose(width, 4, 2, padding="same", activation="relu") for width in (128, 64, 32)]
  last = Conv2DTranspose(3, 4, 2, padding="same", activation="tanh")
  return _model([100], Dense(4 * 4 * 256, "relu"), Reshape([4, 4, 256]), *ups, last)


def _dilated_convolutions() -> KerasModel:
  """A context module: 3x3 with steps of 1 to 16 between the pixels."""
  return _model([64, 64, 32], *(_conv(32, dilation_rate=rate) for rate in (1, 2, 4, 8, 16, 1)))


def _application(name: str, **keywords: Any) -> Callable[[], KerasModel]:
  def build() -> KerasModel:
    import keras

    return getattr(keras.applications, name)(weights=None, **keywords)

  return build


def _u_net() -> KerasModel:
  import keras

  layers = keras.layers
  x = keras.Input([128, 128, 3])
  y, kept = x, []
  for width in (16, 32, 64):
    y = _conv(width)(_conv(width)(y))
    kept.append(y)
    y = layers.MaxPooling2D()(y)
  y = _conv(128)(_conv(128)(y))
  for width, skip in zip((64, 32, 16), kept[::-1], strict=True):
    y = layers.Conv2DTranspose(width, 2, 2, padding="same")(y)
    y = _conv(width)(_conv(width)(layers.Concatenate()([y, skip])))
  return keras.Model(x, layers.Conv2D(1, 1, activation="sigmoid")(y))


def _encoder_layer(y: TfTensor, width: int, heads: int, index: int) -> TfTensor:
  import keras

  layers = keras.layers
  attended = layers.MultiHeadAttention(heads, width // heads, name=f"attention_{index}")(y, y)
  y = layers.LayerNormalization(epsilon=1e-6, name=f"norm_{index}a")(y + attended)
  wide = layers.Dense(4 * width, activation=keras.activations.gelu, name=f"wide_{index}")(y)
  narrow = layers.Dense(width, name=f"narrow_{index}")(wide)
  return layers.LayerNormalization(epsilon=1e-6, name=f"norm_{index}b")(y + narrow)


def _vit() -> KerasModel:
  """ViT-Tiny: patches of 16, 12 layers of width 192."""
  import keras

  x = keras.Input([224, 224, 3])
  y = keras.layers.Reshape([196, 192])(keras.layers.Conv2D(192, 16, 16)(x))
  for index in range(12):
    y = _encoder_layer(y, 192, 3, index)
  return keras.Model(x, keras.layers.Dense(1000)(keras.ops.mean(y, axis=1)))


def _swin() -> KerasModel:
  """Attention within windows of 7x7, every second time moved by 3, in two stages."""
  import keras

  ops = keras.ops
  x = keras.Input([112, 112, 3])
  y = keras.layers.Conv2D(96, 4, 4)(x)
  index = 0
  for width, size in ((96, 28), (192, 14)):
    if y.shape[-1] != width:
      y = keras.layers.Conv2D(width, 2, 2)(y)
    n = size // 7
    for moved in (0, 3):
      z = ops.roll(y, (-moved, -moved), (1, 2)) if moved else y
      z = ops.transpose(ops.reshape(z, [-1, n, 7, n, 7, width]), [0, 1, 3, 2, 4, 5])
      z = _encoder_layer(ops.reshape(z, [-1, 49, width]), width, width // 32, index)
      z = ops.transpose(ops.reshape(z, [-1, n, n, 7, 7, width]), [0, 1, 3, 2, 4, 5])
      z = ops.reshape(z, [-1, size, size, width])
      y = ops.roll(z, (moved, moved), (1, 2)) if moved else z
      index += 1
  return keras.Model(x, keras.layers.Dense(1000)(ops.mean(y, axis=(1, 2))))


def _bert() -> KerasModel:
  """4 layers of width 256 over 128 tokens."""
  import keras

  x = keras.Input([128], dtype="int32")
  y = keras.layers.Embedding(1000, 256, name="tokens")(x)
  for index in range(4):
    y = _encoder_layer(y, 256, 4, index)
  return keras.Model(x, y)


def _decoder_step() -> KerasModel:
  """One token through 4 layers of width 256, with the keys and values of 256 tokens before it."""
  import keras

  ops, layers = keras.ops, keras.layers
  x, cache = keras.Input([256]), keras.Input([4, 2, 4, 256, 64])
  y, kept = x, []
  for index in range(4):
    q, k, v = (layers.Reshape([4, 1, 64])(layers.Dense(256)(y)) for _ in range(3))
    keys, values = (ops.concatenate([cache[:, index, i, :, 1:], new], axis=2) for i, new in enumerate((k, v)))
    weights = ops.softmax(ops.matmul(q, ops.transpose(keys, [0, 1, 3, 2])) / 8)
    attended = layers.Dense(256)(layers.Reshape([256])(ops.matmul(weights, values)))
    y = layers.LayerNormalization(epsilon=1e-6)(y + attended)
    y = layers.LayerNormalization(epsilon=1e-6)(y + layers.Dense(256)(layers.Dense(1024, "relu")(y)))
    kept.append(ops.stack([keys, values], axis=1))
  return keras.Model([x, cache], [layers.Dense(1000)(y), ops.stack(kept, axis=1)])


def _lstm() -> KerasModel:
  from keras.layers import LSTM

  return _model([64, 128], LSTM(128, return_sequences=True, name="lstm_0"), LSTM(128, name="lstm_1"))


def _gru() -> KerasModel:
  from keras.layers import GRU, Bidirectional

  return _model([64, 64], Bidirectional(GRU(96, return_sequences=True)), Bidirectional(GRU(96)))


def _detector() -> KerasModel:
  """A small backbone, 1,600 boxes and the suppression of those that overlap."""
  import keras
  import tensorflow as tf

  layers = keras.layers
  x = keras.Input([160, 160, 3])
  y = x
  for width in (16, 32, 64):
    y = _conv(width)(_conv(width, stride=2)(y))
  centers = layers.Reshape([1600, 2])(layers.Conv2D(8, 1, activation="sigmoid")(y))
  sizes = layers.Reshape([1600, 2])(layers.Conv2D(8, 1, activation="sigmoid")(y))
  scores = layers.Reshape([1600, 4])(layers.Conv2D(16, 1, activation="sigmoid")(y))

  class _Suppression(keras.layers.Layer):
    def call(self, centers: TfTensor, sizes: TfTensor, scores: TfTensor) -> TfTensor:
      boxes = tf.concat([centers - 0.1 * sizes, centers + 0.1 * sizes], -1)[:, :, None]
      found = tf.image.combined_non_max_suppression(boxes, scores, 20, 100, 0.5, 0.1)
      return found.nmsed_boxes, found.nmsed_scores

  return keras.Model(x, list(_Suppression()(centers, sizes, scores)))


def _speech() -> KerasModel:
  """A second of sound to the logarithms of 64 mel bands."""
  import keras
  import tensorflow as tf

  class _LogMel(keras.layers.Layer):
    def call(self, x: TfTensor) -> TfTensor:
      power = tf.square(tf.abs(tf.signal.stft(x, 400, 160, 512)))
      return tf.math.log(power @ tf.signal.linear_to_mel_weight_matrix(64, 257) + 1e-6)

  return _model([16000], _LogMel())


NETWORKS: dict[str, Network] = {
  "mlp": Network("MLP 784-1024-1024-10", _mlp),
  "dense_conv": Network("3x3 convolutions, 64x64", _dense_convolutions),
  "depthwise_conv": Network("depthwise convolutions, 56x56x96", _depthwise_convolutions),
  "grouped_conv": Network("grouped convolutions, 28x28x256", _grouped_convolutions),
  "transposed_conv": Network("transposed convolutions, to 64x64", _transposed_convolutions),
  "dilated_conv": Network("dilated convolutions, 64x64x32", _dilated_convolutions),
  "resnet50": Network("ResNet50", _application("ResNet50")),
  "densenet121": Network("DenseNet121", _application("DenseNet121")),
  "efficientnet_b0": Network("EfficientNetB0", _application("EfficientNetB0")),
  "mobilenet_v2": Network("MobileNetV2", _application("MobileNetV2")),
  "convnext_tiny": Network("ConvNeXtTiny", _application("ConvNeXtTiny")),
  "u_net": Network("U-Net, 128x128", _u_net),
  "vit": Network("ViT-Tiny", _vit),
  "swin": Network("Swin, two stages, 112x112", _swin),
  "bert": Network("encoder like BERT, 4 layers of 256, 128 tokens", _bert),
  "decoder_step": Network("a decoder's step with its cache", _decoder_step),
  "lstm": Network("LSTM 2x128, 64 steps", _lstm),
  "gru": Network("GRU bidirectional 2x96, 64 steps", _gru),
  "detector": Network("detector with suppression, 160x160", _detector, tensorflow_only=True),
  "speech": Network("log-mel of one second", _speech, tensorflow_only=True),
  "train_mlp": Network("training step: MLP", _mlp, train=True),
  "train_mobilenet_v2": Network("training step: MobileNetV2", _application("MobileNetV2"), train=True),
  "train_bert": Network("training step: encoder", _bert, train=True),
  "train_lstm": Network("training step: LSTM", _lstm, train=True),
}
