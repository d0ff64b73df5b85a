"""JAX functions and parameters that we save, loaded, tuned and saved again by TensorFlow."""

import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

from graftax.savedmodel_io import JaxFunction, load, save

_X = jax.ShapeDtypeStruct(jax.export.symbolic_shape("batch, 3"), np.float32)
_SCALAR = jax.ShapeDtypeStruct((), np.float32)


@jax.custom_vjp
def _clipped(x):
  """Has a derivative that differs from what differentiating its value gives."""
  return 2 * x


_clipped.defvjp(lambda x: (2 * x, x), lambda x, cotangent: (jnp.clip(cotangent, -0.5, 0.5) * x,))


def _predict(params, x, *, scale):
  for layer in params["layers"]:
    x = jnp.tanh(x @ layer["kernel"] + layer["bias"])
  return {"y": x * scale, "best": jnp.argmax(x, -1), "more": [x.sum(), (params["step"],)]}


def _nested(params, tree):
  return _clipped(tree["a"]) * params["layers"][0]["bias"].sum() + tree["b"]


def _power(params, x, n):
  return jax.lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] * x), (0, params["layers"][0]["bias"][0]))[1]


def _penalty(params):
  return 0.1 * (params["layers"][0]["kernel"] ** 2).sum()


def _params():
  rng = np.random.default_rng(0)
  layers = [
    {"kernel": rng.normal(size=shape).astype(np.float32), "bias": np.full(shape[1], 0.5, np.float32)}
    for shape in ((3, 4), (4, 2))
  ]
  return {"layers": layers, "step": np.int32(7)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  folder = tmp_path_factory.mktemp("saved") / "model"
  predict = JaxFunction(_predict, [_X], {"scale": _SCALAR})
  pair = {"a": _SCALAR, "b": _SCALAR}
  vectors = {"a": jax.ShapeDtypeStruct((2,), np.float32), "b": _SCALAR}
  functions = {
    "__call__": predict,
    "predict": predict,
    "inner.nested": [(_nested, pair), (_nested, vectors)],
    "power": (_power, _SCALAR, jax.ShapeDtypeStruct((), np.int32)),
    "fixed": JaxFunction(lambda params, x: x * params["step"], [_SCALAR], with_gradient=False),
  }
  save(
    folder,
    functions,
    _params(),
    signatures={"serving_default": "predict", "power": "power"},
    trainable={"layers": [True, False], "step": True},
    regularization_losses=[_penalty],
    forward_mode=True,
  )
  return folder


def _inputs(batch: int) -> np.ndarray:
  return np.random.default_rng(batch).normal(size=(batch, 3)).astype(np.float32)


def test_functions_return_what_jax_returns_for_three_batch_sizes(folder):
  loaded = tf.saved_model.load(str(folder))
  for batch in (1, 4, 7):
    x = _inputs(batch)
    expected = _predict(_params(), x, scale=2.0)
    for called in (loaded, loaded.predict):
      result = called(x, scale=2.0)
      assert isinstance(result["more"][1], tuple)
      tf.nest.map_structure(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6),
        dict(result),
        jax.tree.map(np.asarray, expected),
      )
  pairs = ({"a": 2.0, "b": 3.0}, {"a": np.float32([2, 1]), "b": 3.0})
  for pair in pairs:
    tensors = tf.nest.map_structure(tf.constant, pair)
    np.testing.assert_allclose(loaded.inner.nested(tensors), _nested(_params(), pair), rtol=1e-6)


def test_variables_are_where_tensorflow_and_hub_look_for_them(folder):
  loaded = tf.saved_model.load(str(folder))
  names = ["layers/0/bias", "layers/0/kernel", "layers/1/bias", "layers/1/kernel", "step"]
  assert [v.name for v in loaded.variables] == [f"{name}:0" for name in names]
  assert [v.name for v in loaded.trainable_variables] == ["layers/0/bias:0", "layers/0/kernel:0"]
  assert loaded.params["layers"][1]["kernel"] is loaded.variables[3]
  (loss,) = loaded.regularization_losses
  np.testing.assert_allclose(loss(), _penalty(_params()), rtol=1e-6)
  with tf.GradientTape() as tape:
    total = loss()
  gradient = tape.gradient(total, loaded.variables[1])
  np.testing.assert_allclose(gradient, 0.2 * _params()["layers"][0]["kernel"], rtol=1e-6)


