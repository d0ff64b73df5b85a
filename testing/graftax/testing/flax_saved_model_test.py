"""A flax model saved without TensorFlow, in each program that loads SavedModels: values, training, and the way back."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tensorflow as tf

from graftax.savedmodel_io import load

pytestmark = pytest.mark.slow
pytest.importorskip("flax")

# The writer stores the inputs, and what JAX computes for them, so that no other process needs flax or the function.
_WRITER = """
import sys

sys.modules["tensorflow"] = None
import flax.linen as nn
import jax
import numpy as np
from flax.traverse_util import flatten_dict

from graftax.savedmodel_io import save


class Block(nn.Module):
  features: int

  @nn.compact
  def __call__(self, x):
    y = nn.Conv(self.features, (3, 3), strides=2, use_bias=False)(x)
    y = nn.gelu(nn.BatchNorm(use_running_average=True)(y))
    return nn.Conv(self.features, (1, 1), strides=2)(x) + y


class Network(nn.Module):
  @nn.compact
  def __call__(self, images):
    x = Block(8)(Block(4)(images))
    x = x.reshape(x.shape[0], -1, x.shape[-1])
    x = nn.LayerNorm()(x + nn.MultiHeadDotProductAttention(num_heads=2)(x, x))
    return nn.softmax(nn.Dense(3)(x.mean(1)))


network = Network()
rng = np.random.default_rng(0)
images = {n: rng.normal(size=(n, 8, 8, 2)).astype(np.float32) for n in (1, 4, 7)}
state = jax.jit(network.init)(jax.random.key(0), images[1])
predict = lambda state, images: {"scores": network.apply(state, images)}
save(
  sys.argv[1],
  (predict, jax.ShapeDtypeStruct(jax.export.symbolic_shape("batch, 8, 8, 2"), np.float32)),
  state,
  trainable={"params": True, "batch_stats": False},
)


def loss(params, images):
  return (predict({**state, "params": params}, images)["scores"][:, 0] ** 2).mean()


def squared_gradient(params, images):
  return (jax.grad(loss, 1)(params, images) ** 2).sum()


params = state["params"]
second = jax.jit(jax.grad(squared_gradient))(params, images[4])
step = jax.jit(lambda params: jax.tree.map(lambda p, g: p - 0.5 * g, params, jax.grad(loss)(params, images[4])))
for _ in range(10):
  params = step(params)
arrays = {f"images_{n}": value for n, value in images.items()}
arrays |= {f"scores_{n}": predict(state, value)["scores"] for n, value in images.items()}
arrays["tuned_scores"] = predict({**state, "params": params}, images[4])["scores"]
for prefix, tree in (("tuned", params), ("second", second)):
  arrays |= {f"{prefix}/params/{name}": leaf for name, leaf in flatten_dict(tree, sep="/").items()}
np.savez(sys.argv[2], **arrays)
"""
_BATCHES = (1, 4, 7)
_RATE, _STEPS = 0.5, 10


@pytest.fixture(scope="module")
def written(tmp_path_factory):
  """Returns the folder of the model, and the writer's numbers."""
  folder = tmp_path_factory.mktemp("flax")
  subprocess.run([sys.executable, "-c", _WRITER, folder / "model", folder / "expected.npz"], check=True)
  return folder / "model", dict(np.load(folder / "expected.npz"))


def _loss(scores: tf.Tensor) -> tf.Tensor:
  return tf.reduce_mean(scores[:, 0] ** 2)


def _close(ours, expected) -> None:
  np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("batch", _BATCHES)
def test_tensorflow_2_and_a_session_of_tensorflow_1_compute_the_numbers_of_jax(written, batch):
  folder, expected = written
  images = expected[f"images_{batch}"]
  loaded = tf.saved_model.load(str(folder))
  _close(loaded(images)["scores"], expected[f"scores_{batch}"])
  _close(loaded.signatures["serving_default"](images=images)["scores"], expected[f"scores_{batch}"])
  with tf.Graph().as_default(), tf.compat.v1.Session() as session:
    meta_graph = tf.compat.v1.saved_model.loader.load(session, ["serve"], str(folder))
    signature = meta_graph.signature_def["serving_default"]
    scores = session.run(signature.outputs["scores"].name, {signature.inputs["images"].name: images})
  _close(scores, expected[f"scores_{batch}"])


@pytest.mark.parametrize("batch", _BATCHES)
def test_the_command_line_tool_runs_the_signature(written, tmp_path, batch):
  folder, expected = written
  np.save(tmp_path / "images.npy", expected[f"images_{batch}"])
  command = [Path(sys.executable).with_name("saved_model_cli"), "run", "--dir", folder, "--tag_set", "serve"]
  command += ["--signature_def", "serving_default", "--inputs", f"images={tmp_path}/images.npy", "--outdir", tmp_path]
  subprocess.run(command, check=True, capture_output=True)
  _close(np.load(tmp_path / "scores.npy"), expected[f"scores_{batch}"])


