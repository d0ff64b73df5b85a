"""Any StableHLO file as a batched, differentiated JAX function: `batch_and_differentiate.py FILE [--batch N]`.

Reads MLIR text, MLIR bytecode or a portable artifact, maps its function over a new leading axis of every floating-point
argument, and prints values and gradients for random inputs. Dimensions that the file leaves open get the given size.
"""

import argparse
import pathlib

import jax
import jax.numpy as jnp
import numpy as np

from graftax.xla_call_module import ArgumentSpec, Module, explain, lift


def load(path: pathlib.Path) -> tuple[Module, list[int], jax.stages.Wrapped]:
  """The module, its floating-point arguments, and the jitted function `(*args) -> (value, gradients)`."""
  module = Module.from_bytes(path.read_bytes())
  function = lift(module)
  moving = [i for i, spec in enumerate(module.inputs) if jnp.issubdtype(spec.dtype, jnp.floating)]

  def total(*args: jax.Array) -> jax.Array:
    return sum((jnp.sum(y) for y in function(*args) if jnp.issubdtype(y.dtype, jnp.floating)), start=jnp.zeros(()))

  axes = [0 if i in moving else None for i in range(len(module.inputs))]
  return module, moving, jax.jit(jax.vmap(jax.value_and_grad(total, moving), axes))


def random_array(rng: np.random.Generator, spec: ArgumentSpec, size: int, batch: tuple[int, ...]) -> np.ndarray:
  """Normal numbers, and zeros and ones where they are no floating-point ones."""
  shape = (*batch, *(size if dim is None else dim for dim in spec.shape))
  is_number = jnp.issubdtype(spec.dtype, jnp.inexact)
  return np.asarray(rng.normal(size=shape) if is_number else rng.integers(0, 2, shape)).astype(spec.dtype)


def main(argv: list[str] | None = None) -> None:
  parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
  parser.add_argument("file", type=pathlib.Path)
  parser.add_argument("--batch", type=int, default=2)
  parser.add_argument("--size", type=int, default=3, help="of dimensions that the file leaves open")
  options = parser.parse_args(argv)
  with jax.enable_x64(True):  # changes nothing for files that have no 64-bit types
    module, moving, function = load(options.file)
    rng = np.random.default_rng(0)
    print(explain(module, *(random_array(rng, spec, options.size, ()) for spec in module.inputs)))
    if not moving:
      raise SystemExit(f"{module} has no floating-point argument to map over and to differentiate by.")
    batches = [(options.batch,) * (i in moving) for i in range(len(module.inputs))]
    args = [random_array(rng, spec, options.size, n) for spec, n in zip(module.inputs, batches, strict=True)]
    values, gradients = function(*args)
  print("values", values, *(f"gradient of argument {i}\n{g}" for i, g in zip(moving, gradients, strict=True)), sep="\n")


if __name__ == "__main__":
  main()
