"""Parameters that files of other libraries can hold."""

import jax
import numpy as np

from graftax.savedmodel_io.errors import TensorValueError
from graftax.savedmodel_io.pytrees import Leaf

__all__ = ["array_of_numbers"]


def array_of_numbers(name: str, value: Leaf) -> np.ndarray | jax.Array:
  """Returns a parameter as an array.

  Raises:
    TensorValueError: it is not one, or holds strings or keys of random numbers.
  """
  is_array = isinstance(value, np.ndarray | np.generic | jax.Array)
  if not is_array or jax.numpy.issubdtype(value.dtype, jax.dtypes.extended) or value.dtype.kind in "OSU":
    text = " ".join(f"{value!r:.80}".split())
    raise TensorValueError(f"parameter {name!r} is {text}; expected an array of numbers.")
  # `Variable` is a subclass, which not all libraries accept.
  return value if isinstance(value, jax.Array) else np.asarray(value)
