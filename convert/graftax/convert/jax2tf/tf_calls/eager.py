"""Runs TensorFlow op by op, on the memory of JAX's arrays."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from graftax.convert._tensorflow import TensorFlow, TfTensor, outside_of_graphs
from graftax.convert.jax2tf.live.dtypes import jax_dtype
from graftax.convert.jax2tf.tf_calls.flat_function import FlatFunction
from graftax.ops_jax import Array

__all__ = ["run_eagerly"]

# TensorFlow's DLPack does not have the dtypes of less than 16 bits that NumPy lacks.
_SHARED_DTYPES = frozenset(
  np.dtype(dtype)
  for dtype in (
    *(np.bool_, np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64),
    *(jnp.bfloat16, np.float16, np.float32, np.float64, np.complex64, np.complex128),
  )
)


def run_eagerly(tf: TensorFlow, function: FlatFunction, arrays: Sequence[Array]) -> list[jax.Array]:
  """Returns the flat results of a TensorFlow function, called with arrays.

  On CPU, TensorFlow reads the memory of JAX's arrays, and JAX that of the results. Neither writes into memory that the
  other one can see. NumPy arrays are copied, because their owner may write into them later. A result with 64 bits is
  narrowed if `jax_enable_x64` is off, as JAX does.
  """
  with outside_of_graphs(tf):
    return [_array(result) for result in function(*(_tensor(tf, array) for array in arrays))]


def _tensor(tf: TensorFlow, array: Array) -> TfTensor:
  if isinstance(array, jax.Array) and array.dtype in _SHARED_DTYPES and _is_on_one_cpu(array):
    return tf.experimental.dlpack.from_dlpack(array.__dlpack__())
  return tf.convert_to_tensor(np.asarray(array))


def _array(tensor: TfTensor) -> jax.Array:
  dtype = jax_dtype(tensor.dtype)
  is_kept = dtype in _SHARED_DTYPES and dtype == tensor.dtype.as_numpy_dtype
  if is_kept and "CPU" in tensor.device and jax.default_backend() == "cpu":
    return jax.dlpack.from_dlpack(tensor)
  return jnp.asarray(tensor.numpy())


def _is_on_one_cpu(array: jax.Array) -> bool:
  return len(array.devices()) == 1 and next(iter(array.devices())).platform == "cpu"
