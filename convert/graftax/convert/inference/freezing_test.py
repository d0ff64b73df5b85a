"""`freeze` against TensorFlow: what is folded, what must not be, values and derivatives; and on programs by hand."""

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import checkify

from graftax.convert import (
  ConversionError,
  ConvertOptions,
  ParameterError,
  convert,
  convert_program,
  freeze,
  jit_for_inference,
)
from graftax.convert.inference.onednn import has_onednn
from graftax.graphdef_ir import DType, FunctionRef, LimitExceededError, Limits
from graftax.testing.graph_builders import const, function, node, program

_RNG = np.random.default_rng(0)


def _normal(*shape):
  return _RNG.normal(size=shape).astype(np.float32)


class _Normalization:
  """Batch normalization as Keras 3 writes it, or as one op."""

  def __init__(self, tf, channels, name, *, fused=False):
    self._tf, self._fused = tf, fused
    values = _RNG.uniform(0.5, 1.5, (4, channels)).astype(np.float32)
    self._variables = [tf.Variable(v, name=f"{name}/{i}") for i, v in enumerate(values)]

  def __call__(self, x):
    gamma, beta, mean, variance = self._variables
    if self._fused:
      return self._tf.compat.v1.nn.fused_batch_norm(x, gamma, beta, mean, variance, 1e-3, is_training=False)[0]
    factor = self._tf.math.rsqrt(variance + 1e-3) * gamma
    return x * factor + (beta - mean * factor)


def _variables(tf, **shapes):
  return {name: tf.Variable(_normal(*shape), name=name) for name, shape in shapes.items()}


def _models(tf):
  """Returns name -> (function, variables that it must keep alive, shape of x, number of folded filters, parameters)."""
  found = {}

  def add(name, shape, folded, parameters):
    return lambda fn: found.setdefault(name, (fn, shape, folded, parameters))

  w = _variables(
    tf, k=(3, 3, 4, 6), b=(6,), d=(3, 2, 4, 2), one=(1, 1, 4, 4), dense=(4, 5), t=(2, 2, 6, 4), line=(3, 4, 6)
  )
  image = (2, 6, 5, 4)
  bn6, other6 = _Normalization(tf, 6, "bn6"), _Normalization(tf, 6, "other6")
  fused6, bn8, bn5 = (
    _Normalization(tf, 6, "fused6", fused=True),
    _Normalization(tf, 8, "bn8"),
    _Normalization(tf, 5, "bn5"),
  )
  bn4, fused4 = _Normalization(tf, 4, "bn4"), _Normalization(tf, 4, "fused4", fused=True)

  def conv(x, kernel=None, **options):
    return tf.nn.conv2d(x, w["k"] if kernel is None else kernel, 1, "SAME", **options)

  add("convolution_then_normalization", image, 1, {"filter": 1, "shift": 1})(lambda x: tf.nn.relu(bn6(conv(x))))
  add("custom_gradient_after", image, 1, {"filter": 1, "shift": 1})(lambda x: tf.nn.silu(bn6(conv(x))))
  add("bias_between", image, 1, {"filter": 1, "shift": 1})(lambda x: bn6(conv(x) + w["b"]))
  add("bias_op_and_one_op", image, 1, {"filter": 1, "shift": 1})(lambda x: fused6(tf.nn.bias_add(conv(x), w["b"])))
  add("normalization_twice", image, 1, {"filter": 1, "shift": 1})(lambda x: fused6(bn6(conv(x))))
  add("normalization_before_is_not_folded", image, 0, {"value": 2, "k": 1})(lambda x: conv(bn4(x)))
  add("one_op_before_is_not_folded", image, 0, {"fused4/0": 1, "fused4/1": 1, "fused4/2": 1, "fused4/3": 1, "k": 1})(
    lambda x: conv(fused4(x))
  )
  add("depthwise", image, 1, {"filter": 1, "shift": 1})(
    lambda x: bn8(tf.nn.depthwise_conv2d(x, w["d"], (1, 2, 2, 1), "SAME"))
  )
  add("dense", (3, 4), 1, {"filter": 1, "shift": 1})(lambda x: bn5(x @ w["dense"]))
  add("dense_transposed", (3, 5), 1, {"filter": 1, "shift": 1})(
    lambda x: bn4(tf.matmul(x, w["dense"], transpose_b=True))
  )
  add("transposed_convolution", image, 1, {"filter": 1, "shift": 1})(
    lambda x: bn6(tf.nn.conv2d_transpose(x, w["t"], (2, 12, 10, 6), 2, "SAME"))
  )
  add("line", (2, 7, 4), 1, {"filter": 1, "shift": 1})(lambda x: bn6(tf.nn.conv1d(x, w["line"], 1, "SAME") + w["b"]))
  add("shared_filter_two_normalizations", image, 2, {"filter": 2, "shift": 2})(
    lambda x: bn6(conv(x)) - other6(conv(2 * x))
  )
  add("shared_layer", image, 2, {"filter": 1, "shift": 2})(lambda x: bn6(conv(x)) - bn6(conv(2 * x)))
  add("two_readers_are_not_folded", image, 0, {"k": 1, "value": 2})(lambda x: bn6(y := conv(x)) + y)
  add("two_normalizations_of_one_result_are_not_folded", image, 0, {"k": 1, "value": 4})(
    lambda x: bn6(y := conv(x)) - other6(y)
  )
  add("residual_with_a_normalization_in_each_branch", image, 2, {"filter": 2, "shift": 2})(
    lambda x: tf.nn.relu(bn4(tf.nn.conv2d(x, w["one"], 1, "SAME")) + bn4(tf.nn.conv2d(2 * x, w["one"] + 1, 1, "SAME")))
  )
  add("residual_before_the_normalization_is_not_folded", image, 0, {"one": 1, "value": 2})(
    lambda x: bn4(tf.nn.conv2d(x, w["one"], 1, "SAME") + x)
  )

  def with_statistics_of_the_batch(x):
    y = conv(x)
    mean, variance = tf.nn.moments(y, [0, 1, 2])
    return tf.nn.batch_normalization(y, mean, variance, w["b"], w["b"], 1e-3)

  add("statistics_of_the_batch_are_not_folded", image, 0, {"k": 1, "b": 1})(with_statistics_of_the_batch)
  add("a_scale_per_pixel_is_not_folded", image, 0, {"k": 1})(lambda x: conv(x) * tf.range(5.0)[:, None])
  add("division_negation_and_difference", image, 1, {"filter": 1, "shift": 1})(lambda x: w["b"] - (-conv(x) / w["b"]))
  add("filter_made_of_parameters", image, 0, {"value": 1})(
    lambda x: conv(x, w["k"] / tf.sqrt(tf.reduce_sum(w["k"] ** 2, [0, 1, 2])))
  )
  add("transposes_that_cancel", image, 0, {})(lambda x: tf.transpose(tf.transpose(x, (3, 0, 1, 2)), (1, 2, 3, 0)))
  return found, (w, bn6, other6, fused6, bn8, bn5, bn4, fused4)


