"""JAX functions called from TensorFlow, with JAX as the oracle for values and jax.experimental.jax2tf for behavior."""

import collections
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tensorflow as tf
from jax.experimental import jax2tf as reference

from graftax.convert import UnsupportedPrimitiveError, jax2tf
from graftax.convert.jax2tf.live.arguments import flatten
from graftax.ops_jax import as_int64_pair
from graftax.xla_call_module import UnsupportedModuleError

X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)


def add_leaves(x, *rest, scale=2.0):
  total = sum(jax.tree.leaves((x, rest)))
  return {"sum": total, "scaled": (total * scale, None)}


def names(concrete):
  return [(op.name, op.type) for op in concrete.graph.get_operations()]


@pytest.mark.parametrize("mode", ["eager", "graph", "xla"])
def test_pytrees_go_in_and_come_out(mode):
  converted = jax2tf.convert(add_leaves)
  if mode != "eager":
    converted = tf.function(converted, autograph=False, jit_compile=mode == "xla")
  Pair = collections.namedtuple("Pair", "a b")
  found = converted({"x": tf.constant(X), "y": [X, 1]}, Pair(tf.Variable(X), 3.0), scale=np.float32(4))
  assert isinstance(found["sum"], tf.Tensor) and found["scaled"][1] is None
  np.testing.assert_allclose(found["scaled"][0], 4 * (3 * X + 4), rtol=1e-6)


@pytest.mark.parametrize("lowering", ["stablehlo", "tf_ops"])
@pytest.mark.parametrize("number", [True, 1, 2.5, 1j])
def test_numbers_of_python_are_results(number, lowering):
  _, found = jax2tf.convert(lambda x: (x, number), lowering=lowering)(1.0)
  _, expected = jax.jit(lambda x: (x, number))(1.0)
  assert found.numpy() == expected and found.dtype.as_numpy_dtype == expected.dtype


def test_a_tensor_of_unknown_rank_is_named_with_what_would_work():
  converted = tf.function(jax2tf.convert(jnp.sin), autograph=False)
  with pytest.raises(ValueError, match="argument .* has an unknown rank; expected a number of dimensions"):
    converted.get_concrete_function(tf.TensorSpec(None))


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("lowering", ["stablehlo", "tf_ops"])
def test_zeros_of_both_signs_stay_in_their_order(lowering, jit_compile):
  x = np.float32([0.0, -0.0, 1.0, -0.0, np.nan, 0.0])
  converted = tf.function(jax2tf.convert(jnp.argsort, lowering=lowering), autograph=False, jit_compile=jit_compile)
  np.testing.assert_array_equal(converted(x), jnp.argsort(x))


def test_nodes_have_the_names_that_jax2tf_gives():
  def with_gradient(convert):
    def function(x, y):
      with tf.GradientTape() as tape:
        tape.watch(x)
        found = convert(lambda x, y: [x["a"] * y, jnp.sin(y)])({"a": x}, y)
      return found, tape.gradient(found, x)

    return tf.function(function, autograph=False).get_concrete_function(X, tf.TensorSpec([2, 3]))

  ours = names(with_gradient(jax2tf.convert))
  assert ours == names(with_gradient(reference.convert))
  assert {"jax2tf_arg_1", "jax2tf_out", "jax2tf_out_1", "jax2tf_vjp/jax2tf_arg_0"} <= {name for name, _ in ours}


def test_inputs_of_saved_signatures_have_the_names_that_jax2tf_gives(tmp_path):
  specs = [tf.TensorSpec([2, 3]), {"c": tf.TensorSpec([2, 3])}]
  for convert in jax2tf.convert, reference.convert:
    module = tf.Module()
    module.f = tf.function(convert(lambda a, b: {"o": a + b["c"]}), autograph=False, input_signature=specs)
    tf.saved_model.save(module, str(tmp_path / convert.__module__))
    signature = tf.saved_model.load(str(tmp_path / convert.__module__)).signatures["serving_default"]
    np.testing.assert_array_equal(signature(args_tf_0=X, args_tf_1=X)["o"], 2 * X)


@pytest.mark.parametrize("value", [1, 1.0, True, 1j, np.int64(3), np.float64(1), jnp.bfloat16(1), np.uint8(1)])
def test_arguments_have_the_dtypes_of_jax(value):
  converted = jax2tf.convert(lambda x: x)
  for argument in value, tf.constant(value), tf.Variable(value):
    assert converted(argument).dtype == tf.as_dtype(jnp.asarray(value).dtype) == jax2tf.dtype_of_val(argument)
    assert jax2tf.dtype_of_val(argument) == reference.dtype_of_val(argument)
  with jax.enable_x64(True):
    assert converted(value).dtype == tf.as_dtype(jnp.asarray(value).dtype)


