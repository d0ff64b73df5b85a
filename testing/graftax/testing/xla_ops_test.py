"""Tests tf2xla's ops, which `jax2tf` emitted before StableHLO, against TensorFlow's XLA compiler."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tensorflow as tf
from jax.test_util import check_grads
from tensorflow.compiler.tf2xla.ops import gen_xla_ops
from tensorflow.compiler.tf2xla.python import xla
from tensorflow.compiler.xla import xla_data_pb2

import graftax.convert as gc
from graftax.ops_jax import InvalidInputError, UnsupportedOpError, lowering

RNG = np.random.default_rng(0)
X = RNG.normal(size=(6, 7))
IMAGES = RNG.normal(size=(2, 8, 9, 4))


@pytest.fixture(autouse=True)
def _sixty_four_bits():
  with jax.enable_x64(True):
    yield


def _check(tf_fn, *args, grad=True, rtol=1e-10, batch=True):
  """Checks values under jit, vmap against a loop, and derivatives against finite differences."""
  tf_fn = tf.function(tf_fn, autograph=False, jit_compile=True)
  expected = tf.nest.flatten(tf_fn(*map(tf.constant, args)))
  fn = gc.convert_functional(tf_fn, *args)

  def flat(*args):
    return jax.tree.leaves(fn(*args))

  got = jax.jit(flat)(*args)
  assert len(got) == len(expected)
  for g, e in zip(got, expected, strict=True):
    assert (g.dtype, g.shape) == (e.dtype.as_numpy_dtype, tuple(e.shape))
    np.testing.assert_allclose(np.asarray(g, np.float64), np.asarray(e).astype(np.float64), rtol=rtol, atol=rtol)
  if batch:
    both = [np.stack([a, np.roll(a.reshape(-1), 1).reshape(a.shape)]) for a in map(np.asarray, args)]
    with gc.override_config("strict_shape_check", False):
      batched = jax.vmap(flat)(*both)
    for i in range(2):
      for b, one in zip(batched, flat(*[a[i] for a in both]), strict=True):
        np.testing.assert_allclose(b[i], one, rtol=rtol, atol=rtol)
  if grad:
    floats = [i for i, a in enumerate(args) if np.asarray(a).dtype == np.float64]

    def of_floats(*xs):
      filled = list(args)
      for i, x in zip(floats, xs, strict=True):
        filled[i] = x
      return flat(*filled)

    check_grads(of_floats, [jnp.asarray(args[i]) for i in floats], order=1, atol=1e-6, rtol=1e-6)
  return fn


def _function(tf_fn, *dtypes):
  specs = [tf.TensorSpec([], dtype) for dtype in dtypes]
  return tf.function(tf_fn, autograph=False).get_concrete_function(*specs)


def _reducer(tf_fn, dtype=tf.float64):
  return _function(tf_fn, dtype, dtype)


def _unusual(a, b):
  return a * b + tf.sin(a) * 0.1 + b


# --- convolution and products


def _conv_numbers(spec):
  numbers = xla_data_pb2.ConvolutionDimensionNumbers()
  lhs, rhs, out = spec
  numbers.input_batch_dimension, numbers.input_feature_dimension = lhs[0], lhs[1]
  numbers.input_spatial_dimensions.extend(lhs[2:])
  numbers.kernel_output_feature_dimension, numbers.kernel_input_feature_dimension = rhs[0], rhs[1]
  numbers.kernel_spatial_dimensions.extend(rhs[2:])
  numbers.output_batch_dimension, numbers.output_feature_dimension = out[0], out[1]
  numbers.output_spatial_dimensions.extend(out[2:])
  return numbers


NHWC = ((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2))


@pytest.mark.parametrize(
  ("spec", "lhs", "rhs", "settings"),
  [
    (NHWC, (2, 8, 9, 4), (3, 3, 4, 5), {"window_strides": (1, 1), "padding": ((1, 1), (0, 2))}),
    (NHWC, (2, 8, 9, 4), (3, 2, 2, 6), {"window_strides": (2, 1), "feature_group_count": 2}),
    (NHWC, (2, 8, 9, 4), (3, 3, 4, 5), {"lhs_dilation": (2, 1), "rhs_dilation": (1, 2), "padding": ((-1, 3), (2, 2))}),
    (NHWC, (4, 8, 9, 2), (3, 3, 2, 6), {"batch_group_count": 2}),
    (((1, 0, 2), (0, 2, 1), (2, 1, 0)), (4, 2, 9), (5, 3, 4), {}),
  ],
)
def test_convolutions(spec, lhs, rhs, settings):
  n = len(lhs) - 2
  settings = {
    "window_strides": (1,) * n, "padding": ((0, 0),) * n, "lhs_dilation": (1,) * n, "rhs_dilation": (1,) * n
  } | settings  # fmt: skip
  x, kernel = RNG.normal(size=lhs), RNG.normal(size=rhs)
  _check(lambda x, k: xla.conv(x, k, dimension_numbers=_conv_numbers(spec), **settings), x, kernel)


def test_convolution_of_small_integers_sums_in_the_wider_type():
  x = RNG.integers(-128, 127, (1, 8, 8, 4)).astype(np.int8)
  kernel = RNG.integers(-128, 127, (3, 3, 4, 2)).astype(np.int8)

  def tf_fn(x, k):
    return xla.conv(x, k, (1, 1), ((0, 0),) * 2, (1, 1), (1, 1), _conv_numbers(NHWC), preferred_element_type=tf.int32)

  _check(tf_fn, x, kernel, grad=False)


def test_convolution_numbers_that_do_not_fit_raise():
  numbers = xla_data_pb2.ConvolutionDimensionNumbers(input_batch_dimension=3)
  attrs = {"dimension_numbers": numbers.SerializeToString(), "precision_config": b""}
  xla_conv = lowering("XlaConv").function
  with pytest.raises(InvalidInputError, match="permutation of the 4"):
    xla_conv(IMAGES, IMAGES, (1, 1), (0, 0, 0, 0), (1, 1), (1, 1), 1, **attrs)


# --- slices


@pytest.mark.parametrize("start", [[0, 0], [4, 6], [-3, 2], [100, -100]])
def test_dynamic_slices_stay_inside(start):
  start = np.array(start, np.int32)
  _check(lambda x, i: xla.dynamic_slice(x, i, [2, 3]), X, start)
  _check(lambda x, u, i: xla.dynamic_update_slice(x, u, i), X, X[:2, :3] * 2, start)


def test_padding_around_between_and_negative():
  _check(lambda x, v: xla.pad(x, v, [1, -2], [0, 3], [2, 0]), X, np.float64(0.5))


@pytest.mark.parametrize(
  ("lhs", "rhs", "dims"), [((3,), (2, 3, 4), [1]), ((2, 3, 4), (2, 4), [0, 2]), ((2, 3), (2, 3), []), ((), (2, 3), [])]
)
def test_broadcast_helper(lhs, rhs, dims):
  dims = np.array(dims, np.int64)
  _check(
    lambda a, b: gen_xla_ops.xla_broadcast_helper(lhs=a, rhs=b, broadcast_dims=dims),
    RNG.normal(size=lhs), RNG.normal(size=rhs),
  )  # fmt: skip


def test_broadcast_helper_rejects_what_does_not_fit():
  xla_broadcast_helper = lowering("XlaBroadcastHelper").function
  with pytest.raises(InvalidInputError, match="broadcast_dims is empty"):
    xla_broadcast_helper(X, X[0], ())
  with pytest.raises(InvalidInputError, match="do not place"):
    xla_broadcast_helper(X, X[0], (2,))


def test_precision_and_barriers():
  _check(lambda x: xla.reduce_precision(x, 5, 3), X, grad=False)
  _check(lambda x: xla.optimization_barrier([x, x * 2]), X)


def test_gathers():
  numbers = xla_data_pb2.GatherDimensionNumbers(
    offset_dims=[1], collapsed_slice_dims=[0], start_index_map=[0, 1], index_vector_dim=1
  )
  indices = np.array([[0, 0], [5, 6], [2, 3], [-1, 2], [9, 9]], np.int32)
  _check(lambda x, i: xla.gather(x, i, numbers, [1, 3]), X, indices)


def test_gathers_with_index_vectors_in_front():
  numbers = xla_data_pb2.GatherDimensionNumbers(offset_dims=[0], collapsed_slice_dims=[1], start_index_map=[1])
  indices = np.array([[0, 6, 3, 3]], np.int32)
  _check(lambda x, i: xla.gather(x, i, numbers, [6, 1]), X, indices)


SCATTERS = {
  "add": lambda a, b: a + b, "mul": lambda a, b: a * b, "max": tf.maximum, "min": tf.minimum, "update": lambda a, b: b
}  # fmt: skip


@pytest.mark.parametrize("name", SCATTERS)
def test_scatters(name):
  numbers = xla_data_pb2.ScatterDimensionNumbers(
    update_window_dims=[1], inserted_window_dims=[0], scatter_dims_to_operand_dims=[0], index_vector_dim=1
  )
  indices = np.array([[0], [5], [9], [2], [-1]], np.int32)
  reducer = _reducer(SCATTERS[name])
  updates = RNG.normal(size=(5, 7))
  # JAX does not differentiate products if indices may be equal.
  _check(lambda x, i, u: xla.scatter(x, i, u, reducer, numbers), X, indices, updates, grad=name != "mul")


def test_scatters_by_any_function_have_values_and_no_derivative():
  numbers = xla_data_pb2.ScatterDimensionNumbers(
    update_window_dims=[1], inserted_window_dims=[0], scatter_dims_to_operand_dims=[0], index_vector_dim=1
  )
  reducer = _reducer(_unusual)
  indices = np.array([[0], [5], [2]], np.int32)
  fn = _check(lambda x, i, u: xla.scatter(x, i, u, reducer, numbers), X, indices, X[:3], grad=False, batch=False)
  with pytest.raises(UnsupportedOpError, match="order of the updates, which is not defined"):
    jax.grad(lambda x: fn(x, indices, X[:3]).sum())(X)


def test_scatters_of_booleans():
  numbers = xla_data_pb2.ScatterDimensionNumbers(
    inserted_window_dims=[0], scatter_dims_to_operand_dims=[0], index_vector_dim=1
  )
  reducer = _reducer(tf.logical_or, tf.bool)
  x, updates = np.array([True, False, False]), np.array([True, False])
  _check(lambda x, i, u: xla.scatter(x, i, u, reducer, numbers), x, np.array([[1], [0]], np.int32), updates, grad=False)


# --- reductions


REDUCERS = {
  "add": (lambda a, b: a + b, 0.5), "mul": (lambda a, b: a * b, 2.0), "max": (tf.maximum, 0.1),
  "min": (tf.minimum, -0.1), "unusual": (lambda a, b: a + b + 0.1 * a * b, 0.0),
}  # fmt: skip


@pytest.mark.parametrize("name", REDUCERS)
@pytest.mark.parametrize("axes", [[1], [0, 2], [], [0, 1, 2]])
def test_reductions(name, axes):
  tf_fn, init = REDUCERS[name]
  reducer = _reducer(tf_fn)
  x = RNG.normal(size=(3, 4, 2))
  if name == "unusual":
    # JAX cannot batch the initial value of such a reduction.
    _check(lambda x: xla.reduce(x, tf.constant(init, tf.float64), axes, reducer), x)
  else:
    _check(lambda x, i: xla.reduce(x, i, axes, reducer), x, np.float64(init))


def test_reductions_of_booleans_and_integers():
  everywhere = _reducer(tf.logical_and, tf.bool)
  _check(lambda x, i: xla.reduce(x, i, [1], everywhere), X > -1, np.True_, grad=False)
  bits = _reducer(tf.bitwise.bitwise_xor, tf.int32)
  _check(lambda x, i: xla.reduce(x, i, [1], bits), np.arange(12, dtype=np.int32).reshape(3, 4), np.int32(5), grad=False)


def test_variadic_reductions():
  def argmax(a, i, b, j):
    keep = (a > b) | (tf.equal(a, b) & (i < j))
    return tf.where(keep, a, b), tf.where(keep, i, j)

  reducer = _function(argmax, tf.float64, tf.int32, tf.float64, tf.int32)
  index = np.tile(np.arange(7, dtype=np.int32), (6, 1))
  start = np.float64(-np.inf), np.int32(0)
  _check(
    lambda x, i: xla.variadic_reduce([x, i], list(start), dimensions_to_reduce=[1], reducer=reducer),
    X, index, grad=False,
  )  # fmt: skip

  def sum_and_product(a, b, c, d):
    return a + c, b * d

  pair = _function(sum_and_product, *[tf.float64] * 4)
  starts = [np.float64(0), np.float64(1)]
  _check(
    lambda x, y: gen_xla_ops.xla_variadic_reduce(
      input=[x, y], init_value=starts, dimensions_to_reduce=[0], reducer=pair
    ), X, X[::-1].copy(),
  )  # fmt: skip


@pytest.mark.parametrize("name", REDUCERS)
@pytest.mark.parametrize(
  "window",
  [
    {"window_dimensions": [2, 3]},
    {"window_dimensions": [2, 3], "window_strides": [2, 1], "padding": [[1, 0], [2, 1]]},
    {"window_dimensions": [2, 2], "window_dilations": [2, 3], "base_dilations": [2, 1], "padding": [[0, 1], [0, 0]]},
  ],
)
def test_windows(name, window):
  tf_fn, init = REDUCERS[name]
  reducer = _reducer(tf_fn)
  if name in ("mul", "unusual"):
    _check(lambda x: xla.reduce_window(x, tf.constant(init, tf.float64), reducer, **window), X)
  else:
    _check(lambda x, i: xla.reduce_window(x, i, reducer, **window), X, np.float64(init))


@pytest.mark.parametrize("select", [tf.greater_equal, tf.less])
@pytest.mark.parametrize("scatter", ["add", "unusual"])
def test_select_and_scatter(select, scatter):
  scatter = _reducer(REDUCERS[scatter][0])
  select = _reducer(select)

  def tf_fn(x, source, init):
    return xla.select_and_scatter(
      x, [2, 3], [2, 2], [[0, 1], [1, 1]], source, init, select=select, scatter=scatter
    )  # fmt: skip

  _check(tf_fn, X, RNG.normal(size=(3, 4)), np.float64(0.25))


# --- control flow


def test_conditionals_and_loops():
  # TensorFlow compiles these two ops only if another compiler created them, so NumPy is the oracle.
  then, otherwise = (_function(f, tf.float64) for f in (tf.sin, lambda x: x * 2))

  def branch(x):
    return gen_xla_ops.xla_if(x > 0, [x], then_branch=then, else_branch=otherwise, Tout=[tf.float64])[0]

  fn = jax.jit(gc.convert_functional(tf.function(branch, autograph=False), np.float64(1)))
  np.testing.assert_allclose([fn(0.5), fn(-0.5)], [np.sin(0.5), -1.0])
  np.testing.assert_allclose([jax.grad(fn)(0.5), jax.grad(fn)(-0.5)], [np.cos(0.5), 2.0])

  cond = _function(lambda i, x: i < 3, tf.int32, tf.float64)
  body = _function(lambda i, x: (i + 1, tf.sin(x) + x), tf.int32, tf.float64)
  loop = tf.function(lambda x: gen_xla_ops.xla_while([0, x], cond=cond, body=body)[1], autograph=False)
  x, slope = 0.7, 1.0
  for _ in range(3):
    x, slope = np.sin(x) + x, slope * (np.cos(x) + 1)
  value, gradient = jax.jit(jax.value_and_grad(gc.convert_functional(loop, np.float64(1))))(0.7)
  np.testing.assert_allclose([value, gradient], [x, slope])


def test_derivatives_of_library_functions():
  from tensorflow.python.ops import gen_functional_ops

  inner = _function(lambda x, n: (tf.sin(x) * x, n + 1), tf.float64, tf.int32)

  def tf_fn(x, g):
    return gen_functional_ops.symbolic_gradient([x, 3, g, 0], Tout=[tf.float64, tf.int32], f=inner)

  fn = gc.convert_functional(tf.function(tf_fn, autograph=False), np.float64(1), np.float64(1))
  gradient, of_integer = fn(np.float64(0.7), np.float64(2))
  np.testing.assert_allclose(gradient, 2 * (np.cos(0.7) * 0.7 + np.sin(0.7)))
  assert of_integer == 0


# --- grids, replicas, dynamic dimensions


@pytest.mark.parametrize(("splits", "paddings"), [([2, 1], []), ([3, 2], [0, 1]), ([4, 4], [2, 1])])
def test_grids_of_parts(splits, paddings):
  num = int(np.prod(splits))

  def split(x):
    return tf.raw_ops.XlaSplitND(input=x, N=num, num_splits=splits, paddings=paddings)

  _check(split, X)
  _check(lambda x: tf.raw_ops.XlaConcatND(inputs=split(x * 2), num_concats=splits, paddings=paddings), X)


def test_variables_as_grids_of_parts():
  variable = tf.Variable(X)

  def tf_fn(x):
    parts = tf.raw_ops.ReadVariableXlaSplitND(
      resource=variable.handle, T=tf.float64, N=6, num_splits=[2, 3], paddings=[0, 2]
    )
    tf.raw_ops.AssignVariableXlaConcatND(
      resource=variable.handle, inputs=[part * x for part in parts], num_concats=[2, 3], paddings=[0, 2]
    )
    return variable.read_value() + 1.0

  fn, params = gc.convert(tf.function(tf_fn, autograph=False), np.float64(3))
  got, after = fn(params, np.float64(3))
  np.testing.assert_allclose(got, X * 3 + 1)
  np.testing.assert_allclose(list(after.values())[0], X * 3)


def test_grids_that_do_not_fit_raise():
  xla_split_nd, xla_concat_nd = lowering("XlaSplitND").function, lowering("XlaConcatND").function
  with pytest.raises(InvalidInputError, match="does not divide"):
    xla_split_nd(X, num_splits=(4, 1))
  with pytest.raises(InvalidInputError, match="make no grid"):
    xla_concat_nd([X, X, X], num_concats=(2, 1))


def test_a_single_replica_keeps_what_it_has():
  groups = np.array([[0]], np.int32)

  def tf_fn(x):
    reduced = gen_xla_ops.xla_all_reduce(input=x, group_assignment=groups, reduce_op="Add", mode="CrossReplica")
    return reduced + tf.cast(xla.replica_id(), tf.float32)

  # TensorFlow's XLA compiler for CPU does not implement collectives.
  x = X.astype(np.float32)
  np.testing.assert_array_equal(gc.convert_functional(tf.function(tf_fn), x)(x), x)


def test_several_replicas_raise():
  def tf_fn(x):
    return gen_xla_ops.xla_all_reduce(input=x, group_assignment=[[0, 1]], reduce_op="Add", mode="CrossReplica")

  fn = gc.convert_functional(tf.function(tf_fn), X.astype(np.float32))
  with pytest.raises(UnsupportedOpError, match="joins several replicas"):
    fn(X.astype(np.float32))


def test_shardings_of_one_part():
  sharding = xla_data_pb2.OpSharding(type=xla_data_pb2.OpSharding.REPLICATED).SerializeToString()

  def tf_fn(x):
    x = xla.sharding(x, sharding=sharding)
    part = xla.spmd_full_to_shard_shape(x, manual_sharding=sharding)
    return xla.spmd_shard_to_full_shape(part * 2, manual_sharding=sharding, full_shape=x.shape)

  fn = gc.convert_functional(tf.function(tf_fn), X)
  np.testing.assert_array_equal(fn(X), X * 2)
  tiled = xla_data_pb2.OpSharding(
    type=xla_data_pb2.OpSharding.OTHER, tile_assignment_dimensions=[2, 1], tile_assignment_devices=[0, 1]
  ).SerializeToString()
  fn = gc.convert_functional(tf.function(lambda x: xla.spmd_full_to_shard_shape(x, manual_sharding=tiled)), X)
  with pytest.raises(UnsupportedOpError, match=r"into \[2, 1\] parts"):
    fn(X)


def test_dynamic_dimensions_of_known_size():
  _check(lambda x: tf.reduce_sum(xla.set_dynamic_dimension_size(x, 1, 4), axis=1), X)
  fn = gc.convert_functional(tf.function(lambda x, n: xla.set_dynamic_dimension_size(x, 1, n)), X, np.int32(3))
  np.testing.assert_array_equal(np.asarray(jax.jit(fn)(X, np.int32(3))), X[:, :3])
  removed = gc.convert_functional(tf.function(lambda x: xla.remove_dynamic_dimension_size(x, 1)), X)
  with pytest.raises(UnsupportedOpError, match="RemoveDynamicDimensionSize"):
    removed(X)
