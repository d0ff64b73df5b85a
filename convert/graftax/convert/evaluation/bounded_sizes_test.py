"""Sizes that depend on data under jit: results, derivatives, overflows and refusals, against TensorFlow."""

import re

import jax
import numpy as np
import pytest
import tensorflow as tf
from jax.experimental import checkify

import graftax.convert as gc
from graftax.graphdef_ir.errors import UnsupportedError
from graftax.ops_jax import InvalidInputError, MissingBoundError
from graftax.testing.bounded_sizes import check_bounded_sizes

X = np.asarray([0.3, 2.5, 1.7, 0.1, 3.2, 0.9], np.float32)
_INPUTS = [(x,) for x in (X, X * 0, X + 3, X[::-1].copy(), np.where(X == 2.5, X, 0))]


def _chosen(x):
  kept = tf.boolean_mask(x, x > 0.5)
  rest = tf.boolean_mask(tf.gather(x, tf.where(x > 0.5)[:, 0]), kept > 1.0)
  return kept, tf.reduce_mean(kept), tf.reduce_sum(rest), tf.shape(rest)


def _two_sizes(x):
  """Two arrays of different sizes, also broadcast against each other."""
  a, b = tf.boolean_mask(x, x > 0.5), tf.boolean_mask(x, x < 2.0)
  distances = tf.abs(a[:, tf.newaxis] - b[tf.newaxis])
  return distances, tf.reshape(distances, [-1]), tf.reduce_sum(distances, 1), tf.concat([a, b, x], 0)


def _scattered(x):
  places = tf.where(x > 0.5)
  found = tf.gather_nd(x, places)
  return tf.scatter_nd(places, found * 2.0, [6]), tf.tensor_scatter_nd_update(x, places, found + 1.0)


def _by_value(x):
  values, places, counts = tf.unique_with_counts(tf.cast(x, tf.int32))
  return values, places, counts, tf.math.unsorted_segment_sum(x, places, tf.size(values))


def _padded_by_the_graph(x):
  kept = tf.boolean_mask(x, x > 0.5)
  size = tf.shape(kept)[0]
  return tf.pad(kept, [[0, 8 - size]]), tf.concat([kept, tf.zeros([6 - size])], 0), tf.range(tf.minimum(size, 3))


def _in_branches(x):
  kept = tf.boolean_mask(x, x > 0.5)
  same = tf.cond(tf.size(kept) > 3, lambda: kept * 2.0, lambda: x)
  other = tf.cond(tf.reduce_sum(x) > 9.0, lambda: x[:2], lambda: tf.concat([x, kept], 0))
  return same, other


def _in_loops(x):
  shrunk = tf.while_loop(
    lambda y: tf.reduce_sum(y) > 3.0, lambda y: (y[1:] * 1.1,), [x], shape_invariants=[tf.TensorShape([None])]
  )[0]
  best = tf.while_loop(
    lambda y: tf.size(y) > 1,
    lambda y: (tf.boolean_mask(y, y > tf.reduce_mean(y)),),
    [x + tf.range(6.0)],
    shape_invariants=[tf.TensorShape([None])],
  )[0]
  return shrunk, best


def _mapped(x):
  def keep(row):
    kept = tf.boolean_mask(row, row > 1.0)
    return tf.pad(kept, [[0, 6 - tf.shape(kept)[0]]]), tf.size(kept)

  return tf.map_fn(keep, tf.stack([x, x + 0.5, x - 3.0]), fn_output_signature=(tf.float32, tf.int32))


@pytest.mark.parametrize(
  "function",
  [_chosen, _two_sizes, _scattered, _by_value, _padded_by_the_graph, _in_branches, _in_loops, _mapped],
  ids=lambda function: function.__name__.strip("_"),
)
def test_results_under_jit_are_tensorflows(function):
  assert check_bounded_sizes(tf.function(function, autograph=False), *_INPUTS) >= 4