def _loss(fn, params):
  return lambda x: jnp.sum(jnp.sin(fn(params, x)[0]))


@pytest.mark.tensorflow
def test_frozen_programs_equal_tensorflow():
  import tensorflow as tf

  models, _alive = _models(tf)
  for name, (model, shape, folded, parameters) in models.items():
    x = _normal(*shape)
    tf_fn = tf.function(model)
    fn, params = convert(tf_fn, tf.TensorSpec((None, *shape[1:]) if name != "transposed_convolution" else shape))
    frozen, new_params, report = freeze(fn, params)
    expected = model(x).numpy()
    tolerance = 1e-5 * np.abs(expected).max()
    for call in (frozen, jax.jit(frozen)):
      got, after = call(new_params, x)
      np.testing.assert_allclose(got, expected, rtol=1e-5, atol=tolerance, err_msg=name)
      assert after.keys() == new_params.keys()
    assert report.folded == folded, name
    assert len(new_params) == sum(parameters.values()), (name, list(new_params))
    for part, number in parameters.items():
      assert sum(part in key.split("/") or part == key for key in new_params) == number, (name, list(new_params))
    assert all(new_params[key] is params[key] for key in new_params if key in params), name
    assert report.bytes_after == sum(value.nbytes for value in new_params.values())

    derivative, original = (jax.jit(jax.grad(_loss(f, p)))(x) for f, p in ((frozen, new_params), (fn, params)))
    # The slope of a sine is off by as much as its argument.
    slope = 1e-6 * max(1.0, np.abs(expected).max())
    np.testing.assert_allclose(derivative, original, rtol=0, atol=slope * np.abs(original).max(), err_msg=name)
    mapped = jax.vmap(lambda x: frozen(new_params, x)[0])(np.stack([x, 2 * x]))  # noqa: B023
    np.testing.assert_allclose(mapped[0], expected, rtol=1e-5, atol=tolerance, err_msg=name)
    assert (report.transposes == 1) == (name == "transposes_that_cancel")
    predict = jit_for_inference(fn, params)
    np.testing.assert_allclose(predict(x), expected, rtol=1e-5, atol=tolerance, err_msg=name)
    found = jax.grad(lambda x: jnp.sum(jnp.sin(predict(x))))(x)  # noqa: B023
    np.testing.assert_allclose(found, original, rtol=0, atol=slope * np.abs(original).max(), err_msg=name)


