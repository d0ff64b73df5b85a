"""Loads a SavedModel that is sharded over two processes with four devices each, and takes a step of training.

On a cluster, start the program once on each host with the address of the first; here it starts both processes itself.
"""

import os
import socket
import subprocess
import sys
import tempfile

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from graftax import savedmodel_io
from graftax.convert import split_trainable

NUM_PROCESSES, DEVICES_EACH = 2, 4


def write_model(folder):
  """Writes a small model in place of one that no device can hold, and returns its function and parameters."""
  keys = jax.random.split(jax.random.key(0), 2)
  params = {"up": jax.random.normal(keys[0], [64, 512]) / 8, "down": jax.random.normal(keys[1], [512, 8]) / 32}
  x = jax.ShapeDtypeStruct(jax.export.symbolic_shape("batch, 64"), jnp.float32)
  savedmodel_io.save(folder, (apply, x), params)
  return params


def apply(params, x):
  return jax.nn.gelu(x @ params["up"]) @ params["down"]


def rows():
  return np.random.default_rng(0).normal(size=(16, 64)).astype(np.float32)


def step(fn, params, x):
  """Returns the loss and the parameters after a step."""
  value, gradients = jax.value_and_grad(lambda params: jnp.mean(fn(params, x) ** 2))(params)
  return value, jax.tree.map(lambda p, g: p - 0.1 * g, params, gradients)


def run(folder, address, process):
  """Runs in each process, and returns the loss before and after a step."""
  jax.distributed.initialize(address, NUM_PROCESSES, process)
  mesh = jax.make_mesh((2, 4), ("data", "model"), axis_types=(AxisType.Auto,) * 2)
  rules = [("up", P(None, "model")), ("down", P("model", None)), ("", P())]
  model = savedmodel_io.load(folder, sharding=savedmodel_io.partition_rules(mesh, rules))
  fn, params = model.convert()  # each process reads only what its devices hold
  trainable, rest = split_trainable(params)
  assert trainable["up"].addressable_shards[0].data.shape == (64, 512 // 4)

  data = rows()
  x = jax.make_array_from_callback(data.shape, NamedSharding(mesh, P("data")), lambda index: data[index])
  (name,) = model.signatures["serving_default"].inputs
  call = jax.jit(lambda trainable, x: step(lambda p, x: fn(p | rest, **{name: x})[0]["output_0"], trainable, x))
  before, tuned = call(trainable, x)
  assert tuned["up"].sharding.is_equivalent_to(trainable["up"].sharding, 2)
  return float(before), float(call(tuned, x)[0])


def main(folder):
  write_model(f"{folder}/model")
  with socket.socket() as probe:
    probe.bind(("localhost", 0))
    address = f"localhost:{probe.getsockname()[1]}"
  flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={DEVICES_EACH}"
  environment = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags}
  commands = [[sys.executable, __file__, f"{folder}/model", address, str(i)] for i in range(NUM_PROCESSES)]
  started = [subprocess.Popen(c, env=environment, stdout=subprocess.PIPE, text=True) for c in commands]
  outputs = [process.communicate(timeout=300)[0] for process in started]
  return [tuple(map(float, output.splitlines()[-1].split())) for output in outputs]


if __name__ == "__main__":
  if len(sys.argv) == 4:
    print(*run(sys.argv[1], sys.argv[2], int(sys.argv[3])))
    jax.distributed.shutdown()
  else:
    for number, losses in enumerate(main(tempfile.mkdtemp())):
      print(f"process {number}: loss {losses[0]:.5f}, after a step {losses[1]:.5f}")