def test_jax_arrays_are_arguments_and_random_keys_are_results():
  np.testing.assert_array_equal(jax2tf.convert(jnp.sin)(jnp.asarray(X)), jnp.sin(X))
  found = jax2tf.convert(lambda seed: jax.random.split(jax.random.key(seed)))(3)
  np.testing.assert_array_equal(found, jax.random.key_data(jax.random.split(jax.random.key(3))))


@pytest.mark.parametrize("lowering", ["stablehlo", "tf_ops"])
def test_integers_of_4_bits_go_in_and_come_out(lowering):
  x = jnp.arange(-8, 8).astype(jnp.int4)
  converted = jax2tf.convert(lambda x: (x.reshape(2, 8), x.astype(np.float32)), lowering=lowering)
  for call in converted, tf.function(converted, autograph=False):
    short, floats = call(tf.constant(np.asarray(x)))
    assert short.dtype.name == "int4"
    np.testing.assert_array_equal(short.numpy().astype(int), np.arange(-8, 8).reshape(2, 8))
    np.testing.assert_array_equal(floats, np.arange(-8, 8))


@pytest.mark.parametrize("lowering", ["stablehlo", "tf_ops"])
@pytest.mark.parametrize("taken, returned, name", [(jnp.int4, np.int8, "int4"), (np.uint8, jnp.uint4, "uint4")])
def test_integers_of_4_bits_at_the_boundary_of_what_tensorflow_compiles_raise(taken, returned, name, lowering):
  # TensorFlow's XLA misreads them in any function, such as tf.identity.
  converted = jax2tf.convert(lambda x: x.astype(returned), lowering=lowering)
  compiled = tf.function(converted, autograph=False, jit_compile=True)
  x = tf.constant(np.arange(8).astype(taken))
  np.testing.assert_array_equal(converted(x).numpy().astype(int), np.arange(8))
  with pytest.raises(tf.errors.InvalidArgumentError, match=f"jit_compile_misreads_{name}__take_and_return_u?int8"):
    compiled(x)


@pytest.mark.parametrize("lowering", ["stablehlo", "tf_ops"])
def test_a_large_constant_is_saved_once_and_derivatives_of_all_orders_use_it(lowering, tmp_path):
  large = np.random.default_rng(0).normal(size=(600, 500)).astype(np.float32)
  x = np.linspace(-1, 1, 600, dtype=np.float32)[None] / 9

  def function(x):
    return jnp.sin(x @ jnp.asarray(large))

  gradient = jax.grad(lambda x: function(x).sum())
  converted = jax2tf.convert(function, lowering=lowering)
  module = tf.Module()
  module.f = tf.function(converted, autograph=False)
  for size in 1, 2:  # two traces
    module.f.get_concrete_function(tf.TensorSpec([size, 600]))
  tf.saved_model.save(module, str(tmp_path))
  assert large.nbytes < (tmp_path / "saved_model.pb").stat().st_size < 1.2 * large.nbytes
  loaded = tf.saved_model.load(str(tmp_path))
  value = tf.constant(x)
  for f in converted, loaded.f:
    with tf.GradientTape() as outer:
      outer.watch(value)
      with tf.GradientTape() as inner:
        inner.watch(value)
        y = f(value)
      first = inner.gradient(y, value)
    np.testing.assert_allclose(y, function(x), atol=1e-5)
    np.testing.assert_allclose(first, gradient(x), rtol=1e-4, atol=1e-3)
    second = jax.grad(lambda x: gradient(x).sum())(x)
    np.testing.assert_allclose(outer.gradient(first, value), second, rtol=1e-3, atol=0.1)  # of up to 4,000


