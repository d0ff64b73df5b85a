"""What can be converted, how it is called, and what it captures; with TensorFlow as the oracle."""

import collections
import dataclasses
import functools
import typing
import uuid

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tensorflow as tf

import graftax.convert
import graftax.convert as gc
from graftax.ops_jax import InvalidInputError

X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)


class Scale(tf.Module):
  def __init__(self):
    super().__init__()
    self.factor = tf.Variable(3.0, name="factor")

  def __call__(self, x):
    """Scaled."""
    return x * self.factor

  def plain(self, x, power=2):
    return self(x) ** power

  @tf.function
  def decorated(self, x):
    return self(x) + 1.0


def _scaled(x, factor, *, offset=0.0):
  return x * factor + offset


def test_all_kinds_of_callables_convert():
  module = Scale()
  concrete = module.decorated.get_concrete_function(tf.TensorSpec([2, 3]))
  for source, args, expected in [
    (module, (X,), X * 3),
    (module.plain, (X,), (X * 3) ** 2),
    (module.decorated, (X,), X * 3 + 1),
    (concrete, (), X * 3 + 1),
    (functools.partial(module.plain, power=3), (X,), (X * 3) ** 3),
    (functools.partial(_scaled, factor=2.0, offset=1.0), (X,), X * 2 + 1),
    (functools.partial(_scaled, tf.constant(X)), (5.0,), X * 5),
    (lambda x: x + 1.0, (X,), X + 1),
    (tf.sin, (X,), np.sin(X)),
  ]:
    fn, params = gc.convert(source, *args)
    call = args or (X,)
    np.testing.assert_allclose(jax.jit(fn)(params, *call)[0], expected, rtol=1e-6)


def test_keywords_that_a_concrete_function_does_not_have_are_an_error():
  module = Scale()
  concrete = module.decorated.get_concrete_function(tf.TensorSpec([2, 3]))
  with pytest.raises(gc.ConversionError, match=r"has the arguments \['x'\]; got \['options'\]. Options are given with"):
    gc.convert(concrete, options=gc.ConvertOptions())
  fn, params = gc.convert(concrete, x=X)
  with pytest.raises(gc.InputError, match="it was called with 3 positional arguments, and takes"):
    fn(params, X, X, X)
  np.testing.assert_allclose(fn(params, X)[0], X * 3 + 1, rtol=1e-6)


def test_a_python_function_with_conditions_on_tensors_is_converted_through_autograph():
  def tf_fn(x):
    if tf.reduce_sum(x) > 0:
      return x * 2.0
    return -x

  fn = gc.convert_functional(tf_fn, X)
  np.testing.assert_allclose(fn(X + 1), (X + 1) * 2)
  np.testing.assert_allclose(fn(X - 1), 1 - X)


