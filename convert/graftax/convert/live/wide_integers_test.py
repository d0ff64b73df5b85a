"""Compares programs with constants beyond 32 bits with TensorFlow, while JAX's 64-bit types are off."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tensorflow as tf

from graftax.convert import convert
from graftax.graphdef_ir import UnsupportedError
from graftax.ops_jax import as_int64_pair

_WIDE = np.array([2**40 + 1, 2**41, 5, -(2**50)], np.int64)
_POSITIONS = np.array([3, 1, 2, 0], np.int32)

_EXACT = {
  "one-hot vectors": lambda i: tf.one_hot(i, 4, on_value=tf.constant(2**40, tf.int64)),
  "copies of more than is kept known": lambda i: (
    tf.tile(tf.constant(np.tile(_WIDE, 2000)), [2]) + tf.cast(i[:1], tf.int64)
  ),
  "a diagonal": lambda i: tf.linalg.diag(tf.gather(tf.constant(_WIDE), i)),
  "a diagonal taken out": lambda i: tf.linalg.diag_part(tf.gather(tf.constant(_WIDE.reshape(2, 2)), i[2:] // 2)),
  "a band": lambda i: tf.linalg.band_part(tf.gather(tf.constant(_WIDE.reshape(2, 2)), i[2:] // 2), 0, -1),
  "a diagonal replaced": lambda i: tf.linalg.set_diag(tf.zeros([4, 4], tf.int64), tf.gather(tf.constant(_WIDE), i)),
  "blocks": lambda i: tf.nn.depth_to_space(tf.reshape(tf.gather(tf.constant(_WIDE), i), [1, 1, 1, 4]), 2),
  "batches": lambda i: tf.batch_to_space(
    tf.reshape(tf.gather(tf.constant(_WIDE), i), [4, 1, 1, 1]), [2, 2], [[0, 0], [0, 0]]
  ),
  "rows of a sparse matrix": lambda i: tf.sparse.to_dense(
    tf.SparseTensor(tf.constant([[0], [2], [3], [4]], tf.int64), tf.gather(tf.constant(_WIDE), i), [5])
  ),
  "ragged rows": lambda i: tf.RaggedTensor.from_row_splits(tf.gather(tf.constant(_WIDE), i), [0, 3, 4]).to_tensor(7),
  "a slice to the end": lambda i: tf.strided_slice(i, np.array([1]), np.array([2**63 - 1])),
  "a slice replaced": lambda i: tf.raw_ops.TensorStridedSliceUpdate(
    input=i, begin=np.array([1]), end=np.array([2**63 - 1]), strides=np.array([1]), value=i[1:]
  ),
  "the gradient of a slice": lambda i: tf.raw_ops.StridedSliceGrad(
    shape=np.array([4]), begin=np.array([1]), end=np.array([2**63 - 1]), strides=np.array([1]), dy=i[1:]
  ),
  "rows joined at known positions": lambda i: tf.dynamic_stitch([[3, 0]], [tf.gather(tf.constant(_WIDE), i[:2])]),
  "rows divided at known positions": lambda i: tf.dynamic_partition(tf.gather(tf.constant(_WIDE), i), [0, 1, 1, 0], 2)[
    1
  ],
  "rows of a matrix with wide coordinates": lambda i: tf.sparse.reduce_sum(
    tf.sparse.reorder(tf.SparseTensor([[1, 2**33], [0, 2**32]], i[:2], [2, 2**34])), 1
  ),
  "a result of a custom gradient": lambda i: tf.custom_gradient(lambda x: ((x, tf.constant(_WIDE)), lambda g, _: g))(
    tf.cast(i, tf.float32)
  )[1],
  "a sum": lambda i: tf.reduce_sum(tf.gather(tf.constant(_WIDE), i)),
}

_EXACT_OR_REFUSED = {
  "a matrix product": lambda i: tf.linalg.matvec(tf.constant(np.stack([_WIDE, _WIDE])), tf.cast(i, tf.int64)),
  "einsum": lambda i: tf.einsum("i,i->", tf.constant(_WIDE), tf.cast(i, tf.int64)),
  "sums by segment": lambda i: tf.math.unsorted_segment_sum(tf.constant(_WIDE), i, 4),
  "updates that are added": lambda i: tf.tensor_scatter_nd_add(tf.constant(_WIDE), i[:, None], tf.constant(_WIDE)),
  "values in places": lambda i: tf.scatter_nd(i[:, None], tf.constant(_WIDE), [4]),
  "a binary search": lambda i: tf.searchsorted(tf.constant(np.sort(_WIDE)), tf.cast(i, tf.int64)),
  "powers": lambda i: tf.pow(tf.constant(_WIDE), tf.cast(i, tf.int64)),
  "squared differences": lambda i: tf.math.squared_difference(tf.constant(2**33, tf.int64), tf.cast(i, tf.int64)),
  "rows joined": lambda i: tf.dynamic_stitch([i], [tf.constant(_WIDE)]),
  "rows divided": lambda i: tf.dynamic_partition(tf.constant(_WIDE), tf.cast(i > 1, tf.int32), 2)[1],
  "a variable in rows": lambda i: _stored(lambda v: v.scatter_nd_update(i[:2, None], tf.constant(_WIDE[:2]))),
  "a variable in a slice": lambda i: _stored(lambda v: v[:2].assign(tf.constant(_WIDE[:2]))),
  "a list": lambda i: tf.TensorArray(tf.int64, 4).unstack(tf.constant(_WIDE)).gather(i),
}


_NARROW = tf.Variable(np.arange(4), dtype=tf.int64)


def _stored(change):
  change(_NARROW)
  return _NARROW.read_value()


def _result(program, *, is_jitted):
  function = tf.function(program, input_signature=[tf.TensorSpec([4], tf.int32)])
  fn, params = convert(function)
  _NARROW.assign(np.arange(4))

  def call(positions):
    return fn(params, positions)[0]

  return np.asarray((jax.jit(call) if is_jitted else call)(_POSITIONS)), function(_POSITIONS).numpy()


@pytest.mark.parametrize("is_jitted", [False, True])
@pytest.mark.parametrize("name", _EXACT)
def test_constants_beyond_32_bits_are_moved_exactly(name, is_jitted):
  found, expected = _result(_EXACT[name], is_jitted=is_jitted)
  np.testing.assert_array_equal(found, expected, strict=True)


@pytest.mark.parametrize("is_jitted", [False, True])
@pytest.mark.parametrize("name", _EXACT_OR_REFUSED)
def test_constants_beyond_32_bits_are_not_truncated(name, is_jitted):
  try:
    found, expected = _result(_EXACT_OR_REFUSED[name], is_jitted=is_jitted)
  except UnsupportedError as e:
    assert "64-bit integers beyond 32 bits" in str(e)
  else:
    np.testing.assert_array_equal(found, expected)


class _Index(tf.Module):
  """The numbers of items, as a retrieval model keeps them."""

  def __init__(self):
    super().__init__()
    self.items = tf.Variable(_WIDE, name="items")

  @tf.function(input_signature=[tf.TensorSpec([4], tf.int32)])
  def found(self, positions):
    return tf.gather(self.items, positions)

  @tf.function(input_signature=[tf.TensorSpec([4], tf.int32)])
  def counted(self, positions):
    self.items.assign_add(tf.cast(positions, tf.int64))
    return self.items.read_value()

  @tf.function(input_signature=[tf.TensorSpec([4], tf.int32)])
  def updated(self, positions):
    return self.items.scatter_add(tf.IndexedSlices(tf.constant(_WIDE), positions))


@pytest.mark.parametrize("is_jitted", [False, True])
@pytest.mark.parametrize("name", ["found", "counted"])
def test_variables_beyond_32_bits_are_exact(name, is_jitted):
  index = _Index()
  fn, params = convert(getattr(index, name))
  found, new_params = (jax.jit(fn) if is_jitted else fn)(params, _POSITIONS)
  np.testing.assert_array_equal(np.asarray(found), getattr(index, name)(_POSITIONS).numpy(), strict=True)
  np.testing.assert_array_equal(np.asarray(new_params["items"]), index.items.numpy(), strict=True)


def test_a_function_with_variables_beyond_32_bits_can_be_exported():
  index = _Index()
  fn, params = convert(index.found)
  exported = jax.export.export(jax.jit(fn))(params, _POSITIONS)
  found, _ = jax.export.deserialize(exported.serialize()).call(params, _POSITIONS)
  np.testing.assert_array_equal(np.asarray(found), index.found(_POSITIONS).numpy(), strict=True)


@pytest.mark.parametrize("is_jitted", [False, True])
def test_updates_of_variables_beyond_32_bits_are_not_truncated(is_jitted):
  index = _Index()
  fn, params = convert(index.updated)
  with pytest.raises(ValueError, match="64-bit types are off"):
    (jax.jit(fn) if is_jitted else fn)(params, _POSITIONS)


@pytest.mark.parametrize("is_jitted", [False, True])
def test_random_numbers_beyond_32_bits(is_jitted):
  values = np.arange(1, 41) * (2**33 + 7)

  def program():
    return tf.random.shuffle(tf.constant(values)), tf.random.uniform([40], maxval=2**63 - 1, dtype=tf.int64)

  fn, params = convert(tf.function(program, input_signature=[]))

  def call(key):
    return fn(params, rng=key)[0]

  shuffled, drawn = map(np.asarray, (jax.jit(call) if is_jitted else call)(jax.random.key(0)))
  assert not np.array_equal(shuffled, values)
  np.testing.assert_array_equal(np.sort(shuffled), values)
  # The mean of 40 numbers is 5 standard deviations from these.
  assert 0.1 < np.mean(drawn / 2**63) < 0.9
  assert len(np.unique(drawn % 2**32)) == 40


def test_a_pair_becomes_a_jax_array_only_with_64_bit_types():
  pair = as_int64_pair(_WIDE)
  with pytest.raises(ValueError, match="64-bit types are off"):
    jnp.asarray(pair)
  with jax.enable_x64(True):
    np.testing.assert_array_equal(jnp.asarray(pair), _WIDE, strict=True)
