"""Smoke test of the wheel, run where only its declared dependencies can be imported. Not shipped."""

import tempfile
from pathlib import Path

import jax
import jax.numpy as jnp

from graftax.savedmodel_io import ExportManager, JaxModule, ServingConfig, load

# A Keras model: batch normalization and a dense layer of one unit, which takes two features.
model = load(next(Path(__file__).parent.glob("graftax/savedmodel_io/testdata/*/keras_export")))
predict, params = model.convert("serving_default")
outputs, _ = jax.jit(predict)(params, features=jnp.ones((3, 2)))
assert outputs["output_0"].shape == (3, 1)

gradients = jax.grad(lambda p: predict(p, features=jnp.ones((3, 2)))[0]["output_0"].sum())(params)
assert float(gradients["sequential/head/bias"][0]) == 3.0

folder = Path(tempfile.mkdtemp(), "model")
module = JaxModule({"w": jnp.ones(2)}, lambda params, x: x @ params["w"], trainable=True)
ExportManager(
  module, [ServingConfig("serving_default", [jax.ShapeDtypeStruct(jax.export.symbolic_shape("batch, 2"), jnp.float32)])]
).save(folder)
serve, params = load(folder).convert("serving_default")
assert float(serve(params, inputs_0=jnp.ones((3, 2)))[0]["output_0"][0]) == 2.0