def _loss(params, x):
  return (_predict(params, x, scale=2.0)["y"] ** 2).sum()


def test_gradients_of_first_and_second_order_and_forward_mode_are_those_of_jax(folder):
  loaded, params, x = tf.saved_model.load(str(folder)), _params(), tf.constant(_inputs(4))
  with tf.GradientTape() as outer:
    outer.watch(x)
    with tf.GradientTape() as inner:
      inner.watch(x)
      loss = tf.reduce_sum(loaded(x, scale=2.0)["y"] ** 2)
    first = inner.gradient(loss, [x, *loaded.trainable_variables])
    total = tf.reduce_sum(first[0] ** 2)
  second = outer.gradient(total, [x, *loaded.trainable_variables])

  def squared(params, x):
    return (jax.grad(_loss, 1)(params, x) ** 2).sum()

  for ours, function in ((first, _loss), (second, squared)):
    by_params, by_x = jax.grad(function, (0, 1), allow_int=True)(params, x.numpy())
    layer = by_params["layers"][0]
    for a, b in zip(ours, (by_x, layer["bias"], layer["kernel"]), strict=True):
      np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
  with tf.autodiff.ForwardAccumulator(x, tf.ones_like(x)) as accumulator:
    y = loaded(x, scale=2.0)["y"]
  tangent = jax.jvp(lambda x: _predict(params, x, scale=2.0)["y"], (x.numpy(),), (np.ones_like(x),))[1]
  np.testing.assert_allclose(accumulator.jvp(y), tangent, rtol=1e-4, atol=1e-5)


def test_custom_rules_loops_and_forbidden_gradients_survive(folder):
  loaded = tf.saved_model.load(str(folder))
  a, x = tf.constant(3.0), tf.constant(1.5)
  with tf.GradientTape(persistent=True) as tape:
    tape.watch([a, x])
    nested = loaded.inner.nested({"a": a, "b": tf.constant(1.0)})
    power = loaded.power(x, tf.constant(4))
  np.testing.assert_allclose(tape.gradient(nested, a), 0.5 * 3.0)
  np.testing.assert_allclose(power, 0.5 * 1.5**4)
  np.testing.assert_allclose(tape.gradient(power, x), 0.5 * 4 * 1.5**3, rtol=1e-6)
  with pytest.raises(LookupError, match="Gradient explicitly disabled"), tf.GradientTape() as tape:
    tape.watch(x)
    tape.gradient(loaded.fixed(x), x)


def test_differentiating_more_often_than_was_saved_names_gradient_order(tmp_path):
  save(tmp_path / "m", (jnp.sin, _SCALAR), gradient_order=1)
  f, x = tf.saved_model.load(str(tmp_path / "m")), tf.constant(0.5)

  def gradient():
    with tf.GradientTape() as tape:
      tape.watch(x)
      y = f(x)
    return tape.gradient(y, x)

  np.testing.assert_allclose(gradient(), np.cos(0.5), rtol=1e-6)
  with pytest.raises(LookupError, match="increase_gradient_order"), tf.GradientTape() as tape:
    tape.watch(x)
    tape.gradient(gradient(), x)


def test_tuples_and_empty_parts_of_parameters_are_lists_in_tensorflow(tmp_path):
  save(tmp_path / "m", (lambda params, x: x * params[1]["w"][0], _SCALAR), ((), {"w": (np.float32(2),)}, np.float32(3)))
  params = tf.saved_model.load(str(tmp_path / "m")).params
  assert len(params) == 3 and len(params[0]) == 0
  assert params[1]["w"][0].numpy() == 2 and params[2].numpy() == 3


