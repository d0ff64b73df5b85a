"""Saves a classifier of flax.linen, with batch statistics that are not trained and two methods."""

import sys
import tempfile

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from graftax.savedmodel_io import ExportManager, JaxModule, ServingConfig, load


class Classifier(nn.Module):
  """A multilayer perceptron."""

  @nn.compact
  def __call__(self, x, *, features=False):
    x = nn.relu(nn.BatchNorm(use_running_average=True)(nn.Dense(16)(x)))
    return x if features else nn.Dense(3)(x)


def main(folder):
  model = Classifier()
  images = jax.random.normal(jax.random.key(0), (5, 8))
  variables = model.init(jax.random.key(1), images)

  module = JaxModule(
    variables,
    {
      "classify": lambda variables, x: nn.softmax(jnp.asarray(model.apply(variables, x))),
      "features": lambda variables, x: model.apply(variables, x, features=True),
    },
    trainable={"params": True, "batch_stats": False},
    input_polymorphic_shape={"classify": "batch, _", "features": "batch, _"},
  )
  spec = jax.ShapeDtypeStruct(jax.export.symbolic_shape("batch, 8"), np.float32)
  configs = [
    ServingConfig(["serving_default", "classify"], [spec], method_key="classify"),
    ServingConfig("features", [spec], method_key="features"),
  ]
  ExportManager(module, configs).save(folder)
  return images, module.jax_methods["classify"](images)


if __name__ == "__main__":
  folder = sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()
  main(folder)
  print(folder, load(folder).signatures, sep="\n")