def _errors():
  sine = jnp.sin
  return {
    "number": lambda convert: convert(5.0),
    "staticmethod": lambda convert: convert(staticmethod(len)),
    "platform": lambda convert: convert(sine, native_serialization_platforms=("cpu", "mars")),
    "platforms": lambda convert: convert(sine, native_serialization_platforms="cpu"),
    "other platform": lambda convert: convert(sine, native_serialization_platforms=("tpu",))(1.0),
    "text": lambda convert: convert(sine)("text"),
    "text tensor": lambda convert: convert(sine)(tf.constant("text")),
    "object": lambda convert: convert(sine)(np.array([None])),
    "ragged": lambda convert: convert(sine)(tf.ragged.constant([[1], [2, 3]])),
    "quantized": lambda convert: convert(sine)(tf.cast(1, tf.qint8)),
    "key": lambda convert: convert(jax.random.normal)(jax.random.key(0)),
    "float0": lambda convert: convert(sine)(np.zeros(3, jax.dtypes.float0)),
    "too many": lambda convert: convert(lambda x: x)(1.0, 2.0),
    "under jit": lambda convert: jax.jit(lambda x: convert(sine)(x))(1.0),
    "under grad": lambda convert: jax.grad(lambda x: convert(sine)(2.0) * x)(1.0),
    "unknown size": lambda convert: _traced(convert(sine), tf.TensorSpec([None, 3])),
    "unknown rank": lambda convert: _traced(convert(sine), tf.TensorSpec(None)),
    "rank": lambda convert: convert(sine, polymorphic_shapes=["b"])(X),
    "size": lambda convert: convert(sine, polymorphic_shapes=["b, 4"])(X),
    "square": lambda convert: convert(sine, polymorphic_shapes=["b, b"])(X),
    "multiple": lambda convert: convert(sine, polymorphic_shapes=["2*b, 2*c"])(X),
    "constraint": lambda convert: convert(sine, polymorphic_shapes="a, b", polymorphic_constraints=["a >= b"])(X),
    "comparison": lambda convert: convert(lambda x: x if len(x) > 5 else 2 * x, polymorphic_shapes=["b, _"])(X),
    "axis": lambda convert: convert(lambda x: jax.lax.psum(x, "i"))(1.0),
    "debug": lambda convert: convert(lambda x: (jax.debug.print("{}", x), x)[1])(1.0),
    "callback": lambda convert: convert(lambda x: jax.pure_callback(np.sin, x, x))(np.float32(1)),
    "no gradient": lambda convert: _gradient(convert(sine, with_gradient=False)),
    "positional": lambda convert: convert(sine, "b"),
  }


def _traced(converted, spec):
  return tf.function(converted, autograph=False).get_concrete_function(spec)


def _gradient(converted):
  x = tf.constant(X)
  with tf.GradientTape() as tape:
    tape.watch(x)
    y = converted(x)
  return tape.gradient(y, x)


@pytest.mark.parametrize("call", _errors())
def test_errors_have_the_types_and_texts_that_jax2tf_gives(call):
  with pytest.raises(Exception) as theirs:
    _errors()[call](reference.convert)
  with pytest.raises(type(theirs.value)) as ours:
    _errors()[call](jax2tf.convert)
  if call != "rank":  # Theirs is about an internal zip.
    # TensorFlow begins its messages with the node that failed; ours has no name from the caller.
    text = str(theirs.value).rpartition("device:CPU:0}} ")[2]
    if text.startswith("Cannot deserialize"):  # JAX 0.12 writes a newer StableHLO than TensorFlow 2.21 reads.
      text = "Module shape refinement failed"
    assert text[:60].split("Trace state")[0] in str(ours.value)


def test_deprecated_parameters_warn():
  for name in "enable_xla", "native_serialization":
    with pytest.warns(DeprecationWarning, match=f"The `{name}` parameter is deprecated"):
      jax2tf.convert(jnp.sin, **{name: True})


def test_disabled_checks_reach_the_module():
  check = jax2tf.DisabledSafetyCheck.platform()
  options = {"native_serialization_platforms": ["tpu"], "native_serialization_disabled_checks": [check]}
  np.testing.assert_allclose(jax2tf.convert(jnp.sin, **options)(X), np.sin(X), rtol=1e-6)


def test_one_export_serves_all_sizes_and_both_modes():
  traces = []

  def function(x, *, y):
    traces.append(x.shape)
    return jnp.concatenate([x, y])

  converted = jax2tf.convert(function, polymorphic_shapes={"x": "b, _", "y": "c, _"})
  graph = tf.function(converted, autograph=False)
  for size in 1, 2, 5:
    assert converted(np.ones((size, 3)), y=np.ones((2, 3))).shape == (size + 2, 3)
    assert graph(tf.ones((size, 3)), y=tf.ones((size, 3))).shape == (2 * size, 3)
  concrete = graph.get_concrete_function(tf.TensorSpec([None, 3]), y=tf.TensorSpec([None, 3]))
  assert concrete.structured_outputs.shape.as_list() == [None, 3]
  assert len(traces) == 1