def test_signatures_run_in_a_session_and_in_the_command_line_tool(folder, tmp_path):
  x, scale = _inputs(5), np.float32(2)
  expected = np.asarray(_predict(_params(), x, scale=scale)["y"])
  result = tf.saved_model.load(str(folder)).signatures["serving_default"](x=x, scale=scale)
  assert set(result) == {"y", "best", "more_0", "more_1_0"}
  np.testing.assert_allclose(result["y"], expected, rtol=1e-5, atol=1e-6)
  with tf.Graph().as_default(), tf.compat.v1.Session() as session:
    signature = tf.compat.v1.saved_model.loader.load(session, ["serve"], str(folder)).signature_def["serving_default"]
    feeds = {signature.inputs["x"].name: x, signature.inputs["scale"].name: scale}
    np.testing.assert_allclose(session.run(signature.outputs["y"].name, feeds), expected, rtol=1e-5, atol=1e-6)
  np.savez(tmp_path / "in.npz", x=x, scale=scale)
  command = [Path(sys.executable).with_name("saved_model_cli"), "run", "--dir", folder, "--tag_set", "serve"]
  command += ["--signature_def", "serving_default", "--outdir", tmp_path]
  command += ["--inputs", f"x={tmp_path}/in.npz[x];scale={tmp_path}/in.npz[scale]"]
  subprocess.run(command, check=True, capture_output=True)
  np.testing.assert_allclose(np.load(tmp_path / "y.npy"), expected, rtol=1e-5, atol=1e-6)


def test_ten_steps_of_training_in_tensorflow_are_those_of_jax_and_are_read_here(folder, tmp_path):
  loaded, params, x = tf.saved_model.load(str(folder)), _params(), _inputs(4)
  trained = [params["layers"][0]["bias"], params["layers"][0]["kernel"]]

  def loss(trained, x):
    bias, kernel = trained
    return _loss({**params, "layers": [{"kernel": kernel, "bias": bias}, params["layers"][1]]}, x)

  for _ in range(10):
    with tf.GradientTape() as tape:
      ours = tf.reduce_sum(loaded(x, scale=2.0)["y"] ** 2)
    for variable, gradient in zip(
      loaded.trainable_variables, tape.gradient(ours, loaded.trainable_variables), strict=True
    ):
      variable.assign_sub(0.01 * gradient)
    trained = jax.tree.map(lambda p, g: p - 0.01 * g, trained, jax.grad(loss)(trained, x))
  options = tf.saved_model.SaveOptions(experimental_custom_gradients=True)
  tf.saved_model.save(loaded, str(tmp_path / "again"), loaded.signatures, options)
  again = load(tmp_path / "again")
  np.testing.assert_allclose(again.variables["layers/0/kernel"], trained[1], rtol=1e-4, atol=1e-5)
  fn, variables = again.convert("serving_default")
  expected = loaded(x, scale=2.0)["y"]
  np.testing.assert_allclose(fn(variables, x=x, scale=2.0)[0]["y"], expected, rtol=1e-5, atol=1e-6)
  reloaded = tf.saved_model.load(str(tmp_path / "again"))
  with tf.GradientTape() as tape:
    tape.watch(tensor := tf.constant(x))
    total = tf.reduce_sum(reloaded(tensor, scale=2.0)["y"] ** 2)
  np.testing.assert_allclose(tape.gradient(total, tensor), jax.grad(loss, 1)(trained, x), rtol=1e-3, atol=1e-4)


def test_a_model_for_an_older_tensorflow_loads_in_this_one(tmp_path):
  function = (lambda params, x: jnp.arcsin(x) * params["w"], _X)
  save(tmp_path / "m", function, {"w": np.float32(2)}, target="tensorflow-2.16")
  x = _inputs(2) / 4
  np.testing.assert_allclose(tf.saved_model.load(str(tmp_path / "m"))(x), 2 * np.arcsin(x), rtol=1e-5)
  library = load(tmp_path / "m").graph.library
  nodes = [node for name in library for node in library[name].nodes if node.op == "XlaCallModule"]
  assert nodes and all(node.attrs["version"] <= 9 for node in nodes)


