"""Variables of strings: ReadVariableOp."""

import numpy as np

from graftax.convert.host_ops.registry import host_op
from graftax.convert.program import StringVariable

__all__ = ["read_variable_op"]


@host_op("ReadVariableOp", ignores=("dtype",))
def read_variable_op(resource: StringVariable) -> np.ndarray:
  """Returns the strings of a variable."""
  return resource.value