@pytest.mark.parametrize("data_format", ["NHWC", "NCHW"])
def test_a_dense_layer_accepts_a_middle_axis_of_such_a_size(data_format):
  weights = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)

  @tf.function(autograph=False)
  def dense(x):
    kept = tf.boolean_mask(tf.stack([x, x * 2.0]), x > 0.5, axis=1)
    rows = kept[:, :, tf.newaxis] * tf.constant([1.0, 2.0, 3.0])
    y = tf.nn.bias_add(tf.tensordot(rows, weights, 1), weights[0])
    channels = tf.transpose(y, [0, 2, 1]) if data_format == "NCHW" else y
    return y, tf.nn.bias_add(channels, weights[1], data_format=data_format)

  assert check_bounded_sizes(dense, *_INPUTS) >= 4


@pytest.mark.parametrize(("axes", "data_format"), [([0, 2, 1], "NHWC"), ([0, 1, 2], "NCHW")])
def test_channels_of_such_a_size_have_no_bias(axes, data_format):
  def biased(x):
    kept = tf.boolean_mask(tf.stack([x, x * 2.0]), x > 0.5, axis=1)[:, :, tf.newaxis]
    return tf.nn.bias_add(tf.transpose(kept, axes), x[:2], data_format=data_format)

  with pytest.raises(UnsupportedError, match="the number of channels depends on data"):
    jax.jit(gc.convert_functional(tf.function(biased, autograph=False), X))(X)


def test_the_graph_s_own_padding_makes_ordinary_arrays():
  fn, params = gc.convert(tf.function(_padded_by_the_graph), X)
  padded, joined, numbers = jax.eval_shape(fn, params, X)[0]
  assert (padded.shape, joined.shape) == ((8,), (6,))
  assert isinstance(numbers, gc.BoundedArray) and numbers.padded.shape == (3,)


def test_outside_of_jit_results_are_cut():
  fn, params = gc.convert(tf.function(_chosen), X)
  kept = fn(params, X)[0][0]
  assert isinstance(kept, jax.Array) and kept.shape == (4,)


def test_a_batch_has_a_length_for_each_row():
  fn, params = gc.convert(tf.function(lambda x: tf.boolean_mask(x, x > 0.5)), X)
  batch = np.stack([X, X * 0, X + 1])
  result = jax.vmap(lambda x: fn(params, x)[0])(batch)
  np.testing.assert_array_equal(result.length, [4, 0, 6])
  np.testing.assert_array_equal(result.overflowed, [False] * 3)


def _loss(x, w):
  kept = tf.boolean_mask(x, x > 0.5)
  logs = tf.math.log(kept) * w / kept + tf.sqrt(kept - 0.5)
  return tf.reduce_sum(logs) + tf.reduce_max(tf.concat([kept, [0.1]], 0)) + tf.reduce_sum(kept[:, None] @ w[None, None])


@pytest.mark.parametrize("x", [X, X * 0, X + 3, X * 0 - 1], ids=["some", "none", "all", "negative"])
def test_no_derivative_leaves_the_padding(x):
  function = tf.function(_loss)
  fn, params = gc.convert(function, x, np.float32(2.0))
  gradients = jax.jit(jax.grad(lambda *args: fn(params, *args)[0], argnums=(0, 1)))(x, np.float32(2.0))
  variables = tf.constant(x), tf.constant(2.0)
  with tf.GradientTape() as tape:
    tape.watch(variables)
    result = function(*variables)
  for gradient, expected in zip(gradients, tape.gradient(result, variables), strict=True):
    np.testing.assert_allclose(gradient, expected, rtol=1e-5)


def _total_and_kept(x):
  kept = tf.boolean_mask(x, x > 0.5)
  return tf.reduce_sum(kept), kept, tf.cast(kept, tf.int32)


def test_a_bound_that_is_too_small_shows_in_every_result():
  with gc.override_config("max_sizes", {"Where": 3}):
    fn, params = gc.convert(tf.function(_total_and_kept), X)
  total, kept, numbers = jax.jit(fn)(params, X)[0]
  assert np.isnan(total) and np.all(np.isnan(kept.padded))
  assert kept.length == 4 and kept.overflowed and numbers.overflowed
  with pytest.raises(gc.SizeBoundError, match=r"Dimension 0 of a result has size 4, but its bound is 3"):
    kept.cut()
  gradient = jax.jit(jax.grad(lambda x: fn(params, x)[0][0]))
  assert np.isnan(gradient(X)).any()
  np.testing.assert_array_equal(gradient(np.float32([0, 1, 2, 3, 0, 0])), [0, 1, 1, 1, 0, 0])
  total, kept, _ = jax.jit(fn)(params, np.float32([0, 1, 2, 3, 0, 0]))[0]
  assert total == 6 and not kept.overflowed
  np.testing.assert_array_equal(kept, [1, 2, 3])


