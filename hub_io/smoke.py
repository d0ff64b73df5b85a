"""Smoke test of the wheel, run where only its declared dependencies can be imported. Not shipped."""

from pathlib import Path

import jax
import jax.numpy as jnp

from graftax.hub_io import load

# A module of TF1: a dense layer of three units, which takes four features, and batch normalization.
folder = next(Path(__file__).parent.glob("graftax/hub_io/testdata/*/tf1_module"))
module = load(folder, tags={"train"})
embed, params = module.convert()
outputs, _ = jax.jit(embed)(params, default=jnp.ones((2, 4)))
assert outputs["default"].shape == (2, 3)
