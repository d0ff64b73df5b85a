"""Converts SavedModels to JAX, hands the functions to jax2onnx, and runs the results in ONNX Runtime. Runs alone.

python run_jax2onnx.py FOLDER...
"""

import os
import sys
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import jaxpr_as_fun

# The scripts of the other consumers compare results and print rows.
sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "consumers"))


def run(path: str, inputs: Mapping[str, np.ndarray], folder: str) -> Mapping[str, np.ndarray]:
  import onnxruntime
  from jax2onnx import to_onnx

  from graftax.savedmodel_io import load
  from graftax.xla_call_module import with_jax_primitives

  function, params = load(os.path.join(path, "0")).convert("serve")
  constants = {name: np.asarray(value) for name, value in params.items()}

  def call(*args: jax.Array) -> tuple[jax.Array, ...]:
    return tuple(jax.tree.leaves(function(constants, *args)[0]))

  arrays = [np.asarray(jnp.asarray(x)) for x in inputs.values()]  # without 64-bit types, as JAX is here
  output = os.path.join(folder, "model.onnx")
  specs = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in arrays]
  # Traced before jax2onnx traces, because that replaces functions of JAX while it does so.
  jaxpr = jax.make_jaxpr(with_jax_primitives(call, platform="cpu"))(*specs)
  to_onnx(jaxpr_as_fun(jaxpr), inputs=specs, return_mode="file", output_path=output)
  session = onnxruntime.InferenceSession(output, providers=["CPUExecutionProvider"])
  given = {node.name: x for node, x in zip(session.get_inputs(), arrays, strict=True)}
  return {f"y{position}": y for position, y in enumerate(session.run(None, given))}


if __name__ == "__main__":
  from _results import main

  main(run)