@pytest.mark.parametrize("look_up", [tf.gather, tf.nn.embedding_lookup])
def test_a_bound_that_is_too_small_shows_in_derivatives_of_what_is_looked_up(look_up):
  table = tf.Variable(np.arange(8, dtype=np.float32).reshape(4, 2), name="table")
  rows = np.int32([0, 3, 1, 3])
  function = tf.function(lambda rows: tf.reduce_sum(look_up(table, tf.boolean_mask(rows, rows > 0)) ** 2))
  for bound, expected in ((3, 2 * table.numpy() * [[0], [1], [0], [2]]), (2, np.full([4, 2], np.nan))):
    with gc.override_config("max_sizes", {"Where": bound}):
      fn, params = gc.convert(function, rows)
    gradient = jax.jit(jax.grad(lambda params, rows, fn=fn: fn(params, rows)[0]))(params, rows)
    np.testing.assert_array_equal(gradient["table"], expected)


def test_a_row_of_a_batch_can_be_cut():
  fn, params = gc.convert(tf.function(lambda x: tf.boolean_mask(x, x > 0.5)), X)
  result = jax.vmap(lambda x: fn(params, x)[0])(np.stack([X, X + 3]))
  with pytest.raises(ValueError, match=r"batched by vmap"):
    result.cut()
  np.testing.assert_array_equal(jax.tree.map(lambda leaf: leaf[0], result).cut(), X[X > 0.5])


def test_a_bound_that_is_too_small_fails_a_check():
  with gc.override_config("max_sizes", {"Where": 3}), gc.override_config("enable_checkify_for_asserts", True):
    fn, params = gc.convert(tf.function(_total_and_kept), X)
  error, _ = jax.jit(checkify.checkify(lambda x: fn(params, x)[0]))(X)
  with pytest.raises(checkify.JaxRuntimeError, match=r"boolean_mask/Where.*4 elements exceed the bound 3"):
    error.throw()


def test_a_size_without_bound_takes_one_from_the_option():
  function = tf.function(lambda x: tf.repeat(x, tf.cast(x, tf.int32)))
  fn, params = gc.convert(function, X)
  with pytest.raises(UnsupportedError, match=r"no bound follows from shapes. Pass one with the option max_sizes="):
    jax.jit(fn)(params, X)
  with gc.override_config("max_sizes", {"Range": 5}):
    fn, params = gc.convert(function, X)
  np.testing.assert_array_equal(jax.jit(fn)(params, X)[0], function(X))
  assert jax.jit(fn)(params, X + 3)[0].overflowed


_ROW = np.array([2, 0, 3], np.int32)


@pytest.mark.parametrize(
  "reduce",
  [
    lambda x, rows: tf.math.unsorted_segment_sum(x, rows, 3),
    lambda x, rows: tf.scatter_nd(rows[:, None], x, [3]),
    lambda x, rows: tf.tensor_scatter_nd_add(tf.zeros(3), rows[:, None], x),
    lambda x, rows: tf.math.bincount(rows, x, minlength=3, maxlength=3),
  ],
)
def test_rows_beyond_their_bound_leave_no_sum_of_an_array_of_known_size(reduce):
  function = tf.function(lambda x, lengths: reduce(x, tf.repeat(tf.range(3), lengths)), autograph=False)
  for bound, is_right in ((3, True), (2, False)):
    with gc.override_config("max_sizes", {"Range": bound}):
      fn, params = gc.convert(function, X[:5], _ROW)
    found = np.asarray(jax.jit(fn)(params, X[:5], _ROW)[0])
    if is_right:
      np.testing.assert_allclose(found, function(X[:5], _ROW), rtol=1e-6)
    else:
      assert np.isnan(found).all()