@pytest.mark.tensorflow
@pytest.mark.skipif(not has_onednn(), reason="this jaxlib has no oneDNN for this processor")
@pytest.mark.parametrize(
  ("activation", "keeps"), [("relu", False), ("relu6", False), ("gelu", True), ("sigmoid", True)]
)
def test_activations_after_a_convolution_treat_nan_as_tensorflow_does(activation, keeps):
  import tensorflow as tf

  kernel, bias = tf.Variable(_normal(3, 3, 4, 16)), tf.Variable(_normal(16))
  function = getattr(tf.nn, activation)
  model = tf.function(lambda x: function(tf.nn.bias_add(tf.nn.conv2d(x, kernel, 1, "SAME"), bias)))
  x = _normal(2, 8, 8, 4)
  x[0, 2, 2, 1] = np.nan
  predict = jit_for_inference(*convert(model, tf.TensorSpec((None, 8, 8, 4))))
  expected = model(x).numpy()
  assert np.isnan(expected).any() == keeps
  np.testing.assert_allclose(predict(x), expected, rtol=1e-5, atol=1e-5)


_F = {"T": DType.FLOAT}
_READ = {"dtype": DType.FLOAT}


def _conditional(predicate):
  """Returns `x * v if predicate else x + w`, where `predicate` is the node of that name."""
  branches = [
    function(
      "then", ["x", "*v", "*w"], [node("r", "ReadVariableOp", "v", **_READ), node("y", "Mul", "x", "r", **_F)], ["y"]
    ),
    function(
      "else", ["x", "*v", "*w"], [node("r", "ReadVariableOp", "w", **_READ), node("y", "Add", "x", "r", **_F)], ["y"]
    ),
  ]
  types = {"Tin": (DType.FLOAT, DType.RESOURCE, DType.RESOURCE), "Tout": (DType.FLOAT,)}
  choice = node(
    "choice", "If", predicate[-1].name, "x", "v", "w", then_branch=FunctionRef("then"), else_branch=FunctionRef("else"),
    Tcond=DType.BOOL, **types,
  )  # fmt: skip
  return program(function("f", ["x", "*v", "*w"], [*predicate, choice], ["choice"]), branches, {"v": 3.0, "w": 4.0})


@pytest.mark.parametrize(("value", "kept", "expected"), [(True, "v", 6.0), (False, "w", 6.0)])
def test_of_a_decided_conditional_one_branch_is_left(value, kept, expected):
  fn, params = convert_program(_conditional([const("p", value)]))
  frozen, new_params, report = freeze(fn, params)
  assert frozen(new_params, np.float32(2.0))[0] == (expected,)
  assert list(new_params) == [kept]
  assert report.branches == 1


def test_a_conditional_on_an_input_stays():
  greater = [const("zero", np.float32(0)), node("p", "Greater", "x", "zero", **_F)]
  fn, params = convert_program(_conditional(greater))
  frozen, new_params, report = freeze(fn, params)
  assert set(new_params) == {"v", "w"} and report.branches == 0
  assert frozen(new_params, np.float32(2.0))[0] == (6.0,)
  assert frozen(new_params, np.float32(-2.0))[0] == (2.0,)


def test_a_variable_that_is_written_stays_a_parameter():
  nodes = [
    node("read", "ReadVariableOp", "v", **_READ),
    node("square", "Mul", "read", "read", **_F),
    node("y", "Mul", "square", "x", **_F),
    const("one", np.float32(1)),
    node("count", "AssignAddVariableOp", "v", "one", control=("y",), **_READ),
  ]
  fn, params = convert_program(program(function("f", ["x", "*v"], nodes, ["y"], ["count"]), (), {"v": 3.0}))
  frozen, new_params, report = freeze(fn, params)
  assert report.precomputed == 0
  results, after = frozen(new_params, np.float32(2.0))
  assert results == (18.0,) and after["v"] == 4.0
  assert frozen(after, np.float32(2.0))[0] == (32.0,)


