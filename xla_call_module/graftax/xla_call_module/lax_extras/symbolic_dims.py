"""Symbolic dimensions of `jax.export` as values."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import InconclusiveDimensionOperation

__all__ = ["InconclusiveDimensionOperation", "stack_dims"]


def stack_dims(dims: np.ndarray, dtype: Any) -> jax.Array:
  """Returns an object array of integers and symbolic dimensions as a traced array of `dtype`.

  Args:
    dims: dtype object, any shape but an empty one: integers, or dimensions of `jax.export.symbolic_shape`.
    dtype: the integer dtype of the result.

  Returns:
    The shape of `dims`.
  """
  entries = [jnp.asarray(dim, dtype) for dim in dims.flat]
  return jnp.stack(entries).reshape(dims.shape) if dims.ndim else entries[0]
