"""A plugin of pytest for Keras's own tests of exporting: Keras on JAX finds `graftax.convert.jax2tf` in place of JAX's.

    KERAS_BACKEND=jax pytest -p graftax.testing.keras_export --pyargs keras.src.export.saved_model_test

`make keras-export` runs them.
"""

import sys

import jax.experimental

from graftax.convert import jax2tf

__all__: list[str] = []

# Keras imports it with `from jax.experimental import jax2tf`.
sys.modules["jax.experimental.jax2tf"] = jax2tf
vars(jax.experimental)["jax2tf"] = jax2tf
