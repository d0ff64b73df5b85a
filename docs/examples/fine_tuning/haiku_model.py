"""Fine-tunes a SavedModel as a module of haiku, and keeps its parameters and state as arrays."""

import pickle
import sys
import tempfile
from pathlib import Path

import haiku as hk
import jax
import jax.numpy as jnp
import optax

from graftax.convert.modules import haiku_module
from graftax.savedmodel_io import load

_CLASSIFIER = Path(__file__).parents[3] / "savedmodel_io/graftax/savedmodel_io/testdata/2026_11_23/classifier"


def _network(path):
  model, spec = load(path), jax.ShapeDtypeStruct(jax.export.symbolic_shape("batch, 4"), jnp.float32)
  functions = {training: model.convert("__call__", spec, training=training) for training in (True, False)}

  network = hk.transform_with_state(lambda x, training: haiku_module(*functions[training], name="model")(x))
  return hk.without_apply_rng(network)


def main(path, folder):
  x = jax.random.normal(jax.random.key(0), (256, 4)) + 1
  labels = jnp.argmax(x[:, :3], axis=1)
  network = _network(path)
  params, state = network.init(jax.random.key(1), x, True)
  optimizer = optax.adam(1e-2)
  opt_state = optimizer.init(params)

  @jax.jit
  def step(params, state, opt_state):
    def loss(params):
      logits, new_state = network.apply(params, state, x, True)
      return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean(), new_state

    (value, new_state), gradients = jax.value_and_grad(loss, has_aux=True)(params)
    updates, opt_state = optimizer.update(gradients, opt_state)
    return value, optax.apply_updates(params, updates), new_state, opt_state

  losses = []
  for _ in range(100):
    value, params, state, opt_state = step(params, state, opt_state)
    losses.append(float(value))

  with open(f"{folder}/params.pickle", "wb") as file:
    pickle.dump(jax.device_get((params, state)), file)
  with open(f"{folder}/params.pickle", "rb") as saved:
    restored, restored_state = pickle.load(saved)
  load(path).save(f"{folder}/tuned", {**params["model"], **state["model"]}, cast=True)
  logits, _ = network.apply(params, state, x, False)
  return losses, restored_state["model"], logits, network.apply(restored, restored_state, x, False)[0]


if __name__ == "__main__":
  folder = tempfile.mkdtemp()
  losses, statistics, _, _ = main(sys.argv[1] if len(sys.argv) > 1 else _CLASSIFIER, folder)
  print(losses[0], losses[-1], statistics, f"SavedModel: {folder}/tuned", sep="\n")