def test_second_derivatives_are_those_of_jax(written):
  folder, expected = written
  loaded, images = tf.saved_model.load(str(folder)), tf.constant(expected["images_4"])
  with tf.GradientTape() as outer:
    with tf.GradientTape() as inner:
      inner.watch(images)
      loss = _loss(loaded(images)["scores"])
    total = tf.reduce_sum(inner.gradient(loss, images) ** 2)
  for variable, gradient in zip(
    loaded.trainable_variables, outer.gradient(total, loaded.trainable_variables), strict=True
  ):
    _close(gradient, expected[f"second/{variable.name.removesuffix(':0')}"])


def test_ten_steps_of_training_are_saved_again_and_read_here(written, tmp_path):
  folder, expected = written
  loaded = tf.saved_model.load(str(folder))
  for _ in range(_STEPS):
    with tf.GradientTape() as tape:
      loss = _loss(loaded(expected["images_4"])["scores"])
    for variable, gradient in zip(
      loaded.trainable_variables, tape.gradient(loss, loaded.trainable_variables), strict=True
    ):
      variable.assign_sub(_RATE * gradient)
  options = tf.saved_model.SaveOptions(experimental_custom_gradients=True)
  tf.saved_model.save(loaded, str(tmp_path / "tuned"), loaded.signatures, options)
  again = load(tmp_path / "tuned")
  tuned = {name: value for name, value in expected.items() if name.startswith("tuned/")}
  assert {f"tuned/{name}" for name in again.variables if name.startswith("params/")} == tuned.keys()
  for name, value in tuned.items():
    _close(again.variables[name.removeprefix("tuned/")], value)
  fn, params = again.convert("serving_default")
  _close(fn(params, images=expected["images_4"])[0]["scores"], expected["tuned_scores"])

  def moved(images):
    return (fn(params, images=images)[0]["scores"][:, 0] ** 2).mean()

  # Differs from the value at the start by more than the tolerance, so that training which has no effect is found.
  assert abs(moved(expected["images_4"]) - (expected["scores_4"][:, 0] ** 2).mean()) > 1e-2
  assert jnp.isfinite(jax.grad(moved)(jnp.asarray(expected["images_4"]))).all()


_KERAS = """
import sys

import numpy as np
import tensorflow as tf
import tensorflow_hub as hub
import tf_keras

expected = np.load(sys.argv[2])
layer = hub.KerasLayer(sys.argv[1], trainable=True, output_key="scores")
model = tf_keras.Sequential([tf_keras.Input((8, 8, 2)), layer])
model.compile(tf_keras.optimizers.SGD(0.5), lambda _, scores: tf.reduce_mean(scores[:, 0] ** 2))
assert len(layer.trainable_weights) == sum(name.startswith("tuned/") for name in expected), layer.trainable_weights
for batch in (1, 4, 7):
  np.testing.assert_allclose(model(expected[f"images_{batch}"]), expected[f"scores_{batch}"], rtol=1e-5, atol=1e-5)
images = expected["images_4"]
model.fit(images, np.zeros((4, 3), np.float32), batch_size=4, epochs=10, shuffle=False, verbose=0)
np.testing.assert_allclose(model(images), expected["tuned_scores"], rtol=1e-5, atol=1e-5)
for weight in layer.trainable_weights:
  value = expected["tuned/" + weight.name.removesuffix(":0")]
  np.testing.assert_allclose(weight, value, rtol=1e-5, atol=1e-5)
model.save(sys.argv[3])
"""


def test_a_keras_layer_of_tensorflow_hub_trains_it(written, tmp_path):
  pytest.importorskip("tf_keras")
  folder, expected = written
  command = [sys.executable, "-c", _KERAS, folder, folder.parent / "expected.npz", tmp_path / "keras"]
  subprocess.run(command, check=True, env={**os.environ, "TF_USE_LEGACY_KERAS": "1"})
  fn, params = load(tmp_path / "keras").convert("serving_default")
  (scores,) = fn(params, input_1=expected["images_4"])[0].values()
  _close(scores, expected["tuned_scores"])


# TensorFlow: "tf.lite.Interpreter is deprecated", in favour of a package that is not installed here.
@pytest.mark.filterwarnings("ignore:.*tf.lite.Interpreter is deprecated:UserWarning")
def test_tflite_runs_it(written):
  folder, expected = written
  model = tf.lite.TFLiteConverter.from_saved_model(str(folder)).convert()
  interpreter = tf.lite.Interpreter(model_content=model)
  for batch in _BATCHES:
    interpreter.resize_tensor_input(interpreter.get_input_details()[0]["index"], [batch, 8, 8, 2])
    scores = interpreter.get_signature_runner()(images=expected[f"images_{batch}"])["scores"]
    _close(scores, expected[f"scores_{batch}"])
