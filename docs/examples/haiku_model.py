"""Saves a recurrent model of haiku."""

import sys
import tempfile

import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np

from graftax.savedmodel_io import ExportManager, JaxModule, ServingConfig, load


def _network(sequences):
  core = hk.GRU(16)
  states, _ = hk.dynamic_unroll(core, sequences, core.initial_state(sequences.shape[0]), time_major=False)
  return {"logits": hk.Linear(3)(jnp.asarray(states)[:, -1])}


def main(folder):
  network: hk.Transformed = hk.without_apply_rng(hk.transform(_network))
  sequences = jax.random.normal(jax.random.key(0), (5, 7, 8))
  params = network.init(jax.random.key(1), sequences)

  module = JaxModule(params, network.apply, trainable=True, input_polymorphic_shape="batch, ...")
  spec = jax.ShapeDtypeStruct(jax.export.symbolic_shape("batch, 7, 8"), np.float32)
  ExportManager(module, [ServingConfig("serving_default", [spec])]).save(folder)
  return sequences, network.apply(params, sequences)["logits"]


if __name__ == "__main__":
  folder = sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()
  main(folder)
  print(folder, load(folder).signatures, sep="\n")
