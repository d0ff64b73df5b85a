"""Signal processing."""

from graftax.testing.harness.conversion_case import Collector, normal, uniform

define = Collector("signal")

_DIFFERENTIABLE = ("value", "jit", "grad", "vmap", "batch")
_LOOSE = (1e-4, 1e-5)
_WAVE = normal(2, 64)


@define(_WAVE, checks=_DIFFERENTIABLE, tolerance=_LOOSE)
def spectrogram(tf, x):
  return tf.abs(tf.signal.stft(x, 16, 8)) ** 2


@define(_WAVE, checks=_DIFFERENTIABLE, tolerance=_LOOSE)
def log_mel(tf, x):
  spectra = tf.abs(tf.signal.stft(x, 32, 16, fft_length=32))
  mel = spectra @ tf.signal.linear_to_mel_weight_matrix(8, 17, 8000, 80.0, 3800.0)
  return tf.signal.mfccs_from_log_mel_spectrograms(tf.math.log(mel + 1e-3))


@define(_WAVE, checks=_DIFFERENTIABLE, tolerance=_LOOSE)
def real_transform_and_back(tf, x):
  return tf.signal.irfft(tf.signal.rfft(x) * 0.5), tf.math.real(tf.signal.rfft(x))


@define(_WAVE, checks=("value", "jit", "grad", "vmap"), tolerance=_LOOSE)
def inverse_spectrogram(tf, x):
  return tf.signal.inverse_stft(tf.signal.stft(x, 16, 8), 16, 8)


@define(normal(2, 8, 8), checks=_DIFFERENTIABLE, tolerance=_LOOSE)
def filtering_in_two_dimensions(tf):
  mask = tf.constant(uniform(8, 8, seed=1), tf.complex64)
  return lambda x: tf.math.real(tf.signal.ifft2d(tf.signal.fft2d(tf.cast(x, tf.complex64)) * mask))


@define(normal(2, 16), checks=_DIFFERENTIABLE, tolerance=_LOOSE)
def cosine_transforms(tf, x):
  return tf.signal.dct(x, 2, norm="ortho"), tf.signal.idct(x, 2, norm="ortho"), tf.signal.dct(x, 3)


@define(_WAVE, checks=_DIFFERENTIABLE)
def framing_and_overlap_add(tf, x):
  frames = tf.signal.frame(x, 16, 4) * tf.signal.hann_window(16)
  return tf.signal.overlap_and_add(frames, 4)


@define(normal(2, 16), checks=("value", "jit", "grad", "vmap"), tolerance=_LOOSE)
def fft_shift_and_phase(tf, x):
  spectrum = tf.signal.fftshift(tf.signal.fft(tf.cast(x, tf.complex64)), axes=[-1])
  return tf.math.angle(spectrum), tf.abs(spectrum)


@define(_WAVE, checks=_DIFFERENTIABLE)
def pre_emphasis_and_moving_sum(tf, x):
  y = x[:, 1:] - 0.97 * x[:, :-1]
  return tf.cumsum(y, axis=1, exclusive=True), tf.math.cumulative_logsumexp(y, axis=1, reverse=True)
