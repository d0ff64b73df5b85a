"""Tests functions exported once with symbolic batch, time, height and width, and called at several sizes."""

import jax
import keras
import numpy as np
import pytest
import tensorflow as tf

import graftax.convert as gc
from graftax.ops_jax import BoundedArray

layers = keras.layers
_RNG = np.random.default_rng(0)


def _floats(*shape):
  return _RNG.normal(size=shape).astype(np.float32)


def _ints(*values):
  return np.array(values, np.int32)


def _exported(tf_fn, args, symbolic, constraints=()):
  """Returns the converted function and its export; all dimensions of its arguments are unknown to TensorFlow too."""
  specs = [
    tf.TensorSpec([None if d.isalpha() else int(d) for d in _dims(s)], a.dtype) for s, a in _pairs(symbolic, args)
  ]
  fn, params = gc.convert(tf_fn, *specs)
  scope = jax.export.SymbolicScope(constraints)
  shapes = [jax.ShapeDtypeStruct(jax.export.symbolic_shape(s, scope=scope), a.dtype) for s, a in _pairs(symbolic, args)]
  return jax.export.export(jax.jit(lambda *a: fn(params, *a)[0]))(*shapes)


def _pairs(symbolic, args):
  return zip(symbolic, args, strict=True)


def _dims(symbolic):
  return [dim.strip() for dim in symbolic.split(",") if dim.strip()]


def _check(tf_fn, args, *symbolic):
  tf_fn = tf.function(tf_fn)
  got = _exported(tf_fn, args, symbolic).call(*args)
  want = tf_fn(*map(tf.constant, args))
  for ours, theirs in zip(jax.tree.leaves(got), tf.nest.flatten(want), strict=True):
    np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-5)
    assert ours.dtype == theirs.dtype.as_numpy_dtype


def _model(shape, *stack, dtype="float32"):
  model = keras.Sequential([keras.Input(shape, dtype=dtype), *stack])
  return lambda x: model(x)


_TOKENS = np.array([[1, 2, 3, 0], [4, 5, 0, 0]], np.int32)


@pytest.mark.parametrize(
  "stack",
  [
    lambda: [layers.LSTM(3, return_sequences=True)],
    lambda: [layers.GRU(3, return_sequences=True), layers.LSTM(2)],
    lambda: [layers.Bidirectional(layers.GRU(3, return_sequences=True))],
    lambda: [layers.SimpleRNN(3, return_sequences=True, go_backwards=True)],
    lambda: [layers.Conv1D(4, 3, padding="causal", dilation_rate=2), layers.MaxPooling1D(2), layers.Conv1D(2, 5)],
  ],
)
def test_layers_over_time_take_symbolic_time_steps(stack):
  _check(_model((None, 3), *stack()), [_floats(2, 24, 3)], "b, t, 3")


def test_masked_layers_take_symbolic_time_steps():
  embedding = layers.Embedding(11, 4, mask_zero=True)
  rnn = [layers.Bidirectional(layers.LSTM(3, return_sequences=True)), layers.GlobalAveragePooling1D()]
  _check(_model((None,), embedding, *rnn, dtype="int32"), [_TOKENS], "b, t")


@pytest.mark.parametrize(
  "stack",
  [
    lambda: [layers.Conv2D(4, 3), layers.MaxPooling2D(), layers.UpSampling2D(), layers.AveragePooling2D(3, 2)],
    lambda: [layers.Conv2D(4, 3, strides=2), layers.BatchNormalization(), layers.SeparableConv2D(2, 3)],
    lambda: [layers.ZeroPadding2D(((0, 1), (0, 1))), layers.DepthwiseConv2D(3, 2), layers.GlobalMaxPooling2D()],
    lambda: [layers.MaxPooling2D(5, 2, padding="same"), layers.AveragePooling2D(7, 3)],
  ],
)
def test_layers_over_images_take_symbolic_height_and_width(stack):
  _check(_model((None, None, 3), *stack()), [_floats(2, 17, 16, 3)], "b, h, w, 3")