def test_one_error_names_all_sizes_without_a_bound():
  def repeated(x):
    twice = tf.repeat(x, tf.cast(x, tf.int32), name="first")
    return tf.reduce_sum(twice) + tf.reduce_sum(tf.repeat(x, tf.cast(x + 1, tf.int32), name="second"))

  fn, params = gc.convert(tf.function(repeated), X)
  nodes = r"max_sizes=\{'first/SequenceMask/Range': n, 'second/SequenceMask/Range': n\}"
  with pytest.raises(UnsupportedError, match=f"Other nodes need a bound, too: {nodes}"):
    jax.jit(fn)(params, X)


def _joined_rows(x):
  lengths = tf.cast(x, tf.int32)
  counted = [tf.ragged.range(lengths + i, name=f"counted{i}") for i in range(2)]
  values = tf.repeat(lengths, lengths, name="values")
  built = tf.RaggedTensor.from_row_lengths(values, lengths, validate=False)
  joined = [tf.concat(counted, 0), tf.stack(counted), tf.expand_dims(counted[1], 0), tf.concat([built, built], 0)]
  return [rows.flat_values for rows in joined]


def _two_growing_loops(x):
  def grown(name):
    start, added = (tf.repeat(x, tf.cast(x, tf.int32), name=f"{name}_{part}") for part in ("start", "added"))
    return tf.while_loop(
      lambda y: tf.reduce_sum(y) < 9.0,
      lambda y: (tf.concat([y, added], 0),),
      [start],
      [tf.TensorShape([None])],
      name=name,
    )[0]

  return grown("first"), grown("second")


_RANGE = "/SequenceMask/Range"


@pytest.mark.parametrize(
  ("function", "names"),
  [
    (_joined_rows, ["counted0", "counted1", f"values{_RANGE}"]),
    (
      _two_growing_loops,
      [*(f"{n}_{part}{_RANGE}" for n in ("first", "second") for part in ("start", "added")), *("first", "second")],
    ),
  ],
)
def test_bounds_that_one_error_names_are_all_that_are_needed(function, names):
  function = tf.function(function, autograph=False)
  fn, params = gc.convert(function, X)
  with pytest.raises(MissingBoundError) as caught:
    jax.jit(fn)(params, X)
  _, _, named = str(caught.value).rpartition("max_sizes=")
  assert sorted(re.findall("'([^']+)': n", named)) == sorted(names)
  with gc.override_config("max_sizes", dict.fromkeys(names, 40)):
    fn, params = gc.convert(function, X)
  for found, expected in zip(jax.jit(fn)(params, X)[0], function(X), strict=True):
    np.testing.assert_allclose(np.asarray(found), expected)


def test_error_of_one_size_without_a_bound_is_not_its_own_cause():
  fn, params = gc.convert(tf.function(lambda x: tf.reduce_sum(tf.repeat(x, tf.cast(x, tf.int32)))), X)
  with pytest.raises(MissingBoundError) as caught:
    jax.jit(fn)(params, X)
  assert caught.value.__cause__ is not caught.value


def _ragged_sums(words):
  weights = tf.ragged.map_flat_values(tf.sin, words)
  by_sentence = tf.reduce_sum(weights, axis=2)
  return by_sentence.flat_values, tf.reduce_mean(by_sentence, axis=1), tf.reduce_max(weights.row_lengths(axis=2))


def test_row_splits_of_an_argument_bound_its_rows():
  function = tf.function(_ragged_sums, input_signature=[tf.RaggedTensorSpec([None, None, None], tf.float32)])
  fn, params = gc.convert(function)
  rows = [[[1.0, 2.0], [3.0]], [[4.0]], [[], [5.0, 6.0, 7.0]]]
  words = gc.RaggedTensor.from_lists(rows, dtype=np.float32)
  for found, expected in zip(
    jax.jit(fn)(params, words)[0], function(tf.ragged.constant(rows, ragged_rank=2)), strict=True
  ):
    np.testing.assert_allclose(found, expected, rtol=1e-6)
  # TensorFlow computes numbers of these splits, or fails: a row cannot have more values than there are.
  wrong = gc.RaggedTensor(words.flat_values, (words.row_splits[0], np.array([0, 2, 3, 4, 4, 40])))
  assert np.isnan(jax.jit(fn)(params, wrong)[0][1]).any()