def test_symbolic_sizes_of_an_example_are_open():
  rows = jax.ShapeDtypeStruct(jax.export.symbolic_shape("batch, 2"), np.float32)
  fn, params = gc.convert(tf.function(lambda x: x * 2.0), rows)
  for size in (1, 3):
    x = np.ones((size, 2), np.float32)
    np.testing.assert_array_equal(fn(params, x)[0], 2 * x)


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_transposed_convolutions_and_rolls_can_be_exported_with_open_sizes(padding):
  kernel = np.linspace(-1, 1, 3 * 3 * 2 * 3, dtype=np.float32).reshape(3, 3, 2, 3)

  @tf.function(autograph=False)
  def tf_fn(x):
    rows, height, width = tf.unstack(tf.shape(x)[:3])
    more = 0 if padding == "SAME" else 1
    size = [rows, 2 * height + more, 2 * width + more, 2]
    y = tf.nn.conv2d_transpose(x, kernel, size, 2, padding)
    return y, tf.roll(y, [1, -2], [0, 2]), tf.roll(x, height // 2, 1)

  fn = gc.convert_functional(tf_fn, tf.TensorSpec([None, None, None, 3]))
  open_sizes = jax.ShapeDtypeStruct(jax.export.symbolic_shape("n, h, w, 3"), np.float32)
  exported = jax.export.export(jax.jit(fn))(open_sizes)
  for shape in ((1, 2, 3, 3), (3, 5, 4, 3)):
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    for found, expected in zip(exported.call(x), tf_fn(x), strict=True):
      np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_name_doc_and_signature_are_those_of_the_function():
  def tf_fn(x, scale=2.0, *, flag=True):
    """Twice as much."""
    return x * scale

  fn = gc.convert_functional(tf_fn, X)
  assert (fn.__name__, fn.__doc__) == ("tf_fn", "Twice as much.")
  assert str(fn.signature) == "(x, scale=2.0, *, flag=True)"
  assert gc.convert(functools.partial(Scale().plain, power=3), X)[0].__name__ == "plain"
  args, kwargs = fn.structured_inputs
  assert (str(args[0]), args[1], kwargs) == ("float32[2, 3]", 2.0, {"flag": True})
  assert str(fn.structured_outputs) == "float32[2, 3]"
  assert gc.convert(Scale(), X)[0].__doc__ == "Scaled."


@pytest.mark.parametrize(
  ("make", "message"),
  [
    (lambda: 3, "got a int, which cannot be called"),
    (lambda: None, "got a NoneType"),
    (lambda: X, "got a ndarray"),
    (lambda: {"a": 1}, "got a dict"),
    (lambda: Scale, "got the class Scale.*Pass an instance"),
    (lambda: jax.jit(jnp.sin), "JAX function already"),
    (lambda: jnp.add, "JAX function already"),
    (lambda: gc.convert_functional(tf.sin, X), "'.*' is a JAX function already, the result of a conversion"),
    (lambda: "no/such/path", "cannot read 'no/such/path'"),
    (lambda: tf.Module(), "got a Module, which cannot be called"),
  ],
)
def test_what_cannot_be_converted_raises_with_its_name(make, message):
  with pytest.raises(gc.ConversionError, match=message):
    gc.convert(make(), X)


def test_bytes_that_are_no_graph_and_graph_arguments_that_are_unknown_raise():
  with pytest.raises(gc.ConversionError, match="GraphDef: .*Expected a serialized GraphDef"):
    gc.convert(b"no graph at all", inputs=[], outputs=[])
  with pytest.raises(gc.ConversionError, match=r"got 1 positional and the unknown named arguments \['input'\]"):
    gc.convert(tf.Graph().as_graph_def(), X, input="x")


def test_a_module_that_cannot_be_called_tells_what_can():
  class Parts(tf.Module):
    @tf.function
    def encode(self, x):
      return x

  with pytest.raises(gc.ConversionError, match=r"itself, but has the tf.functions \['encode'\]"):
    gc.convert(Parts(), X)


@pytest.mark.parametrize(
  ("argument", "message"),
  [
    (lambda: jax.random.key(0), "PRNG key"),
    (lambda: np.zeros(2, "datetime64[s]"), "dtype datetime64"),
  ],
)
def test_arguments_without_a_spec_raise(argument, message):
  with pytest.raises(gc.ConversionError, match=message):
    gc.convert(tf.function(lambda x: x), argument())


def test_python_floats_are_inputs_and_other_python_values_are_fixed():
  fn = gc.convert_functional(tf.function(lambda x, n, mode: x * n if mode == "times" else x), 0.0, 3, "times")
  np.testing.assert_allclose(jax.grad(fn)(2.0, 3, "times"), 3.0)
  with pytest.raises(gc.InputError, match="'n': got 4.*fixed value 3"):
    fn(2.0, 4, "times")
  with pytest.raises(gc.MissingInputError, match="missing"):
    fn(2.0)


Pair = collections.namedtuple("Pair", "left right")


def test_arguments_that_are_keyword_only_none_or_nested():
  @tf.function
  def tf_fn(*, batch, mask=None):
    return {"sum": batch["pair"].left + batch["list"][1], "mask": mask, "same": batch}

  batch = {"pair": Pair(X, None), "list": [1.0, np.float32(2)]}
  fn = gc.convert_functional(tf_fn, batch=batch)
  got = fn(batch=batch)
  np.testing.assert_allclose(got["sum"], X + 2)
  assert got["mask"] is None and got["same"]["pair"].right is None and isinstance(got["same"]["list"], list)


def test_a_function_of_no_tensors_and_results_that_are_inputs_variables_or_constants():
  variable, constant = tf.Variable([1.0, 2.0], name="v"), tf.constant([3, 4])
  fn, params = gc.convert(tf.function(lambda: (variable.read_value(), constant, variable)))
  outputs, new_params = jax.jit(fn)(params)
  for got, expected in zip(outputs, ([1, 2], [3, 4], [1, 2]), strict=True):
    np.testing.assert_array_equal(got, expected)
  assert new_params.keys() == {"v"}
  fn = gc.convert_functional(tf.function(lambda x, y: [y, x, x]), X, 1.0)
  y, x, again = fn(X, 5.0)
  assert float(y) == 5 and x is not None and np.array_equal(x, again)


def test_donated_parameters_can_be_replaced():
  counter = tf.Variable([0.0, 0.0], name="counter")
  fn, params = gc.convert(tf.function(lambda x: counter.assign_add(x)), np.ones(2, np.float32))
  step = jax.jit(fn, donate_argnums=0)
  params = jax.tree.map(jnp.asarray, params)
  for _ in range(3):
    _, params = step(params, np.ones(2, np.float32))
  np.testing.assert_array_equal(params["counter"], [3, 3])


def test_containers_that_tensorflow_wraps_come_back_plain():
  module = tf.Module()
  module.parts = {"a": [tf.Variable(1.0), tf.Variable(2.0)]}

  @tf.function
  def tf_fn(x):
    return tf.nest.map_structure(lambda v: x * v, module.parts)

  fn, params = gc.convert(tf_fn, 1.0)
  outputs, _ = fn(params, 3.0)
  assert type(outputs) is dict and type(outputs["a"]) is list
  np.testing.assert_allclose(outputs["a"], [3, 6])


def test_inside_tracing_variables_are_read_or_left_as_the_option_says():
  variable = tf.Variable([7.0], name="v")
  tf_fn = tf.function(lambda: variable * 1.0)
  tf_fn.get_concrete_function()
  seen = {}

  @tf.function
  def outer():
    for skip in (False, True):
      with gc.override_config("skip_variables_evaluation_inside_tf_tracing", skip):
        seen[skip] = gc.convert(tf_fn)[1]["v"]
    return tf.constant(0)

  outer()
  assert (seen[False].tolist(), seen[True].tolist(), seen[True].name) == ([7.0], [0.0], "v:0")


def test_a_captured_tensor_of_an_outer_function_raises():
  @tf.function
  def outer(x):
    with pytest.raises(gc.ConversionError, match="a tensor of a function around it"):
      gc.convert(tf.function(lambda: x * 2.0))
    return x

  outer(tf.constant(1.0))


# Composite tensors.


def test_ragged_tensors_go_in_and_come_out():
  @tf.function
  def tf_fn(rows):
    return rows * 2.0, tf.ragged.map_flat_values(tf.sin, rows)

  rows = gc.RaggedTensor.from_lists([[1.0, 2.0], [], [3.0]])
  theirs = tf.ragged.constant([[1.0, 2.0], [], [3.0]])
  assert rows.to_lists() == theirs.to_list() and rows.row_splits[0].tolist() == theirs.row_splits.numpy().tolist()
  for example in (rows, theirs, tf.type_spec_from_value(theirs)):
    fn = gc.convert_functional(tf_fn, example)
    doubled, sine = jax.jit(fn)(rows)
    assert doubled.to_lists() == (theirs * 2.0).to_list()
    np.testing.assert_allclose(sine.flat_values, np.sin(rows.flat_values), rtol=1e-6)
  other = gc.RaggedTensor.from_lists([[1.0], [2.0], [3.0, 4.0, 5.0]])
  assert fn(other)[0].to_lists() == [[2.0], [4.0], [6.0, 8.0, 10.0]]
  with pytest.raises(
    gc.InputError, match=r"'rows': got .*expected a graftax.convert.RaggedTensor of float32\[\?\], int64\[4\]"
  ):
    fn([[1.0], [2.0]])
  with pytest.raises(gc.InputError, match=r"row_splits\[0\]: incompatible input shape: got shape \[3\]"):
    fn(gc.RaggedTensor.from_lists([[1.0], [2.0]]))


@pytest.mark.parametrize(
  ("spec", "value", "function"),
  [
    (tf.RaggedTensorSpec([None, None], tf.float32), tf.ragged.constant([[1.0, 2.0], [3.0]]), lambda t: t.to_tensor()),
    (tf.SparseTensorSpec([2, 2], tf.float32), tf.sparse.from_dense([[1.0, 0.0], [0.0, 2.0]]), tf.sparse.to_dense),
  ],
)
def test_an_error_says_how_to_build_composite_tensors_from_tensorflows(spec, value, function):
  fn, params = gc.convert(tf.function(function, input_signature=[spec], autograph=False))
  with pytest.raises(gc.InputError, match=r"From a tf.\w+ t, build it as graftax.convert") as caught:
    fn(params, value)
  built = str(caught.value).partition("build it as ")[2].removesuffix(".")
  ours = eval(built, {"graftax": graftax, "t": value})
  np.testing.assert_array_equal(fn(params, ours)[0], function(value))


def test_elements_of_different_ranks_are_an_error_that_names_the_node():
  def f(x):
    return tf.TensorArray(tf.float32, 2, infer_shape=False).write(0, x[0]).write(1, x).read(1)

  x = np.arange(5, dtype=np.float32)
  fn, params = gc.convert(tf.function(f, autograph=False), x)
  with pytest.raises(InvalidInputError, match=r"SetItem node '.+' .*\(\).*\(5,\)"):
    fn(params, x)


def test_ragged_tensors_of_higher_rank_keep_their_splits():
  nested = [[[1, 2], []], [], [[3], [4, 5], [6]]]
  ours, theirs = gc.RaggedTensor.from_lists(nested), tf.ragged.constant(nested)
  assert ours.to_lists() == nested == theirs.to_list()
  assert [s.tolist() for s in ours.row_splits] == [s.numpy().tolist() for s in theirs.nested_row_splits]
  fn = gc.convert_functional(tf.function(lambda r: r + 1), ours)
  assert fn(ours).to_lists() == (theirs + 1).to_list()
  inner = gc.RaggedTensor.from_lists([[[1.0, 2.0]], []], ragged_rank=1)
  assert inner.flat_values.shape == (1, 2)


def test_sparse_tensors_go_in_and_come_out():
  dense = np.array([[0, 5, 0], [7, 0, 0]], np.float32)
  ours, theirs = gc.SparseTensor.from_dense(dense), tf.sparse.from_dense(dense)
  np.testing.assert_array_equal(ours.indices, theirs.indices)
  fn = gc.convert_functional(tf.function(lambda s: (s.with_values(s.values * 2.0), tf.reduce_sum(s.values))), ours)
  doubled, total = fn(ours)
  np.testing.assert_array_equal(doubled.to_dense(), dense * 2)
  assert float(total) == 12 and doubled.to_lists() == (dense * 2).tolist()


def test_the_shape_of_a_sparse_tensor_stays_known_under_jit():
  dense, b = np.array([[0, 5, 0], [7, 0, 0]], np.float32), np.linspace(0, 1, 6, dtype=np.float32).reshape(3, 2)
  fn = gc.convert_functional(tf.function(tf.sparse.sparse_dense_matmul), tf.SparseTensorSpec([None, 3]), b)
  traces = []

  @jax.jit
  def jitted(sparse, b):
    traces.append(sparse)
    return fn(sparse, b)

  for rows in (2, 2, 1):
    ours = gc.SparseTensor.from_dense(dense[:rows])
    np.testing.assert_allclose(jitted(ours, b), dense[:rows] @ b, rtol=1e-6)
  assert len(traces) == 2  # one for each shape
  ours = gc.SparseTensor.from_dense(dense)
  gradient = jax.jit(jax.grad(lambda sparse: fn(sparse, b).sum(), allow_int=True))(ours)
  np.testing.assert_allclose(gradient.values, b.sum(1)[ours.indices[:, 1]], rtol=1e-6)
  returned = jax.jit(lambda sparse: sparse)(ours)
  assert isinstance(returned.dense_shape, np.ndarray) and returned.dense_shape.dtype == np.int64
  np.testing.assert_array_equal(returned.to_dense(), dense)
  traced = jax.jit(lambda shape: gc.SparseTensor(ours.indices, ours.values, shape))(np.array([2, 3]))
  assert isinstance(traced.dense_shape, jax.Array)
  np.testing.assert_array_equal(traced.to_dense(), dense)


def test_indexed_slices_go_in_and_come_out():
  @tf.function
  def tf_fn(slices, table):
    with tf.GradientTape() as tape:
      tape.watch(table)
      loss = tf.reduce_sum(tf.gather(table, slices.indices) * slices.values)
    return tape.gradient(loss, table)

  slices = gc.IndexedSlices(np.ones((3, 2), np.float32), np.array([1, 0, 1], np.int32))
  table = np.zeros((4, 2), np.float32)
  fn = gc.convert_functional(tf_fn, slices, table)
  got = fn(slices, table)
  assert isinstance(got, gc.IndexedSlices)
  np.testing.assert_array_equal(got.to_dense(4), [[1, 1], [2, 2], [0, 0], [0, 0]])


def test_what_has_no_counterpart_raises_in_and_out():
  dataset = tf.data.Dataset.range(3)
  with pytest.raises(gc.ConversionError, match="returns .*no JAX counterpart"):
    gc.convert(tf.function(lambda x: dataset), X)


class _Pair:
  def __init__(self, first, second):
    self.first, self.second = first, second

  def __tf_flatten__(self):
    return (), (self.first, self.second)

  @classmethod
  def __tf_unflatten__(cls, metadata, leaves):
    return cls(*leaves)


def test_objects_that_flatten_themselves_are_named_tuples_of_their_attributes():
  fn = gc.convert_functional(
    tf.function(lambda pair: _Pair(pair.second, pair.first * 2)), _Pair(tf.constant(X), tf.constant(1.0))
  )
  # Objects with the same attributes may be passed too.
  pairs = gc.named_tuple_class("Pair", ("first", "second"))(X, np.float32(3)), _Pair(X, np.float32(3))
  for got in [fn(pairs[0]), fn(pairs[1]), jax.jit(fn)(pairs[0])]:
    np.testing.assert_array_equal(got.first, 3)
    np.testing.assert_array_equal(got.second, X * 2)


@dataclasses.dataclass(slots=True, eq=False)
class _InSlots:
  _first: tf.Tensor
  second: tf.Tensor

  @property
  def first(self):
    return self._first * 100.0

  def __tf_flatten__(self):
    return (), (self._first, self.second)

  @classmethod
  def __tf_unflatten__(cls, _, components):
    return cls(*components)


def test_objects_that_flatten_themselves_may_have_slots():
  theirs = _InSlots(tf.constant(X), tf.constant(1.0))
  fn = gc.convert_functional(tf.function(lambda pair: _InSlots(pair._first * 2, pair.second)), theirs)
  for argument in (theirs, gc.named_tuple_class("_InSlots", ("first", "second"))(X, np.float32(1))):
    np.testing.assert_array_equal(fn(argument).first, X * 2)


class _Masked(tf.experimental.ExtensionType):
  values: tf.Tensor
  mask: tf.Tensor
  label: str = "x"


class _Batch(tf.experimental.BatchableExtensionType):
  masked: _Masked
  shape: tf.TensorShape
  rows: tf.RaggedTensor
  by_name: typing.Mapping[str, tf.Tensor]


def test_extension_types_are_named_tuples_of_the_fields_that_hold_tensors():
  def f(batch):
    return {"batch": batch, "sum": tf.reduce_sum(batch.rows, 1), "by_name": batch.by_name["b"] - batch.by_name["a"]}

  rows = tf.ragged.constant([[1.0, 2.0], [], [3.0]])
  masked = _Masked(tf.constant(X), tf.constant([True, False]))
  theirs = _Batch(masked, tf.TensorShape([2]), rows, {"b": tf.constant(5.0), "a": tf.constant([1.0])})
  fn = gc.convert_functional(tf.function(f), theirs)
  ragged = gc.RaggedTensor.from_lists([[1.0, 2.0], [], [3.0]])
  pair = gc.named_tuple_class("Masked", ("values", "mask"))(X, np.array([True, False]))
  named = {"b": np.float32(5), "a": np.float32([1])}
  ours = gc.named_tuple_class("Batch", ("masked", "rows", "by_name"))(pair, ragged, named)
  for got in (fn(ours), jax.jit(fn)(ours)):
    np.testing.assert_array_equal(got["sum"], [3, 0, 3])
    np.testing.assert_array_equal(got["by_name"], [4])
    assert got["batch"].rows.to_lists() == rows.to_list() and got["batch"]._fields == ours._fields
    np.testing.assert_array_equal(got["batch"].masked.values, X)


class _Private(tf.experimental.ExtensionType):
  _values: tf.Tensor
  _scale: tf.Tensor
  scale: tf.Tensor

  @property
  def values(self):
    return self._values * 100.0


def test_private_fields_of_extension_types_are_not_their_properties():
  theirs = _Private(tf.constant(X), tf.constant(3.0), tf.constant(5.0))
  tf_fn = tf.function(lambda x: x._values * x._scale - x.scale)
  fn = gc.convert_functional(tf_fn, theirs)
  ours = gc.named_tuple_class("Private", ("values", "scale_", "scale"))(X, np.float32(3), np.float32(5))
  for argument in (theirs, ours):
    np.testing.assert_allclose(fn(argument), tf_fn(theirs))


class _OddNames(tf.experimental.ExtensionType):
  _class: tf.Tensor
  _1: tf.Tensor


def test_private_fields_may_be_keywords_or_numbers():
  theirs = _OddNames(tf.constant(X), tf.constant(3.0))
  fn = gc.convert_functional(tf.function(lambda x: _OddNames(x._class * x._1, x._1)), theirs)
  ours = gc.as_named_tuple("OddNames", {"_class": X, "_1": np.float32(3)})
  for argument in (theirs, ours):
    np.testing.assert_array_equal(fn(argument).field_class, X * 3)


def test_composite_tensors_of_other_classes_are_their_components():
  def f(ragged):
    return tf.experimental.DynamicRaggedShape.from_tensor(ragged)

  ragged = gc.RaggedTensor.from_lists([[1.0, 2.0], [], [3.0]])
  (splits,) = gc.convert_functional(tf.function(f), ragged)(ragged).row_partitions
  np.testing.assert_array_equal(splits, [0, 2, 2, 3])


# Tables.


def _table(keys, values, default):
  return tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, values), default)


