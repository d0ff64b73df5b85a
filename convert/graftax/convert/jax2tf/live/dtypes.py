"""The dtypes that TensorFlow values have in JAX."""

import functools

import jax
import numpy as np

from graftax.convert._tensorflow import TfDType, import_tensorflow
from graftax.convert.pytrees import Leaf

__all__ = ["dtype_of_val", "jax_dtype"]


def jax_dtype(tf_dtype: TfDType) -> np.dtype:
  """Returns the dtype that JAX gives to tensors of a TensorFlow dtype; 64 bits become 32 if JAX's are off.

  Raises:
    TypeError: JAX has no such dtype.
  """
  return _jax_dtype(tf_dtype, jax.config.jax_enable_x64)


@functools.cache
def _jax_dtype(tf_dtype: TfDType, enable_x64: bool) -> np.dtype:
  del enable_x64  # Part of the key: `canonicalize_dtype` reads it from JAX's configuration.
  found = np.dtype(jax.dtypes.canonicalize_dtype(tf_dtype.as_numpy_dtype, allow_extended_dtype=False))
  if not (jax.numpy.issubdtype(found, np.number) or found == np.bool_):
    raise TypeError(f"dtype {found} is not a valid JAX array type. Only arrays of numeric types are supported by JAX.")
  return found


def dtype_of_val(val: Leaf) -> TfDType:
  """Returns the TensorFlow dtype that a value has as the argument of a converted function.

  Args:
    val: a tensor, a variable, an array or a number. A tensor keeps its dtype, except that 64 bits become 32 if
      `jax_enable_x64` is off. Other values have the dtype that JAX gives them.

  Raises:
    TypeError: JAX cannot hold the value.
  """
  tf = import_tensorflow("dtype_of_val")
  if isinstance(val, tf.Tensor | tf.Variable):
    return tf.as_dtype(jax_dtype(val.dtype))
  return tf.as_dtype(jax.typeof(val).dtype)
