"""Symbolic dimensions of `jax.export` as values."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

__all__ = ["InconclusiveDimensionOperation", "stack_dims"]

# Until jax>=0.10.1: the exception moved from jax.core to jax.errors.
InconclusiveDimensionOperation: type[Exception] = (
  getattr(jax.errors, "InconclusiveDimensionOperation", None) or jax.core.InconclusiveDimensionOperation
)
"""Raised by JAX if symbolic dimensions cannot be compared."""


def stack_dims(dims: np.ndarray, dtype: Any) -> jax.Array:
  """Returns an object array of integers and symbolic dimensions as a traced array of `dtype`."""
  entries = [jnp.asarray(dim, dtype) for dim in dims.flat]
  return jnp.stack(entries).reshape(dims.shape) if dims.ndim else entries[0]