def test_integer_tables_become_constants():
  static = _table(tf.constant([5, 3, -1], tf.int64), tf.constant([50.0, 30.0, 10.0]), -1.0)
  dense = tf.lookup.experimental.DenseHashTable(tf.int32, tf.int32, -1, empty_key=-100, deleted_key=-200)
  dense.insert(tf.constant([1, 2]), tf.constant([11, 22]))
  mutable = tf.lookup.experimental.MutableHashTable(tf.int64, tf.float32, tf.constant([0.0, 0.0]))
  mutable.insert(tf.constant([4], tf.int64), tf.constant([[1.0, 2.0]]))

  @tf.function
  def tf_fn(ids, small):
    return (
      static.lookup(ids),
      static.size(),
      dense.lookup(small),
      mutable.lookup(ids),
      tf.cond(small[0] > 0, lambda: static.lookup(ids) * 2.0, lambda: static.lookup(ids)),
    )

  ids, small = np.array([3, 4, -1], np.int64), np.array([2, 7], np.int32)
  fn = gc.convert_functional(tf_fn, ids, small)
  for got, expected in zip(jax.jit(fn)(ids, small), tf_fn(ids, small), strict=True):
    np.testing.assert_array_equal(got, expected)


def test_string_tables_fail_by_name_and_can_be_cut_off():
  words = _table(tf.constant(["a", "b"]), tf.constant([1, 2]), -1)
  embedding = tf.Variable(tf.reshape(tf.range(6.0), [3, 2]), name="embedding")

  @tf.function
  def look_up(text):
    return words.lookup(tf.strings.lower(text))

  @tf.function
  def tf_fn(text, scale):
    return {"rows": tf.gather(embedding, look_up(text)) * scale}

  spec = tf.TensorSpec([None], tf.string)
  with pytest.raises(NotImplementedError, match="string keys") as e:
    gc.convert(tf_fn, spec, 1.0)
  message = str(e.value)
  assert "StringLower x1" in message and "read by 'None_Lookup/LookupTableFindV2'" in message
  inputs = ["StatefulPartitionedCall/None_Lookup/LookupTableFindV2", "scale"]
  assert f"convert_subgraph(function, inputs={inputs!r})" in message
  fn, params = gc.convert_subgraph(tf_fn, inputs, args=(spec, 1.0))
  outputs, _ = jax.jit(fn)(params, np.array([2, 1]), 10.0)
  np.testing.assert_allclose(outputs["rows"], tf_fn(tf.constant(["B", "a"]), 10.0)["rows"])


