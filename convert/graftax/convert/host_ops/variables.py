"""Variables of strings: ReadVariableOp, ResourceGather."""

import numpy as np

from graftax.convert.host_ops.registry import host_op
from graftax.convert.program import StringVariable
from graftax.ops_jax import InvalidInputError, UnsupportedAttrError

__all__ = ["read_variable_op", "resource_gather"]


@host_op("ReadVariableOp", ignores=("dtype",))
def read_variable_op(resource: StringVariable) -> np.ndarray:
  """Returns the strings of a variable."""
  return resource.value


@host_op("ResourceGather", ignores=("dtype", "Tindices", "validate_indices"))
def resource_gather(resource: StringVariable, indices: np.ndarray, *, batch_dims: int = 0) -> np.ndarray:
  """Returns rows of a variable of strings.

  Raises:
    InvalidInputError: an index is out of range.
    UnsupportedAttrError: `batch_dims` is not 0.
  """
  values = resource.value
  if batch_dims:
    raise UnsupportedAttrError(f"ResourceGather: batch_dims={batch_dims!r} of strings is not supported; expected 0.")
  if np.any((indices < 0) | (indices >= len(values))):
    raise InvalidInputError(f"ResourceGather: an index is out of range for {len(values)} rows.")
  return values[indices]