def test_containers_of_a_tf_module_are_arguments():
  module = tf.Module()
  module.params = {"a": [tf.Variable(1.0), (tf.Variable(2.0),)]}
  found = jax2tf.convert(lambda params: jax.tree.map(lambda x: x + 1, params))(module.params)
  assert float(found["a"][1][0]) == 3


def test_containers_that_are_no_pytrees_count_as_plain_ones():
  # As TensorFlow's wrappers do while jax.experimental.jax2tf, which registers them, is not imported.
  class Kept(list):
    pass

  leaves, structure = flatten(tf, (Kept([1, {"a": Kept([2])}]),), {})
  assert leaves == [1, 2] and structure.unflatten(leaves) == (([1, {"a": [2]}],), {})


def test_functions_without_arguments_or_results():
  assert jax2tf.convert(lambda: jnp.ones(2))().shape == (2,)
  assert jax2tf.convert(lambda x: ())(1.0) == ()
  assert tf.function(jax2tf.convert(lambda x: None), autograph=False)(1.0) is None
  assert int(jax2tf.convert(lambda x: 3)(1.0)) == 3


def test_options_of_jax_at_the_time_of_the_call_count():
  converted = jax2tf.convert(lambda: jax.random.key_data(jax.random.key(1)))
  assert converted().shape == (2,)
  with jax.default_prng_impl("rbg"):
    assert converted().shape == (4,)
  assert converted().shape == (2,)


def test_tensorflow_1_graphs_and_sessions():
  with tf.Graph().as_default():
    x = tf.compat.v1.placeholder(tf.float32, [None, 3])
    y = jax2tf.convert(jnp.sin, polymorphic_shapes="b, _")(x)
    (gradient,) = tf.compat.v1.gradients(y, x)
    with tf.compat.v1.Session() as session:
      found = session.run([y, gradient], {x: X})
  np.testing.assert_allclose(found, [np.sin(X), np.cos(X)], rtol=1e-6)


def test_control_flow_of_tensorflow_contains_converted_functions():
  halve = jax2tf.convert(lambda x: x / 2)

  @tf.function(autograph=False)
  def function(x):
    (x,) = tf.while_loop(lambda x: tf.reduce_sum(x) > 1, lambda x: [halve(x)], [x])
    return tf.cond(x[0] > 0, lambda: halve(x), lambda: x)

  x = tf.constant([8.0, 4.0])
  with tf.GradientTape() as tape:
    tape.watch(x)
    y = function(x)
  np.testing.assert_allclose(y, [0.25, 0.125])
  np.testing.assert_allclose(tape.gradient(y, x), [1 / 32, 1 / 32])


def test_variables_of_keras_are_arguments_and_are_trained():
  class Dense(tf.keras.layers.Layer):
    def __init__(self):
      super().__init__()
      self.kernel = self.add_weight(shape=(3, 2), initializer="ones")
      self.function = jax2tf.convert(lambda kernel, x: x @ kernel, polymorphic_shapes=(None, "b, _"))

    def call(self, x):
      return self.function(self.kernel, x)

  model = tf.keras.Sequential([tf.keras.Input((3,)), Dense()])
  model.compile("sgd", "mse")
  losses = model.fit(np.ones((4, 3)), np.zeros((4, 2)), epochs=2, verbose=0).history["loss"]
  assert losses[1] < losses[0] == 9.0


def test_autograph_leaves_converted_functions_alone():
  converted = jax2tf.convert(lambda x: x if x.shape[0] > 1 else 2 * x)
  np.testing.assert_array_equal(tf.function(lambda x: converted(x))(X), X)


def test_jitted_functions_with_shardings_are_converted():
  sharding = jax.sharding.NamedSharding(jax.make_mesh((1,), ("x",)), jax.sharding.PartitionSpec("x"))
  converted = jax2tf.convert(jax.jit(jnp.sin, in_shardings=sharding, out_shardings=sharding))
  for called in converted, tf.function(converted, autograph=False):
    np.testing.assert_allclose(called(X), np.sin(X), rtol=1e-6)


def _meshes():
  return {
    1: jax.sharding.Mesh(jax.devices()[:1], ("i",)),
    2: jax.sharding.AbstractMesh((2,), ("i",), axis_types=(jax.sharding.AxisType.Auto,)),
  }


