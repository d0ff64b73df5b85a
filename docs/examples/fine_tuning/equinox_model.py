"""Fine-tunes a SavedModel as a module of equinox, and keeps it as equinox does."""

import sys
import tempfile
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from graftax.convert.modules import equinox_module
from graftax.savedmodel_io import load

_CLASSIFIER = Path(__file__).parents[3] / "savedmodel_io/graftax/savedmodel_io/testdata/2026_11_23/classifier"


def _module(path):
  model, x = load(path), jax.ShapeDtypeStruct(jax.export.symbolic_shape("batch, 4"), jnp.float32)
  train, params = model.convert("__call__", x, training=True)
  evaluate, eval_params = model.convert("__call__", x, training=False)
  return equinox_module(train, {**eval_params, **params}, evaluate)


def main(path, folder):
  x = jax.random.normal(jax.random.key(0), (256, 4)) + 1
  labels = jnp.argmax(x[:, :3], axis=1)
  module, state = _module(path)
  optimizer = optax.adam(1e-2)
  opt_state = optimizer.init(eqx.filter(module, eqx.is_inexact_array))

  @eqx.filter_jit
  def step(module, state, opt_state):
    def loss(module, state):
      logits, state = module(state, x)
      return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean(), state

    (value, state), gradients = eqx.filter_value_and_grad(loss, has_aux=True)(module, state)
    updates, opt_state = optimizer.update(gradients, opt_state)
    return value, eqx.apply_updates(module, updates), state, opt_state

  losses = []
  for _ in range(100):
    value, module, state, opt_state = step(module, state, opt_state)
    losses.append(float(value))

  eqx.tree_serialise_leaves(f"{folder}/module.eqx", (module, state))
  restored, restored_state = eqx.tree_deserialise_leaves(f"{folder}/module.eqx", _module(path))
  load(path).save(f"{folder}/tuned", (module, state), cast=True)
  logits, _ = eqx.nn.inference_mode(module)(state, x)
  restored_logits, _ = eqx.nn.inference_mode(restored)(restored_state, x)
  return losses, restored_state.get(restored.rest), logits, restored_logits


if __name__ == "__main__":
  folder = tempfile.mkdtemp()
  losses, statistics, _, _ = main(sys.argv[1] if len(sys.argv) > 1 else _CLASSIFIER, folder)
  print(losses[0], losses[-1], statistics, f"SavedModel: {folder}/tuned", sep="\n")