def _gathered(splits, values, rows):
  found = tf.raw_ops.RaggedGather(
    params_nested_splits=[splits], params_dense_values=values, indices=rows, OUTPUT_RAGGED_RANK=1
  )
  return found.output_nested_splits[0], tf.reduce_sum(found.output_dense_values)


def test_ragged_rows_are_none_or_of_no_values_or_marked_where_tensorflow_refuses_them():
  specs = (tf.TensorSpec([3], tf.int32), tf.TensorSpec([None]), tf.TensorSpec([None], tf.int32))
  with gc.override_config("max_sizes", {"RaggedGather": 8}):
    function = tf.function(_gathered, input_signature=specs)
    fn, params = gc.convert(function)
    run = jax.jit(lambda *inputs: fn(params, *inputs)[0])
  values, no_rows = X[:4], np.zeros(0, np.int32)
  for inputs in (
    (np.int32([0, 1, 4]), values, no_rows),
    (np.int32([1, 1, 4]), values, np.int32([1, 0, 1])),
    (np.int32([0, 0, 0]), values[:0], np.int32([1, 0])),
  ):
    for found, expected in zip(run(*inputs), function(*inputs), strict=True):
      np.testing.assert_allclose(found, expected, rtol=1e-6)
  for splits in ([-2, 1, 4], [0, 3, 2], [0, 1, 5]):
    with pytest.raises(tf.errors.InvalidArgumentError):
      function(np.int32(splits), values, np.int32([0]))
    assert np.isnan(run(np.int32(splits), values, np.int32([0]))[1])


def _position_5_of_rows(x):
  rows = tf.reshape(x, [2, -1])
  return tf.boolean_mask(rows, rows[:, 0] > 0.5)[:, 5]


@pytest.mark.parametrize(
  ("function", "message"),
  [
    (lambda x: tf.range(0, tf.cast(x[0], tf.int32), 0), r"Range node 'range' .*: delta is 0"),
    (_position_5_of_rows, r"StridedSlice node .*: position 5 is out of range for 3 elements"),
  ],
)
def test_what_tensorflow_refuses_too_is_an_invalid_input(function, message):
  fn, params = gc.convert(tf.function(function), tf.TensorSpec([None], tf.float32))
  with pytest.raises(InvalidInputError, match=message):
    jax.jit(fn)(params, X)


def test_an_op_without_a_rule_is_refused_by_name():
  fn, params = gc.convert(tf.function(lambda x: tf.signal.fft(tf.cast(tf.boolean_mask(x, x > 0.5), tf.complex64))), X)
  with pytest.raises(UnsupportedError, match=r"FFT node '\S+' \(function '\S+'\): an input has a size that depends on"):
    jax.jit(fn)(params, X)
  assert fn(params, X)[0].shape == (4,)


def test_sizes_that_do_not_fit_each_other_are_marked():
  """TensorFlow raises an error here."""
  fn, params = gc.convert(tf.function(lambda x: tf.boolean_mask(x, x > 0.5) + tf.boolean_mask(x, x > 1.0)), X)
  assert jax.jit(fn)(params, X)[0].overflowed
  assert not jax.jit(fn)(params, X + 3)[0].overflowed


@pytest.mark.parametrize(
  ("name", "message"),
  [
    ("Wher", r"'Wher': the graph has no such node or op; similar names are \['Where'"),
    ("boolean_mask/Wheer", r"'boolean_mask/Wheer': the graph has no such node or op; .*'boolean_mask/Where'"),
    ("Sum", r"'Sum': this op never uses a bound; similar names are"),
    ("total", r"'total': this node is a Sum, which never uses a bound; similar names are"),
    ("StatelessWhile", r"'StatelessWhile': loops are bounded by the name of the node, or all of them by 'While'; "),
  ],
)
def test_a_name_that_bounds_nothing_is_refused_with_similar_ones(name, message):
  def run(x):
    halved = tf.while_loop(lambda y: y > 1.0, lambda y: (y / 2.0,), [x[0]])[0]
    return tf.reduce_sum(tf.boolean_mask(x, x > halved), name="total")

  function = tf.function(run)
  for known in ("Where", "boolean_mask/Where", "While"):
    with gc.override_config("max_sizes", {known: 6}):
      fn, params = gc.convert(function, X)
    np.testing.assert_allclose(jax.jit(fn)(params, X)[0], function(X), rtol=1e-6)
  with gc.override_config("max_sizes", {"Where": 6, name: 6}), pytest.raises(gc.ConversionError, match=message):
    gc.convert(function, X)


