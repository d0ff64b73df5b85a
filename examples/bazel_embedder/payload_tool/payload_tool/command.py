"""The command `payload-tool`."""

import argparse
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from payload_tool.payloads import read

__all__ = ["main"]


def main() -> None:
  """Prints the signature of a file and the norms of the gradients of each example."""
  parser = argparse.ArgumentParser(prog="payload-tool", description="Gradients of single examples.")
  parser.add_argument("payload", type=Path, help="a file of jax.export, or of Module.save: loss(params, example)")
  parser.add_argument("arrays", type=Path, help="an .npz file with the parameters by name, and the examples as `batch`")
  options = parser.parse_args()
  payload = read(options.payload)
  print(payload.signature)
  numbers: Any = jnp  # strict checkers do not know all types of `asarray`
  with np.load(options.arrays) as arrays:
    given: dict[str, Array] = {name: numbers.asarray(arrays[name]) for name in arrays.files}
  batch = given.pop("batch")
  for name, gradient in payload.gradients(given, batch).items():
    norms = jnp.sqrt(jnp.square(gradient.reshape(len(batch), -1)).sum(axis=1))
    print(name, *(f"{norm:.4f}" for norm in norms.tolist()))


if __name__ == "__main__":
  main()
