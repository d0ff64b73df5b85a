"""Any StableHLO file as a batched, differentiated JAX function: `batch_and_differentiate.py FILE [--batch N]`.

Reads MLIR text, MLIR bytecode or a portable artifact, maps its function over a new leading axis of every floating-point
argument, and prints values and gradients for random inputs.
"""

import argparse
import pathlib

import jax
import jax.numpy as jnp
import numpy as np

from graftax.xla_call_module import Module, explain, lift


def load(path: pathlib.Path) -> tuple[Module, list[int], jax.stages.Wrapped]:
  """The module, its floating-point arguments, and the jitted function `(*args) -> (value, gradients)`."""
  module = Module.from_bytes(path.read_bytes())
  function = lift(module)
  moving = [i for i, spec in enumerate(module.inputs) if jnp.issubdtype(spec.dtype, jnp.floating)]

  def total(*args: jax.Array) -> jax.Array:
    return sum(jnp.sum(out) for out in function(*args) if jnp.issubdtype(out.dtype, jnp.floating))

  axes = [0 if i in moving else None for i in range(len(module.inputs))]
  return module, moving, jax.jit(jax.vmap(jax.value_and_grad(total, moving), axes))


def main(argv: list[str] | None = None) -> None:
  parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
  parser.add_argument("file", type=pathlib.Path)
  parser.add_argument("--batch", type=int, default=2)
  options = parser.parse_args(argv)
  module, moving, function = load(options.file)
  print(explain(module))
  rng = np.random.default_rng(0)
  shapes = [(options.batch,) * (i in moving) + spec.shape for i, spec in enumerate(module.inputs)]
  args = [
    np.asarray(rng.normal(size=shape)).astype(spec.dtype) for shape, spec in zip(shapes, module.inputs, strict=True)
  ]
  values, gradients = function(*args)
  print("values", values, *(f"gradient of argument {i}\n{g}" for i, g in zip(moving, gradients, strict=True)), sep="\n")


if __name__ == "__main__":
  main()
