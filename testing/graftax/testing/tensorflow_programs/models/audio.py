"""Models of sound, from waveforms."""

from graftax.testing.harness.conversion_case import Collector, normal
from graftax.testing.tensorflow_programs.layers import with_layers

define = Collector("audio", with_layers)

_LOOSE = (1e-3, 1e-4)
_WAVES = normal(2, 1600, scale=0.2)


@define(_WAVES, checks=("jit", "batch", "grad", "param_grad"), tolerance=_LOOSE)
def yamnet(tf, layers, waves):
  spectra = tf.abs(tf.signal.stft(waves, 400, 160, 512))
  bands = tf.signal.linear_to_mel_weight_matrix(16, 257, 16000, 125.0, 7500.0)
  x = tf.math.log(tf.tensordot(spectra, bands, 1) + 1e-3)[..., None]
  x = tf.nn.relu(layers.conv("stem", x, 8, 3, 2))
  x = tf.nn.relu(layers.conv("pointwise", layers.depthwise("depthwise", x, 3, 1), 8, 1))
  x = tf.reduce_mean(x, [1, 2])
  return tf.sigmoid(layers.dense("classes", x, 5)), x


@define(_WAVES, checks=("jit", "batch"), tolerance=_LOOSE)
def vggish_with_frames(tf, layers, waves):
  frames = tf.signal.frame(waves, 800, 400, pad_end=True)
  spectra = tf.abs(tf.signal.rfft(frames * tf.signal.hann_window(800), [1024]))
  mel = tf.tensordot(spectra**2, tf.signal.linear_to_mel_weight_matrix(20, 513, 16000), 1)
  cepstra = tf.signal.mfccs_from_log_mel_spectrograms(tf.math.log(mel + 1e-6))[..., :10]
  code = layers.dense("code", cepstra, 6)
  return tf.cast(tf.clip_by_value(tf.round(code * 20.0) + 128.0, 0.0, 255.0), tf.uint8)


@define(_WAVES, checks=("jit", "batch", "grad", "param_grad"), tolerance=_LOOSE)
def wav2vec(tf, layers, x):
  x = x[..., None]
  for i, (size, stride) in enumerate(((10, 5), (8, 8), (4, 4))):
    x = tf.nn.gelu(layers.conv(f"conv{i}", x, 8, size, stride, padding="VALID"))
  x = layers.layer_norm("norm", x)
  weights = layers.weight("positions", 4, 2, 8)
  groups = [tf.nn.conv1d(part, weights[..., 2 * i : 2 * i + 2], 1, "SAME") for i, part in enumerate(tf.split(x, 4, -1))]
  return layers.transformer("layer", x + tf.nn.gelu(tf.concat(groups, -1)))


@define(normal(2, 64, 1), checks=("jit", "batch", "grad", "param_grad"), tolerance=_LOOSE)
def wavenet(tf, layers, x):
  x, total = layers.conv("in", x, 8, 1), 0.0
  for i, rate in enumerate((1, 2, 4, 8)):
    y = layers.conv(f"conv{i}", tf.pad(x, [[0, 0], [rate, 0], [0, 0]]), 16, 2, rate=rate, padding="VALID")
    y = tf.tanh(y[..., :8]) * tf.sigmoid(y[..., 8:])
    total += layers.conv(f"skip{i}", y, 8, 1)
    x += layers.conv(f"rest{i}", y, 8, 1)
  return tf.nn.softmax(layers.conv("out", tf.nn.relu(total), 16, 1))


@define(_WAVES, checks=("jit", "batch"), tolerance=_LOOSE)
def source_separation(tf, layers, waves):
  spectra = tf.signal.stft(waves, 256, 64, pad_end=True)
  masks = tf.sigmoid(layers.dense("masks", tf.math.log1p(tf.abs(spectra)), 258))
  kept = tf.cast(masks[..., :129], tf.complex64) * spectra
  window = tf.signal.inverse_stft_window_fn(64)
  return tf.signal.inverse_stft(kept, 256, 64, window_fn=window)


@define(_WAVES, checks=("value",), tolerance=_LOOSE)
def speech_recognition_with_ctc(tf, layers, waves):
  x = tf.math.log(tf.abs(tf.signal.stft(waves, 256, 128)) + 1e-3)
  logits = layers.dense("out", tf.keras.activations.relu(layers.dense("hidden", x, 16)), 6)
  steps = tf.fill([tf.shape(logits)[0]], tf.shape(logits)[1])
  (labels,), scores = tf.nn.ctc_beam_search_decoder(tf.transpose(logits, [1, 0, 2]), steps, 8, 1)
  return tf.sparse.to_dense(labels, default_value=-1), scores
