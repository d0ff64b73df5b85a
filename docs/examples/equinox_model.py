"""Saves a regression model of equinox, with an input that callers may leave out."""

import sys
import tempfile

import equinox as eqx
import jax
import numpy as np

from graftax.savedmodel_io import ExportManager, JaxModule, ServingConfig, TensorSpecWithDefault, load


def main(folder):
  model = eqx.nn.MLP(in_size=8, out_size=3, width_size=16, depth=2, key=jax.random.key(0))
  # Arrays are the parameters; everything else, such as activations, is part of the function.
  params, static = eqx.partition(model, eqx.is_array)

  def predict(params, x, scale):
    return jax.vmap(eqx.combine(params, static))(x) * scale

  module = JaxModule(params, predict, trainable=True, input_polymorphic_shape=["batch, _", None])
  spec = jax.ShapeDtypeStruct(jax.export.symbolic_shape("batch, 8"), np.float32)
  scale = TensorSpecWithDefault(jax.ShapeDtypeStruct((), np.float32), 1.0)
  ExportManager(module, [ServingConfig("serving_default", [spec, scale])]).save(folder)
  rows = jax.random.normal(jax.random.key(1), (5, 8))
  return rows, predict(params, rows, 1.0)


if __name__ == "__main__":
  folder = sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()
  main(folder)
  print(folder, load(folder).signatures, sep="\n")