# TensorFlow: "tf.lite.Interpreter is deprecated", in favour of a package that is not installed here.
@pytest.mark.filterwarnings("ignore:.*tf.lite.Interpreter is deprecated:UserWarning")
def test_tflite_converts_a_saved_model(tmp_path):
  save(tmp_path / "m", (lambda params, x: jnp.tanh(x @ params["w"]), _X), {"w": np.ones((3, 2), np.float32)})
  converter = tf.lite.TFLiteConverter.from_saved_model(str(tmp_path / "m"))
  interpreter = tf.lite.Interpreter(model_content=converter.convert())
  x = _inputs(1)
  expected = np.tanh(x.sum(1, keepdims=True).repeat(2, 1))
  np.testing.assert_allclose(interpreter.get_signature_runner()(x=x)["output_0"], expected, rtol=1e-5)


@pytest.mark.parametrize("dtype", [jnp.bfloat16, np.float16, np.float64, np.complex64, np.int8, np.uint32, np.bool_])
def test_parameters_of_every_kind_of_dtype_come_back_bit_for_bit(tmp_path, dtype):
  with jax.enable_x64(True):
    value = np.random.default_rng(0).integers(0, 2, (2, 3)).astype(dtype)
    save(tmp_path / "m", (lambda params, x: params["w"], _SCALAR), {"w": value})
  loaded = tf.saved_model.load(str(tmp_path / "m"))
  assert loaded(1.0).numpy().tobytes() == value.tobytes() == loaded.params["w"].numpy().tobytes()


@pytest.mark.parametrize("lowering", ["stablehlo", "tf_ops"])
def test_a_large_constant_is_stored_once_and_tensorflow_differentiates_twice(tmp_path, lowering):
  large = np.random.default_rng(0).normal(size=(600, 600)).astype(np.float32) / 25

  def function(params, x):
    return jnp.sin(x @ jnp.asarray(large) * params["scale"])

  params = {"scale": np.float32(0.5)}
  x = np.linspace(-1, 1, 1200, dtype=np.float32).reshape(2, 600)
  save(tmp_path / "model", (function, jax.ShapeDtypeStruct(x.shape, x.dtype)), params, lowering=lowering)
  assert large.nbytes < (tmp_path / "model" / "saved_model.pb").stat().st_size < 1.2 * large.nbytes
  loaded = tf.saved_model.load(tmp_path / "model")

  def first(x):
    return jax.grad(lambda x: (function(params, x) ** 2).sum())(x)

  tensor = tf.constant(x)
  with tf.GradientTape() as outer:
    outer.watch(tensor)
    with tf.GradientTape() as inner:
      inner.watch(tensor)
      loss = tf.reduce_sum(loaded(tensor) ** 2)
    gradient = inner.gradient(loss, tensor)
    total = tf.reduce_sum(gradient[0, :9])
  np.testing.assert_allclose(gradient, first(x), rtol=1e-4, atol=1e-5)
  want = jax.grad(lambda x: first(x)[0, :9].sum())(x)
  np.testing.assert_allclose(outer.gradient(total, tensor), want, rtol=1e-3, atol=1e-4)
  tf.saved_model.save(loaded, tmp_path / "again")  # follows the captured tensors of gradients
  np.testing.assert_allclose(tf.saved_model.load(tmp_path / "again")(tensor), function(params, x), rtol=1e-4, atol=1e-5)


_SIZES = [("n", "n"), ("n", "2*n + 1"), ("2*n + 1", "n + 2")]