def test_integers_of_parameters_become_known_sizes():
  nodes = [
    node("read", "ReadVariableOp", "v", **_READ),
    node("sizes", "Cast", "read", SrcT=DType.FLOAT, DstT=DType.INT32),
    const("axis", np.int32(0)),
    node("shape", "ExpandDims", "sizes", "axis", T=DType.INT32, Tdim=DType.INT32),
    node("y", "Fill", "shape", "x", T=DType.FLOAT, index_type=DType.INT32),
  ]
  fn, params = convert_program(program(function("f", ["x", "*v"], nodes, ["y"]), (), {"v": 3.0}))
  frozen, new_params, _ = freeze(fn, params)
  assert new_params == {}
  np.testing.assert_array_equal(jax.jit(frozen)(new_params, np.float32(2.0))[0][0], [2, 2, 2])


def test_a_function_without_parameters_and_other_names_raise():
  graph = program(function("f", ["x", "*v"], [node("r", "ReadVariableOp", "v", **_READ)], ["r"]), (), {"v": 3.0})
  fn, params = convert_program(graph)
  with pytest.raises(ConversionError, match="expected a function with parameters"):
    freeze(lambda params, x: x, params)
  with pytest.raises(ConversionError, match="got <PjitFunction.* Compile afterwards"):
    freeze(jax.jit(fn), params)
  with pytest.raises(ParameterError, match="'v'"):
    freeze(fn, {"w": 1.0})


def test_asserts_that_count_stay():
  nodes = [
    node("read", "ReadVariableOp", "v", **_READ),
    node("p", "Greater", "x", "read", **_F),
    node("assert", "Assert", "p", "x", T=(DType.FLOAT,)),
    node("y", "Neg", "x", control=("assert",), **_F),
  ]
  graph = program(function("f", ["x", "*v"], nodes, ["y"], ["assert"]), (), {"v": 3.0})
  for counts in (False, True):
    fn, params = convert_program(graph, ConvertOptions(enable_checkify_for_asserts=counts))
    frozen, new_params, _ = freeze(fn, params)
    assert list(new_params) == (["v"] if counts else [])
    error, (results, _) = checkify.checkify(frozen)(new_params, np.float32(2.0))
    assert results == (-2.0,) and (error.get() is not None) == counts


def test_frozen_functions_can_be_pickled():
  fn, params = convert_program(_conditional([const("p", True)]))
  frozen, new_params, _ = freeze(fn, params)
  assert pickle.loads(pickle.dumps(frozen))(new_params, np.float32(2.0))[0] == (6.0,)


def test_products_of_parameters_are_computed_as_a_whole():
  nodes = [
    node("a", "ReadVariableOp", "v", **_READ),
    node("b", "ReadVariableOp", "w", **_READ),
    node("product", "MatMul", "a", "b", **_F),
    const("factor", np.float32(3)),
    node("scaled", "Mul", "product", "factor", **_F),
    node("y", "MatMul", "x", "scaled", **_F),
  ]
  v, w, x = _normal(2, 3), _normal(3, 2), _normal(4, 2)
  fn, params = convert_program(program(function("f", ["x", "*v", "*w"], nodes, ["y"]), (), {"v": v, "w": w}))
  frozen, new_params, report = freeze(fn, params)
  assert list(new_params) == ["scaled/value"] and (report.folded, report.precomputed) == (0, 1)
  np.testing.assert_allclose(frozen(new_params, x)[0][0], x @ (3 * v @ w), rtol=1e-5)


def test_sizes_that_do_not_fit_end_a_chain():
  nodes = [
    node("read", "ReadVariableOp", "v", **_READ),
    node("product", "MatMul", "x", "read", **_F),
    const("two", np.float32([1, 2])),
    node("scaled", "Mul", "product", "two", **_F),
    const("three", np.float32([1, 2, 3])),
    node("no_one_reads_this", "Mul", "scaled", "three", **_F),
    node("y", "Add", "x", "read", **_F),
  ]
  fn, params = convert_program(
    program(function("f", ["x", "*v"], nodes, ["y"]), (), {"v": np.eye(2, dtype=np.float32)})
  )
  frozen, new_params, _ = freeze(fn, params)
  np.testing.assert_array_equal(frozen(new_params, np.float32([[1, 2], [3, 4]]))[0][0], [[2, 2], [3, 5]])


