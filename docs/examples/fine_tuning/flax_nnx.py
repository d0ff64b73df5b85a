"""Fine-tunes a SavedModel as a module of flax.nnx, and keeps it as a checkpoint of Orbax."""

import sys
import tempfile
from pathlib import Path

import jax
import jax.numpy as jnp
import optax
import orbax.checkpoint as ocp
from flax import nnx

from graftax.convert.modules import nnx_module
from graftax.savedmodel_io import load

_CLASSIFIER = Path(__file__).parents[3] / "savedmodel_io/graftax/savedmodel_io/testdata/2026_11_23/classifier"


def _module(path):
  model, x = load(path), jax.ShapeDtypeStruct(jax.export.symbolic_shape("batch, 4"), jnp.float32)
  train, params = model.convert("__call__", x, training=True)
  evaluate, eval_params = model.convert("__call__", x, training=False)
  return nnx_module(train, {**eval_params, **params}, evaluate)


@nnx.jit
def _step(module, optimizer, x, labels):
  def loss(module):
    return optax.softmax_cross_entropy_with_integer_labels(module(x), labels).mean()

  value, gradients = nnx.value_and_grad(loss)(module)
  optimizer.update(module, gradients)
  return value


def main(path, folder):
  x = jax.random.normal(jax.random.key(0), (256, 4)) + 1
  labels = jnp.argmax(x[:, :3], axis=1)
  module = _module(path)
  optimizer = nnx.Optimizer(module, optax.adam(1e-2), wrt=nnx.Param)
  module.train()
  losses = [float(_step(module, optimizer, x, labels)) for _ in range(100)]
  module.eval()

  with ocp.StandardCheckpointer() as checkpointer:
    checkpointer.save(f"{folder}/checkpoint", nnx.state(module))
    checkpointer.wait_until_finished()
    restored = _module(path)
    nnx.update(restored, checkpointer.restore(f"{folder}/checkpoint", nnx.state(restored)))
  restored.eval()
  load(path).save(f"{folder}/tuned", module, cast=True)
  statistics = nnx.to_pure_dict(nnx.state(restored, nnx.BatchStat))["variables"]
  return losses, statistics, module(x), restored(x)


if __name__ == "__main__":
  folder = tempfile.mkdtemp()
  losses, statistics, _, _ = main(sys.argv[1] if len(sys.argv) > 1 else _CLASSIFIER, folder)
  print(losses[0], losses[-1], statistics, f"SavedModel: {folder}/tuned", sep="\n")