def test_a_graph_without_bounds_refuses_every_name():
  with (
    gc.override_config("max_sizes", {"Where": 6}),
    pytest.raises(gc.ConversionError, match="no op of the graph uses"),
  ):
    gc.convert(tf.function(lambda x: x + 1.0), X)


@pytest.mark.parametrize(
  "function",
  [
    lambda x, n: x[:, : n[0]],
    lambda x, n: x[0, n[0] : n[1]],
    lambda x, n: x[1:, n[0] :],
    lambda x, n: x[:, n[1] : n[0] : -1],
    lambda x, n: x[:, -n[0] :],
  ],
)
def test_outside_of_jit_slices_end_where_data_say(function):
  x, ends = np.arange(12, dtype=np.float32).reshape(2, 6), np.array([2.4, 4.7], np.float32)
  tf_fn = tf.function(lambda x, ends: function(x, tf.cast(ends, tf.int32)))
  fn = gc.convert_functional(tf_fn, x, ends)
  np.testing.assert_array_equal(fn(x, ends), tf_fn(x, ends))
  rows = jax.vmap(fn, (0, None))(x[None], ends)
  np.testing.assert_array_equal(rows[0], tf_fn(x, ends))


def test_outside_of_jit_no_bound_is_used():
  """Not in a loop either, which is otherwise compiled as a whole: nothing is cut, and nothing has to be reported."""

  def mapped(x):
    return tf.map_fn(lambda row: tf.reduce_sum(tf.boolean_mask(row, row > 0.5)), tf.stack([x, x + 1.0]))

  with gc.override_config("max_sizes", {"Where": 1}):
    fn, params = gc.convert(tf.function(mapped), X)
  np.testing.assert_allclose(fn(params, X)[0], tf.function(mapped)(X), rtol=1e-6)
  assert np.all(np.isnan(jax.jit(fn)(params, X)[0]))
  assert np.all(np.isnan(jax.jit(lambda: fn(params, X)[0])())), "constants under jit"


def test_sizes_are_checked():
  with pytest.raises(ValueError, match="'max_sizes' maps names of nodes or ops to integers"):
    gc.ConvertOptions(max_sizes={"Where": -1})


def test_padding_is_sorted_behind_nan():
  # TensorFlow's order of NaN depends on its position, so the function outside of jit is the oracle.
  @tf.function(autograph=False)
  def ordered(x):
    kept = tf.boolean_mask(x, tf.logical_not(x > 2.0))
    return tf.sort(kept), tf.argsort(kept), tf.sort(kept, direction="DESCENDING")

  x = np.array([2.5, np.nan, -np.inf, np.nan, 1, 3], np.float32)
  fn, params = gc.convert(ordered, x)
  for got, want in zip(jax.jit(fn)(params, x)[0], fn(params, x)[0], strict=True):
    np.testing.assert_array_equal(got.cut(), want)


_VALUES = np.linspace(-1.0, 1.0, 14, dtype=np.float32).reshape(7, 2)
_ROW_IDS = [(np.array(ids, np.int32),) for ids in ([0, 1, 1, 2, 2, 2, 2], [0] * 7, [2] * 7, [1, 1, 2, 2, 2, 2, 2])]


def _rows(ids):
  return tf.RaggedTensor.from_value_rowids(_VALUES, ids, nrows=3)


@pytest.mark.parametrize(
  "function",
  [
    lambda ids: tf.reduce_sum(_rows(ids), 1),
    lambda ids: tf.reduce_max(_rows(ids) * 2.0, 1),
    lambda ids: tf.range(tf.reduce_max(tf.math.bincount(ids, minlength=3, maxlength=3))),
    lambda ids: tf.range(tf.reduce_max(tf.cumsum(tf.math.bincount(ids, minlength=3, maxlength=3), reverse=True))),
  ],
  ids=["sums of rows", "extremes of rows", "a count", "a sum of counts"],
)
def test_counts_are_at_most_as_many_as_there_are_values(function):
  assert check_bounded_sizes(tf.function(function), *_ROW_IDS) == len(_ROW_IDS)