def test_other_resources_are_named_with_what_reads_them():
  iterator = iter(tf.data.Dataset.range(3))
  with pytest.raises(NotImplementedError, match="IteratorGetNext"):
    gc.convert(tf.function(lambda: next(iterator)))


def test_text_passes_through_a_function():
  tf_fn = tf.function(lambda text, x: (text, x * 2))
  fn, params = gc.convert(tf_fn, tf.TensorSpec([None], tf.string), X)
  (text, doubled), _ = fn(params, ["a", "é"], X)
  wanted_text, wanted = tf_fn(tf.constant(["a", "é"]), X)
  np.testing.assert_array_equal(text, wanted_text.numpy())
  np.testing.assert_array_equal(doubled, wanted.numpy())


def test_small_matrices_of_integers_are_known_if_they_are_arguments_outside_of_jit():
  spec = [tf.TensorSpec([3, 4], tf.float32), tf.TensorSpec([2, 2], tf.int32)]
  function = tf.function(lambda x, paddings: tf.pad(x, paddings), input_signature=spec)
  fn, params = gc.convert(function)
  x, paddings = np.arange(12, dtype=np.float32).reshape(3, 4), np.array([[1, 0], [0, 2]], np.int32)
  found = jax.jit(lambda x: fn(params, x, paddings)[0])(x)
  np.testing.assert_array_equal(found, function(x, paddings))


