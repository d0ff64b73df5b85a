"""Smoke test of the wheel, run where only its declared dependencies can be imported. Not shipped."""

from pathlib import Path

import jax
import jax.numpy as jnp

from graftax.savedmodel_io import load

# A Keras model: batch normalization and a dense layer of one unit, which takes two features.
model = load(next(Path(__file__).parent.glob("graftax/savedmodel_io/testdata/*/keras_export")))
predict, params = model.convert("serving_default")
outputs, _ = jax.jit(predict)(params, features=jnp.ones((3, 2)))
assert outputs["output_0"].shape == (3, 1)

gradients = jax.grad(lambda p: predict(p, features=jnp.ones((3, 2)))[0]["output_0"].sum())(params)
assert float(gradients["sequential/head/bias"][0]) == 3.0
