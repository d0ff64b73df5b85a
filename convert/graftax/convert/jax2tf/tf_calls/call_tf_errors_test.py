"""Bad inputs of `call_tf` are typed errors that say what would work."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tensorflow as tf

from graftax.convert import ConversionError, InputError, convert_functional, jax2tf
from graftax.graphdef_ir import GraftaxError
from graftax.ops_jax import StaticInputError

_X = np.float32([0.5, -1.0])


@pytest.mark.parametrize(
  ("make", "message"),
  [
    (lambda: jax2tf.call_tf(3), "got a int, which cannot be called"),
    (lambda: jax2tf.call_tf(jnp.sin), r"sin.* is a JAX function already; call it directly.*such as tf.sin"),
    (lambda: jax2tf.call_tf(jax.jit(lambda x: x)), "is a JAX function already"),
    (lambda: jax2tf.call_tf(convert_functional(tf.sin, _X)), "is a JAX function already"),
    (lambda: jax2tf.call_tf(tf.sin, variables="implicit"), "variables='implicit'; expected None or 'explicit'"),
    (lambda: jax2tf.call_tf(tf.sin, output_shape_dtype=(2, 3)), "output_shape_dtype has the leaf 2"),
    (lambda: jax2tf.call_tf(tf.sin)("text"), r"argument .* is 'text', a str; expected an array or a number"),
    (lambda: jax2tf.call_tf(tf.sin)(np.array(["a"])), "dtype <U1, which JAX does not have"),
    (lambda: jax2tf.call_tf(tf.sin)({"a": object()}), "a object; expected an array"),
    (lambda: jax2tf.call_tf(tf.sin)(jax.random.key(0)), r"is a PRNG key.*jax.random.key_data"),
    (lambda: jax2tf.call_tf(tf.sin)(tf.constant("text")), "which JAX does not have"),
  ],
)
def test_bad_arguments(make, message):
  with pytest.raises(GraftaxError, match=message):
    make()


@pytest.mark.parametrize("run", [lambda f: f, jax.jit], ids=["eager", "jit"])
@pytest.mark.parametrize(
  ("function", "message"),
  [
    (lambda x: tf.strings.as_string(x), "result 0 has dtype string, which JAX does not have"),
    (lambda x: {"a": x, "b": object()}, "result 1 is <object .*, a object, which is not a tensor"),
    (lambda x: tf.sparse.from_dense(x), "is a SparseTensor, which JAX does not have; return its indices and values"),
    (lambda x: tf.RaggedTensor.from_row_lengths(x, [1, 1]), "is a RaggedTensor.*return its flat_values"),
  ],
)
def test_bad_results(run, function, message):
  with pytest.raises(ConversionError, match=message):
    run(jax2tf.call_tf(function))(_X)


@pytest.mark.parametrize("run", [lambda f: f, jax.jit], ids=["eager", "jit"])
@pytest.mark.parametrize(
  ("declared", "message"),
  [
    (jax.ShapeDtypeStruct((3,), np.float32), r"result 0 is float32\[2\], but output_shape_dtype declares float32\[3\]"),
    (jax.ShapeDtypeStruct((2,), np.int32), r"declares int32\[2\]"),
    ([jax.ShapeDtypeStruct((2,), np.float32)], r"has the structure PyTreeDef\(\[\*\]\), but the function returns"),
    (None, "Leave output_shape_dtype out"),
  ],
)
def test_results_that_differ_from_their_declaration(run, declared, message):
  with pytest.raises(InputError, match=message):
    run(jax2tf.call_tf(tf.sin, output_shape_dtype=declared))(_X)


def test_results_that_equal_their_declaration():
  f = jax2tf.call_tf(lambda x: {"a": x}, output_shape_dtype={"a": jax.ShapeDtypeStruct((2,), np.float64)})
  for run in (f, jax.jit(f)):
    np.testing.assert_array_equal(run(_X)["a"], _X)


def test_a_tensor_of_a_graph_is_an_error():
  @tf.function(autograph=False)
  def f(x):
    return jax2tf.call_tf(tf.sin)(x)

  with pytest.raises(InputError, match=r"a tensor of a tf.function that is being traced.*jax2tf.convert"):
    f(_X)


def test_a_size_that_depends_on_data_is_bounded_by_the_shapes_of_arguments():
  f = jax2tf.call_tf(lambda x: tf.boolean_mask(x, x > 0))
  np.testing.assert_array_equal(f(_X), [0.5])
  np.testing.assert_array_equal(jax.jit(f)(_X).cut(), [0.5])


def test_a_size_without_a_bound_is_an_error_that_says_what_to_pass():
  f = jax2tf.call_tf(lambda x: tf.range(tf.cast(x[0], tf.int32)))
  assert f(_X + 5).shape == (5 + int(_X[0]),)
  with pytest.raises(StaticInputError, match=r"(?s)call_tf: .*Range.*tf.where\(mask, x, 0.0\)"):
    jax.jit(f)(_X)


def test_work_for_the_host_is_refused_inside_of_transformations():
  f = jax2tf.call_tf(lambda x: tf.numpy_function(np.sin, [x], tf.float32))
  np.testing.assert_allclose(f(_X), np.sin(_X), rtol=1e-6)
  with pytest.raises(GraftaxError, match="PyFunc"):
    jax.jit(f)(_X)


def test_tables_that_can_change_are_refused_inside_of_transformations():
  mutable = tf.lookup.experimental.MutableHashTable(tf.int32, tf.float32, 0.0)
  mutable.insert(tf.constant([1]), tf.constant([5.0]))
  static = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer([1, 2], [5.0, 6.0], tf.int32), 0.0)
  keys = np.int32([2, 1])
  np.testing.assert_array_equal(jax2tf.call_tf(mutable.lookup)(keys), [0, 5])
  np.testing.assert_array_equal(jax.jit(jax2tf.call_tf(static.lookup))(keys), [6, 5])
  with pytest.raises(ConversionError, match=r"whose contents can change.*StaticHashTable"):
    jax.jit(jax2tf.call_tf(mutable.lookup))(keys)
  assert int(mutable.size()) == 1


def test_export_of_a_variable_read_is_refused_and_explicit_variables_are_exported():
  v = tf.Variable(2.0, name="v")
  inner = jax2tf.call_tf(lambda x: x * v)
  for g in (inner, jax.grad(lambda x: inner(x).sum()), lambda x: jax.lax.map(inner, x)):
    with pytest.raises(ConversionError, match=r"(?s)\['v'\].*variables='explicit'.*jax.export.export\(jax.jit\(f\)\)"):
      jax.export.export(jax.jit(g))(_X)
  f = jax2tf.call_tf(lambda x: x * v, variables="explicit")
  exported = jax.export.export(jax.jit(f))(f.variables(_X), _X)
  np.testing.assert_array_equal(exported.call(f.variables(_X), _X)[0], 2 * _X)


def test_errors_of_the_function_are_its_own():
  def f(x):
    raise KeyError("mine")

  for run in (jax2tf.call_tf(f), jax.jit(jax2tf.call_tf(f))):
    with pytest.raises(KeyError, match="mine"):
      run(_X)


def test_reading_values_inside_of_transformations_is_an_error_with_a_note():
  f = jax2tf.call_tf(lambda x: tf.constant(np.sin(x.numpy())))
  np.testing.assert_allclose(f(_X), np.sin(_X), rtol=1e-6)
  with pytest.raises(AttributeError, match="numpy") as caught:
    jax.jit(f)(_X)
  assert any("eager calls have them" in note for note in caught.value.__notes__)


def test_a_program_without_tensorflow_cannot_capture_variables():
  from graftax.convert import jax_program

  v = tf.Variable(2.0, name="v")
  with pytest.raises(ConversionError, match=r"reads the TensorFlow variables \['v'\].*variables='explicit'"):
    jax_program(jax2tf.call_tf(lambda x: x * v), [jnp.asarray(_X)])
