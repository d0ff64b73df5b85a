"""Saves a classifier of flax.nnx."""

import sys
import tempfile

import jax
import numpy as np
from flax import nnx

from graftax.savedmodel_io import ExportManager, JaxModule, ServingConfig, load


class Classifier(nnx.Module):
  """A multilayer perceptron."""

  def __init__(self, rngs):
    self.hidden = nnx.Linear(8, 16, rngs=rngs)
    self.head = nnx.Linear(16, 3, rngs=rngs)

  def __call__(self, x):
    return self.head(nnx.relu(self.hidden(x)))


def main(folder):
  # The structure of the model is part of the function, and the state is the parameters.
  structure, state = nnx.split(Classifier(nnx.Rngs(0)))

  def classify(params, x):
    return nnx.merge(structure, nnx.State(params))(x)

  module = JaxModule(nnx.to_pure_dict(state), classify, trainable=True, input_polymorphic_shape="batch, _")
  spec = jax.ShapeDtypeStruct(jax.export.symbolic_shape("batch, 8"), np.float32)
  ExportManager(module, [ServingConfig("serving_default", [spec])]).save(folder)
  images = jax.random.normal(jax.random.key(0), (5, 8))
  return images, module.jax_methods[JaxModule.DEFAULT_METHOD_KEY](images)


if __name__ == "__main__":
  folder = sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()
  main(folder)
  print(folder, load(folder).signatures, sep="\n")
