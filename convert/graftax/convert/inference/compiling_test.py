"""`jit_for_inference` against the function that it compiles, and what it asks of XLA."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from graftax.convert import VariableWriteError, convert_program, jit_for_inference
from graftax.convert.inference import compiling, onednn
from graftax.convert.jaxprs import nested_equations
from graftax.graphdef_ir import DType
from graftax.testing.graph_builders import const, function, node, program
from graftax.xla_call_module import ArgumentError

_RNG = np.random.default_rng(0)
_F = {"T": DType.FLOAT}
_READ = {"dtype": DType.FLOAT}
_WINDOW = {"strides": (1, 1, 1, 1), "padding": b"SAME", "data_format": b"NHWC"}

needs_onednn = pytest.mark.skipif(not onednn.has_onednn(), reason="this jaxlib has no oneDNN for this processor")


@pytest.fixture(autouse=True)
def same_numbers_for_each_test(monkeypatch):
  monkeypatch.setitem(globals(), "_RNG", np.random.default_rng(0))


def _normal(*shape):
  return _RNG.normal(size=shape).astype(np.float32)


def _read(name):
  return node(f"{name}/read", "ReadVariableOp", name, **_READ)


def _network():
  """Returns the program of a dense, a depthwise, a dilated, a grouped and a 1x1 convolution, and a softmax."""
  variables = {
    "dense": _normal(3, 3, 4, 16),
    "bias": _normal(16),
    "depthwise": _normal(3, 3, 16, 1),
    "dilated": _normal(3, 3, 16, 32) / 9,
    "grouped": _normal(3, 3, 16, 32) / 9,
    "pixel": _normal(1, 1, 32, 8),
  }
  nodes = [
    *map(_read, variables),
    node("c1", "Conv2D", "x", "dense/read", **_F, **_WINDOW),
    node("b1", "BiasAdd", "c1", "bias/read", **_F),
    node("a1", "Relu", "b1", **_F),
    node("c2", "DepthwiseConv2dNative", "a1", "depthwise/read", **_F, **_WINDOW),
    node("a2", "Relu6", "c2", **_F),
    node("c3", "Conv2D", "a2", "dilated/read", **_F, **_WINDOW, dilations=(1, 2, 3, 1)),
    node("c4", "Conv2D", "c3", "grouped/read", **_F, **_WINDOW),
    node("a4", "Elu", "c4", **_F),
    node("c5", "Conv2D", "a4", "pixel/read", **_F, **_WINDOW),
    const("axes", np.int32([1, 2])),
    node("mean", "Mean", "c5", "axes", T=DType.FLOAT, Tidx=DType.INT32),
    node("y", "Softmax", "mean", **_F),
  ]
  handles = [f"*{name}" for name in variables]
  return convert_program(program(function("f", ["x", *handles], nodes, ["y"]), (), variables))


@pytest.fixture
def programs(monkeypatch):
  """Returns a list of the programs for which options of XLA are asked."""
  found = []
  known = onednn.onednn_options
  monkeypatch.setattr(compiling.onednn, "onednn_options", lambda program: found.append(program) or known(program))
  return found


def _convolutions(jaxpr):
  return [equation for equation, _ in nested_equations(jaxpr) if equation.primitive.name == "conv_general_dilated"]


def _conv_groups(jaxpr):
  return [equation.params["feature_group_count"] for equation in _convolutions(jaxpr)]


@needs_onednn
def test_parameters_are_constants_and_convolutions_are_those_of_xla(programs):
  fn, params = _network()
  predict = jit_for_inference(fn, params)
  for batch in (1, 3):
    x = _normal(batch, 9, 7, 4)
    (expected,), _ = jax.jit(fn)(params, x)
    np.testing.assert_allclose(predict(x)[0], expected, rtol=2e-5, atol=1e-6)
  (only,) = programs  # the options for one batch are those for the others
  assert [aval.shape for aval in only.in_avals] == [(1, 9, 7, 4)]
  assert _conv_groups(only.jaxpr) == [1, 16, 1, 2]  # the last one is small, and a product
  # Otherwise depthwise convolutions are written out for CPUs.
  assert len(_conv_groups(jax.make_jaxpr(fn)(params, _normal(1, 9, 7, 4)).jaxpr)) > 5
  compiled = jax.jit(jax.extend.core.jaxpr_as_fun(only)).lower(_normal(1, 9, 7, 4))
  with onednn.without_compilation_cache():
    text = compiled.compile(onednn.onednn_options(only)).as_text()
  assert text.count('"weights_prepacked":true') >= 3


def _dense(num_in=4, num_out=5):
  nodes = [_read("w"), node("y", "MatMul", "x", "w/read", **_F), node("z", "Relu", "y", **_F)]
  return convert_program(program(function("f", ["x", "*w"], nodes, ["z"]), (), {"w": _normal(num_in, num_out)}))


@needs_onednn
def test_many_parameters_are_arguments(programs, monkeypatch):
  monkeypatch.setattr(compiling, "_MOST_BYTES", 0)
  fn, params = _dense()
  x = _normal(64, 4)
  # One value near 0 differs by 7e-8 with JAX 0.11.
  np.testing.assert_allclose(jit_for_inference(fn, params)(x)[0], fn(params, x)[0][0], rtol=1e-5, atol=1e-6)
  (only,) = programs
  assert [aval.shape for aval in only.in_avals] == [(4, 5), (64, 4)]


@needs_onednn
def test_depthwise_convolutions_in_another_form_are_compiled_without_onednn(programs, monkeypatch):
  monkeypatch.setattr(compiling, "_MOST_BYTES", 0)
  fn, params = _network()
  x = _normal(2, 9, 7, 4)
  (expected,), _ = jax.jit(fn)(params, x)
  np.testing.assert_allclose(jit_for_inference(fn, params)(x)[0], expected, rtol=2e-5, atol=1e-6)
  assert not programs


def test_without_onednn_programs_are_kept_in_the_compilation_cache(monkeypatch):
  monkeypatch.setattr(compiling.onednn, "has_onednn", lambda: False)
  monkeypatch.setattr(compiling.onednn, "without_compilation_cache", lambda: 1 / 0)
  fn, params = _dense()
  x = _normal(3, 4)
  np.testing.assert_allclose(jit_for_inference(fn, params)(x)[0], fn(params, x)[0][0], rtol=1e-5)


@needs_onednn
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_products_in_a_narrow_dtype(programs, dtype):
  fn, params = _network()
  predict = jit_for_inference(fn, params, compute_dtype=dtype)
  x = _normal(2, 9, 7, 4)
  (expected,), _ = jax.jit(fn)(params, x)
  (found,) = predict(x)
  assert found.dtype == np.float32
  # Measured: 2.3e-4 in bfloat16, 1.1e-4 in float16.
  np.testing.assert_allclose(found, expected, rtol=0, atol=1e-3)
  assert {str(e.outvars[0].aval.dtype) for e in _convolutions(programs[0].jaxpr)} == {dtype}
  with pytest.raises(ArgumentError, match="dtype=int8; expected one of"):
    jit_for_inference(fn, params, compute_dtype="int8")


def test_it_can_be_transformed_and_called_within_another_jit(programs):
  fn, params = _network()
  predict = jit_for_inference(fn, params)
  x = _normal(2, 9, 7, 4)

  def loss(call):
    return lambda x: jnp.square(call(x)).sum()

  expected = jax.jit(jax.grad(loss(lambda x: fn(params, x)[0][0])))(x)
  for transformed in (jax.grad, lambda f: jax.jit(jax.grad(f))):
    found = transformed(loss(lambda x: predict(x)[0]))(x)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6 * np.abs(expected).max())
  rows = jax.vmap(lambda x: predict(x[None])[0][0])(x)
  np.testing.assert_allclose(rows, fn(params, x)[0][0], rtol=2e-5, atol=1e-6)
  assert not programs


def test_a_function_that_assigns_parameters_raises():
  nodes = [
    _read("v"),
    node("y", "Mul", "v/read", "x", **_F),
    const("one", np.float32(1)),
    node("count", "AssignAddVariableOp", "v", "one", control=("y",), **_READ),
  ]
  fn, params = convert_program(program(function("f", ["x", "*v"], nodes, ["y"], ["count"]), (), {"v": 3.0}))
  predict = jit_for_inference(fn, params)
  with pytest.raises(VariableWriteError, match=r"f assigns parameters: \['v'\]\. Use graftax\.convert\.jit"):
    predict(np.float32(2))


@needs_onednn
def test_programs_of_few_rows_do_without_onednn(programs, monkeypatch):
  fn, params = _dense(1024, 512)
  predict = jit_for_inference(fn, params)
  with monkeypatch.context() as context:
    # Such programs can be kept in the cache.
    context.setattr(onednn, "without_compilation_cache", lambda: 1 / 0)
    for batch in (1, 8):
      x = _normal(batch, 1024)
      for _ in range(2):
        np.testing.assert_allclose(predict(x)[0], fn(params, x)[0][0], rtol=1e-4, atol=1e-4)
  assert not programs
  for batch in (64, 65):
    x = _normal(batch, 1024)
    np.testing.assert_allclose(predict(x)[0], fn(params, x)[0][0], rtol=1e-4, atol=1e-4)
  (only,) = programs
  assert [aval.shape for aval in only.in_avals] == [(64, 1024)]
