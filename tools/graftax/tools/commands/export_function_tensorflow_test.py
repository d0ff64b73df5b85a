"""TensorFlow loads, differentiates and trains what `graftax export` writes."""

import numpy as np
import tensorflow as tf
from typer.testing import CliRunner

from graftax.tools.cli import app

_CODE = """
import jax
import jax.numpy as jnp


@jax.custom_vjp
def tripled(x):
  return x


tripled.defvjp(lambda x: (x, None), lambda _, g: (3 * g,))


def predict(params, x):
  return tripled(jnp.tanh(x @ params["w"])).sum(-1)
"""


def test_tensorflow_uses_the_authors_derivative_and_trains_the_parameters(tmp_path):
  (tmp_path / "model.py").write_text(_CODE)
  w = np.linspace(-1, 1, 6, dtype=np.float32).reshape(3, 2)
  np.savez(tmp_path / "params.npz", w=w)
  arguments = ["export", f"{tmp_path}/model.py:predict", "--input", "x=[batch,3]", "--params", f"{tmp_path}/params.npz"]
  ran = CliRunner().invoke(app, [*arguments, "--out", f"{tmp_path}/out"])
  assert ran.exit_code == 0, ran.output
  loaded = tf.saved_model.load(f"{tmp_path}/out")
  for batch in (1, 4):
    x = np.cos(np.arange(3 * batch, dtype=np.float32)).reshape(batch, 3)
    np.testing.assert_allclose(loaded(x), np.tanh(x @ w).sum(-1), rtol=1e-5, atol=1e-6)
    (served,) = loaded.signatures["serving_default"](x=tf.constant(x)).values()
    np.testing.assert_allclose(served, loaded(x))
  (variable,) = loaded.trainable_variables
  with tf.GradientTape() as tape:
    loss = tf.reduce_sum(loaded(x))
  gradient = tape.gradient(loss, variable)
  np.testing.assert_allclose(gradient, 3 * x.T @ (1 - np.tanh(x @ w) ** 2), rtol=1e-5, atol=1e-5)
  variable.assign_sub(0.1 * gradient)
  assert tf.reduce_sum(loaded(x)) < loss