@pytest.mark.parametrize("is_open", [False, True])
@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("sizes", _SIZES, ids=", ".join)
@pytest.mark.parametrize("lowering", ["stablehlo", "tf_ops"])
def test_sizes_that_do_not_fit_the_symbolic_shapes_are_refused(tmp_path, lowering, sizes, jit_compile, is_open):
  def function(x, y):
    return x.sum() / x.shape[0], y * 2

  args = tuple(np.ones(100, np.float32) for _ in sizes)
  specs = jax.export.symbolic_args_specs(args, sizes, constraints=["n >= 2", "mod(n, 2) == 0"])
  save(tmp_path / "m", (function, *specs), lowering=lowering)
  # While shapes are inferred, and when the function runs.
  signature = [tf.TensorSpec([None], tf.float32)] * 2 if is_open else None
  call = tf.saved_model.load(str(tmp_path / "m")).__call__
  loaded = tf.function(call, input_signature=signature, jit_compile=jit_compile)
  refused = pytest.raises(
    (tf.errors.InvalidArgumentError, ValueError), match="expected" if lowering == "tf_ops" else "(?i)shape"
  )
  for n in range(6):
    first, second = (eval(size, {"n": n}) for size in sizes)
    x, y = np.ones(first, np.float32), np.arange(second, dtype=np.float32)
    if n in (2, 4):
      for got, want in zip(loaded(x, y), function(x, y), strict=True):
        np.testing.assert_allclose(got, want)
      for wrong in (y[1:], np.append(y, 1.0)):
        with refused:
          loaded(x, wrong.astype(np.float32))
    else:
      with refused:
        loaded(x, y)


def test_the_message_of_plain_ops_names_the_size_and_what_was_expected(tmp_path):
  specs = jax.export.symbolic_args_specs((np.ones(6, np.float32),) * 2, ("n", "n"))
  save(tmp_path / "m", (lambda x, y: x + y, *specs), lowering="tf_ops")
  loaded = tf.saved_model.load(str(tmp_path / "m"))
  args = np.ones(1, np.float32), np.ones(3, np.float32)
  # TensorFlow infers shapes that are known while it traces.
  with pytest.raises(ValueError, match="expected_y_shape_0_is_n"):
    loaded(*args)
  open_sizes = tf.function(loaded.__call__, input_signature=[tf.TensorSpec([None], tf.float32)] * 2)
  message = r"expected y\.shape\[0\] == n; found\] \[3\] \[, n is\] \[1\]"
  with pytest.raises(tf.errors.InvalidArgumentError, match=message):
    open_sizes(*args)


@pytest.mark.parametrize("function", [lambda x, y: np.float32(3), lambda x, y: (), lambda x, y: y * 2])
def test_sizes_are_checked_though_no_result_needs_them(tmp_path, function):
  specs = jax.export.symbolic_args_specs((np.ones(6, np.float32),) * 2, ("n", "n"))
  save(tmp_path / "m", (function, *specs), lowering="tf_ops")
  loaded = tf.saved_model.load(str(tmp_path / "m"))
  call = tf.function(loaded.__call__, input_signature=[tf.TensorSpec([None], tf.float32)] * 2)
  call(np.ones(3, np.float32), np.ones(3, np.float32))
  with pytest.raises(tf.errors.InvalidArgumentError, match=r"expected y\.shape\[0\] == n"):
    call(np.ones(2, np.float32), np.ones(3, np.float32))


def test_plain_ops_of_open_sizes_are_inlined_when_a_signature_is_frozen(tmp_path):
  spec = jax.ShapeDtypeStruct(jax.export.symbolic_shape("batch, 3"), np.float32)
  save(tmp_path / "m", (lambda params, x: jnp.tanh(x @ params["w"]), spec), {"w": np.eye(3)}, lowering="tf_ops")
  loaded = tf.saved_model.load(str(tmp_path / "m"))
  ops = {
    node.op
    for node in convert_variables_to_constants_v2(loaded.signatures["serving_default"]).graph.as_graph_def().node
  }
  assert {"MatMul", "Tanh", "Assert"} <= ops
  assert not any("PartitionedCall" in op for op in ops)