@pytest.mark.parametrize(
  "tf_fn",
  [
    lambda x: tf.nn.max_pool2d(x, 2, 2, "VALID"),
    lambda x: tf.nn.avg_pool2d(x, 2, 2, "VALID"),
    lambda x: tf.nn.max_pool2d(x, 5, 1, "VALID"),
    lambda x: tf.nn.max_pool_with_argmax(x, 2, 2, "VALID")[0],
    lambda x: tf.image.extract_patches(x, [1, 3, 3, 1], [1, 2, 2, 1], [1, 1, 1, 1], "VALID"),
    lambda x: tf.gradients(tf.nn.max_pool2d(x, 2, 2, "VALID") ** 2, x)[0],
    lambda x: tf.image.resize(x, [tf.shape(x)[1] * 2, tf.shape(x)[2] // 2]),
    lambda x: tf.image.resize_with_crop_or_pad(x, 10, 12),
  ],
)
def test_windows_over_symbolic_images(tf_fn):
  _check(tf_fn, [_floats(2, 7, 8, 3)], "b, h, w, 3")


def test_a_pooling_over_a_symbolic_image_differentiates():
  exported = _exported(tf.function(lambda x: tf.nn.max_pool2d(x, 2, 2, "VALID")), [_floats(2, 7, 8, 3)], ["b, h, w, 3"])
  assert exported.out_avals[0].ndim == 4
  fn = gc.convert_functional(tf.function(lambda x: tf.nn.max_pool2d(x, 3, 2, "VALID")), tf.TensorSpec([None] * 3 + [3]))
  shape = jax.ShapeDtypeStruct(jax.export.symbolic_shape("b, h, w, 3"), np.float32)
  gradient = jax.export.export(jax.jit(jax.grad(lambda x: (fn(x) ** 2).sum())))(shape)
  x = tf.constant(_floats(2, 7, 8, 3))
  with tf.GradientTape() as tape:
    tape.watch(x)
    loss = tf.reduce_sum(tf.nn.max_pool2d(x, 3, 2, "VALID") ** 2)
  np.testing.assert_allclose(gradient.call(x.numpy()), tape.gradient(loss, x), rtol=1e-5)


@pytest.mark.parametrize(
  "tf_fn",
  [
    lambda x: tf.map_fn(lambda row: tf.reduce_sum(row**2), x),
    lambda x: tf.map_fn(lambda row: tf.map_fn(lambda item: item * 2, row), x),
    lambda x: tf.scan(lambda a, b: a * 0.5 + b, x),
    lambda x: tf.scan(lambda a, b: a * 0.5 + b, x, initializer=tf.zeros(tf.shape(x)[1:]), reverse=True),
    lambda x: tf.foldl(lambda a, b: a * 0.9 + b, x),
    lambda x: tf.math.top_k(x, 2),
    lambda x: tf.math.top_k(x, tf.shape(x)[1] // 2),
    lambda x: tf.cumsum(tf.one_hot(tf.argmax(x, -1), tf.shape(x)[1]), axis=1, exclusive=True),
    lambda x: tf.range(40.0)[: tf.shape(x)[1]] * 2,
    lambda x: tf.pad(x, [[0, 0], [0, -tf.shape(x)[1] % 4]]),
    lambda x: tf.tile(tf.range(tf.shape(x)[1])[None], [tf.shape(x)[0], 1]),
    lambda x: tf.reduce_max(x[:, 2:], 1),
  ],
)
def test_programs_over_symbolic_rows(tf_fn):
  _check(tf_fn, [_floats(3, 5)], "b, n")


def test_frames_of_symbolic_signals():
  _check(lambda x: tf.abs(tf.signal.stft(x, 16, 8)), [_floats(3, 64)], "b, n")


def test_tables_that_are_cut_to_a_symbolic_length():
  tf_fn = tf.function(lambda x: x + tf.range(40.0)[: tf.shape(x)[1]])
  x = _floats(3, 5)
  np.testing.assert_allclose(_exported(tf_fn, [x], ["b, n"], ["n <= 40"]).call(x), tf_fn(x), rtol=1e-6)


def test_attention_with_masks_made_of_shapes():
  def attention(x, lengths):
    steps = tf.shape(x)[1]
    mask = tf.sequence_mask(lengths, steps)[:, None] & (tf.linalg.band_part(tf.ones((steps, steps)), -1, 0)[None] > 0)
    return tf.matmul(tf.nn.softmax(tf.where(mask, tf.matmul(x, x, transpose_b=True), -1e9)), x)

  _check(attention, [_floats(2, 5, 4), _ints(3, 5)], "b, t, 4", "b")


def test_concatenated_and_split_by_shape():
  def program(x, y):
    both = tf.concat([x, y], 1)
    first, second = tf.split(both, [tf.shape(x)[1], tf.shape(y)[1]], 1)
    return tf.tile(first[:, None], [1, tf.shape(x)[0], 1]), second[:, ::-1]

  _check(program, [_floats(3, 4), _floats(3, 5)], "b, n", "b, m")


def test_an_autograph_loop_over_symbolic_time_steps():
  def rnn(x):
    states = tf.TensorArray(tf.float32, tf.shape(x)[1])
    state = tf.zeros(tf.shape(x[:, 0]))
    for t in tf.range(tf.shape(x)[1]):
      state = tf.tanh(state + x[:, t])
      states = states.write(t, state)
    return tf.transpose(states.stack(), [1, 0, 2])

  _check(rnn, [_floats(2, 5, 3)], "b, t, 3")


def test_fewer_elements_than_wanted_show():
  exported = _exported(tf.function(lambda x: tf.math.top_k(x, 3)), [_floats(2, 4)], ["b, n"])
  values, indices = exported.call(np.array([[1, 2]], np.float32))
  np.testing.assert_array_equal(values, [[2, 1, np.nan]])
  np.testing.assert_array_equal(indices, [[1, 0, 2]])


def test_sizes_that_cannot_be_compared_are_explained():
  with pytest.raises(Exception, match="inconclusive|symbolic|Symbolic") as e:
    _exported(tf.function(lambda x: tf.reshape(x, [-1, 4])), [_floats(2, 4)], ["b, n"])
  assert any("constraints=" in note for note in e.value.__notes__)


_TAGS = _ints(3, 0, 3, 7, 0, 5, 7, 3)
_VALUES = _floats(8, 3)
_BOXES = np.sort(_RNG.uniform(size=(8, 2, 2)), axis=1).reshape(8, 4).astype(np.float32)

_SIZES_FROM_DATA = {
  "boolean_mask": (lambda x, tags: tf.boolean_mask(x, tags > 2), "n, 3", "n"),
  "sum of masked rows": (lambda x, tags: tf.reduce_sum(tf.boolean_mask(x, tags > 2), 0), "n, 3", "n"),
  "where": (lambda x, tags: tf.where(tags > 2), "n, 3", "n"),
  "gather of where": (lambda x, tags: tf.gather(x, tf.where(tags > 2)[:, 0]) * 2.0, "n, 3", "n"),
  "unique": (lambda x, tags: tf.unique_with_counts(tags), "n, 3", "n"),
  "sum by distinct tag": (
    lambda x, tags: tf.math.unsorted_segment_sum(x, tf.unique(tags)[1], 8),
    "n, 3",
    "n",
  ),
  "list difference": (lambda x, tags: tf.raw_ops.ListDiff(x=tags, y=tags[2:3])[0], "n, 3", "n"),
  "partition": (lambda x, tags: tf.dynamic_partition(x, tf.cast(tags > 2, tf.int32), 2), "n, 3", "n"),
  "partition of columns": (lambda x, tags: tf.dynamic_partition(tags, tf.cast(tags > 2, tf.int32), 2), "n, 3", "n"),
  "sparse from dense": (lambda x, tags: tf.sparse.to_dense(tf.sparse.from_dense(tf.nn.relu(x))), "n, 3", "n"),
  "non-max suppression": (
    lambda boxes, tags: tf.image.non_max_suppression(boxes, tf.cast(tags, tf.float32), 5, 0.3),
    "n, 4",
    "n",
  ),
  "ragged to dense": (
    lambda x, tags: tf.RaggedTensor.from_row_splits(x, tf.stack([0, tags[1] + 2, tf.shape(x)[0]])).to_tensor(),
    "n, 3",
    "n",
  ),
  "stateless shuffle": (lambda x, tags: tf.random.experimental.stateless_shuffle(x, [1, 2]), "n, 3", "n"),
  "searchsorted": (lambda x, tags: tf.searchsorted(tf.sort(tags), tags - 1, "right"), "n, 3", "n"),
}


@pytest.mark.parametrize("name", _SIZES_FROM_DATA)
def test_sizes_that_depend_on_data_are_bounded_by_symbolic_sizes(name):
  function, *symbolic = _SIZES_FROM_DATA[name]
  rows = _BOXES if symbolic[0] == "n, 4" else _VALUES
  tf_fn = tf.function(function)
  exported = _exported(tf_fn, [rows, _TAGS], symbolic)
  for size in (8, 5):
    args = rows[:size], _TAGS[:size]
    got = jax.tree.leaves(exported.call(*args), is_leaf=lambda x: isinstance(x, BoundedArray))
    for ours, theirs in zip(got, tf.nest.flatten(tf_fn(*args)), strict=True):
      ours = np.asarray(ours)
      np.testing.assert_allclose(ours, theirs, rtol=1e-6)