@pytest.mark.parametrize("num_devices", [1, 2])
@pytest.mark.parametrize("lowering", ["stablehlo", "tf_ops"])
def test_collectives_run_over_one_device_and_raise_over_several(lowering, num_devices):
  def collectives(x):
    moved = jax.lax.ppermute(x, "i", [(0, 0)]) * jax.lax.axis_index("i") + jax.lax.pmax(x, "i")
    gathered = jax.lax.all_gather(x, "i")[0] + jax.lax.pmin(x, "i")
    return jax.lax.psum(jnp.sin(x), "i") + moved + gathered

  mapped = jax.shard_map(
    collectives, mesh=_meshes()[num_devices], in_specs=jax.P("i"), out_specs=jax.P("i"), check_vma=False
  )
  converted = jax2tf.convert(lambda x: mapped(x) * 2, lowering=lowering)
  for call in converted, tf.function(converted, autograph=False):
    if num_devices == 1:
      np.testing.assert_allclose(call(X), 2 * (np.sin(X) + 3 * X), rtol=1e-5)
    else:
      with pytest.raises((UnsupportedPrimitiveError, UnsupportedModuleError), match="devices.*conversion_test"):
        call(X)


def test_derivatives_of_collectives_over_one_device():
  mapped = jax.shard_map(
    lambda x: jax.lax.psum(jnp.sin(x), "i") * jax.lax.all_gather(x, "i", tiled=True),
    mesh=_meshes()[1],
    in_specs=jax.P("i"),
    out_specs=jax.P("i"),
  )
  for lowering in "stablehlo", "tf_ops":
    x = tf.constant(X)
    with tf.GradientTape() as tape:
      tape.watch(x)
      y = jax2tf.convert(mapped, lowering=lowering)(x)
    np.testing.assert_allclose(tape.gradient(y, x), np.cos(X) * X + np.sin(X), rtol=1e-5)


@pytest.mark.parametrize("num_devices", [1, 2])
def test_sharding_constraints_do_not_change_results(num_devices):
  sharding = jax.sharding.NamedSharding(_meshes()[num_devices], jax.P("i"))
  converted = jax2tf.convert(lambda x: jax.lax.with_sharding_constraint(jnp.sin(x), sharding) @ x.T)
  for jit_compile in False, True:
    called = tf.function(converted, autograph=False, jit_compile=jit_compile)
    np.testing.assert_allclose(called(X), np.sin(X) @ X.T, rtol=1e-5, atol=1e-6)
  np.testing.assert_allclose(converted(X), np.sin(X) @ X.T, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("lowering", ["stablehlo", "tf_ops"])
def test_explicit_shardings_over_one_device_do_not_change_results(lowering):
  mesh = jax.make_mesh((1,), ("i",), axis_types=(jax.sharding.AxisType.Explicit,), devices=jax.devices()[:1])
  split = jax.sharding.NamedSharding(mesh, jax.P("i"))
  converted = jax2tf.convert(lambda x: jnp.exp(jax.sharding.reshard(x, split)).sum(1), lowering=lowering)
  np.testing.assert_allclose(tf.function(converted, autograph=False)(X), np.exp(X).sum(1), rtol=1e-5)


@pytest.mark.parametrize("lowering", ["stablehlo", "tf_ops"])
def test_wide_integers_are_tensors_of_int64(lowering):
  items = as_int64_pair(np.array([2**40 + 1, -5]))
  converted = jax2tf.convert(lambda x: {"items": items, "y": x}, lowering=lowering)
  for found in (converted(X), tf.function(converted, autograph=False)(X)):
    assert found["items"].dtype == tf.int64
    np.testing.assert_array_equal(found["items"], [2**40 + 1, -5])


def test_threads_share_a_function():
  converted = jax2tf.convert(lambda x: jnp.sin(x) * len(x))
  found = {}

  def work(i):
    found[i] = converted(np.ones(i % 3 + 1, np.float32)).numpy()

  threads = [threading.Thread(target=work, args=(i,)) for i in range(12)]
  for thread in threads:
    thread.start()
  for thread in threads:
    thread.join()
  for i, value in found.items():
    np.testing.assert_allclose(value, np.full(i % 3 + 1, np.sin(1) * (i % 3 + 1)), rtol=1e-6)
  assert len(found) == 12


def test_tensors_are_annotated_for_logical_devices():
  @tf.function(autograph=False)
  def function(x):
    return jax2tf.split_to_logical_devices(x, (2, 1)), jax2tf.split_to_logical_devices(x, None)

  assert [op for _, op in names(function.get_concrete_function(X))].count("XlaSharding") == 2


def test_orders_of_derivatives_to_save_are_positive():
  with pytest.raises(ValueError, match="gradient_order=0; expected a positive integer"):
    jax2tf.convert(jnp.sin, gradient_order=0)