@pytest.mark.parametrize("order", [[0, 5], [-1, 0]])
def test_transposes_whose_order_is_not_a_permutation_stay(order):
  kinds = {"T": DType.FLOAT, "Tperm": DType.INT32}
  nodes = [
    node("read", "ReadVariableOp", "v", **_READ),
    const("first", np.int32([1, 0])),
    const("second", np.int32(order)),
    node("inner", "Transpose", "x", "first", **kinds),
    node("outer", "Transpose", "inner", "second", **kinds),
    node("y", "Mul", "outer", "read", **_F),
  ]
  fn, params = convert_program(program(function("f", ["x", "*v"], nodes, ["y"]), (), {"v": 3.0}))
  assert freeze(fn, params).report.transposes == 0


def test_decided_branches_that_multiply_are_limited():
  types = {"Tcond": DType.BOOL, "Tin": (DType.FLOAT,), "Tout": (DType.FLOAT,)}

  def twice(name, called):
    branches = {"then_branch": FunctionRef(called), "else_branch": FunctionRef(called)}
    choices = [node(choice, "If", "p", "x", **branches, **types) for choice in ("a", "b")]
    return function(name, ["x"], [const("p", True), *choices, node("y", "Add", "a", "b", **_F)], ["y"])

  library = [twice(f"f{i}", f"f{i + 1}") for i in range(30)]
  library.append(function("f30", ["x"], [node("y", "Neg", "x", **_F)], ["y"]))
  nodes = [
    node("read", "ReadVariableOp", "v", **_READ),
    node("scaled", "Mul", "x", "read", **_F),
    const("p", True),
    node("y", "If", "p", "scaled", then_branch=FunctionRef("f0"), else_branch=FunctionRef("f0"), **types),
  ]
  graph = program(function("f", ["x", "*v"], nodes, ["y"]), library, {"v": 3.0})
  fn, params = convert_program(graph, ConvertOptions(limits=Limits(steps=500, steps_per_node=0)))
  with pytest.raises(LimitExceededError, match="branches that multiply.* the limit steps is 500"):
    freeze(fn, params)


def test_known_values_have_the_limits_of_a_call():
  nodes = [
    node("read", "ReadVariableOp", "v", **_READ),
    node("square", "Mul", "read", "read", **_F),
    node("y", "Mul", "square", "x", **_F),
  ]
  graph = program(function("f", ["x", "*v"], nodes, ["y"]), (), {"v": np.zeros(1 << 21, np.float32)})
  for ratio, match in (
    (2, None),
    (0, "needs 8388608 bytes for an array of shape .2097152.; the limit array_bytes is 100"),
  ):
    limits = Limits(array_bytes=100, known_bytes=100, array_ratio=ratio)
    fn, params = convert_program(graph, ConvertOptions(limits=limits))
    if match is None:
      assert freeze(fn, params).report.precomputed == 1
    else:
      with pytest.raises(LimitExceededError, match=match):
        freeze(fn, params)


def test_the_longest_part_of_a_chain_with_finite_numbers_is_folded():
  nodes = [
    node("read", "ReadVariableOp", "v", **_READ),
    node("product", "MatMul", "x", "read", **_F),
    const("two", np.float32(2)),
    node("a", "Mul", "product", "two", **_F),
    const("zero", np.float32(0)),
    node("b", "RealDiv", "a", "zero", **_F),
    node("y", "Mul", "b", "two", **_F),
  ]
  v, x = _normal(2, 2), np.float32([[1, 2]])
  fn, params = convert_program(program(function("f", ["x", "*v"], nodes, ["y"]), (), {"v": v}))
  frozen, new_params, report = freeze(fn, params)
  assert report.folded == 1
  np.testing.assert_array_equal(new_params["product/filter"], 2 * v)
  np.testing.assert_array_equal(frozen(new_params, x)[0][0], fn(params, x)[0][0])


def test_nodes_that_nothing_needs_are_not_computed_and_read_nothing():
  nodes = [
    node("read", "ReadVariableOp", "v", **_READ),
    node("product", "MatMul", "x", "read", **_F),
    const("two", np.float32(2)),
    node("y", "Mul", "product", "two", **_F),
    node("a_second_reader", "Neg", "product", **_F),
    const("three", np.ones(3, np.float32)),
    const("four", np.ones(4, np.float32)),
    node("does_not_fit", "AddV2", "three", "four", **_F),
    node("unused", "MatMul", "x", "does_not_fit", **_F),
    node("scaled", "Mul", "unused", "two", **_F),
  ]
  v, x = _normal(2, 2), _normal(3, 2)
  fn, params = convert_program(program(function("f", ["x", "*v"], nodes, ["y"]), (), {"v": v}))
  frozen, new_params, report = freeze(fn, params)
  assert report.folded == 1
  np.testing.assert_allclose(frozen(new_params, x)[0][0], 2 * x @ v, rtol=1e-5)
