"""Random tangents and cotangents, with which derivatives are compared."""

import jax.numpy as jnp
import numpy as np

__all__ = ["is_inexact", "random_like"]


def is_inexact(x: np.ndarray) -> bool:
  """Returns whether an array holds floating-point or complex numbers."""
  return bool(jnp.issubdtype(x.dtype, jnp.inexact))


def random_like(rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
  """Returns an array of the same shape and dtype whose numbers, real and imaginary, are between 0.5 and 1.5."""
  values = rng.uniform(0.5, 1.5, x.shape)
  if x.dtype.kind == "c":
    values = values + 1j * rng.uniform(0.5, 1.5, x.shape)
  return np.asarray(values).astype(x.dtype)