def _shifted():
  """Returns a function of two implementations, as TensorFlow Probability's samplers are: on CPUs it adds 2, not 1."""

  def implementation(fn, **attributes):
    return tf.function(fn, autograph=False, experimental_attributes=attributes)

  def shifted(x):
    api = f"shifted_{uuid.uuid4()}"
    general = implementation(lambda x: x + 1.0, api_implements=api)
    on_cpu = implementation(lambda x: x + 2.0, api_implements=api, api_preferred_device="CPU")
    y = general(x)
    on_cpu.get_concrete_function(x).add_to_graph()
    return y

  return tf.function(shifted, autograph=False)


def test_the_implementation_for_cpus_runs_as_in_tensorflow():
  tf_fn = _shifted()
  assert tf_fn(tf.constant(1.0)).numpy() == 3.0
  assert float(gc.convert_functional(tf_fn, 1.0)(1.0)) == 3.0


def test_gradients_run_the_implementation_for_cpus():
  shifted = _shifted()

  @tf.custom_gradient
  def squared(x):
    return x * x, lambda dy: dy * shifted(x)

  with tf.GradientTape() as tape:
    x = tf.constant(1.0)
    tape.watch(x)
    y = tf.function(squared)(x)
  assert tape.gradient(y, x).numpy() == 3.0
  assert float(jax.grad(gc.convert_functional(tf.function(squared), 1.0))(1.0)) == 3.0
