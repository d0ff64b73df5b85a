"""The flat arguments of `call_tf`, as arrays that JAX and TensorFlow have."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from graftax.convert._tensorflow import TensorFlow, TfTensor
from graftax.convert.errors import InputError
from graftax.convert.jax2tf.argument_names import argument_names
from graftax.convert.jax2tf.traced_function import array_spec
from graftax.convert.pytrees import Leaf, PyTree
from graftax.ops_jax import Array

__all__ = ["argument_arrays"]


def argument_arrays(
  tf: TensorFlow,
  leaves: Sequence[Leaf],
  function: Callable[..., Any],
  args: tuple[PyTree, ...],
  kwargs: Mapping[str, PyTree],
) -> list[Array]:
  """Returns the leaves of a call as JAX arrays, tracers, or NumPy arrays of a dtype that JAX has.

  Args:
    tf: TensorFlow.
    leaves: the flat arguments.
    function: the function that is called, for the names of arguments in messages.
    args: its nested positional arguments.
    kwargs: its nested keyword arguments.

  Raises:
    InputError: an argument is not an array, or TensorFlow does not have its dtype.
    ConversionError: JAX does not have its dtype.
  """

  def where(position: int) -> str:
    names = argument_names(function, args, kwargs)
    name = repr(names[position]) if len(names) == len(leaves) else str(position)
    return f"call_tf: {getattr(function, '__name__', type(function).__name__)}: argument {name}"

  return [_array(tf, leaf, functools.partial(where, position)) for position, leaf in enumerate(leaves)]


def _array(tf: TensorFlow, leaf: object, where: Callable[[], str]) -> Array:
  if isinstance(leaf, tf.Tensor | tf.Variable):
    leaf = _value(tf, leaf, where)
  if not isinstance(leaf, jax.Array | np.ndarray | np.generic | bool | int | float | complex):
    raise InputError(
      f"{where()} is {leaf!r:.80}, a {type(leaf).__name__}; expected an array or a number. Bind other values with "
      f"functools.partial."
    )
  if jax.numpy.issubdtype(getattr(leaf, "dtype", np.float32), jax.dtypes.prng_key):
    raise InputError(f"{where()} is a PRNG key, which TensorFlow does not have; pass jax.random.key_data(key).")
  spec = array_spec(leaf, where()) if not isinstance(leaf, jax.Array) else leaf
  try:
    tf.as_dtype(spec.dtype)
  except TypeError as e:
    raise InputError(f"{where()} has dtype {spec.dtype}, which TensorFlow does not have; cast it.") from e
  return leaf if isinstance(leaf, jax.Array) else np.asarray(leaf, spec.dtype)


def _value(tf: TensorFlow, tensor: TfTensor, where: Callable[[], str]) -> np.ndarray:
  with tf.init_scope():
    if isinstance(tensor, tf.Variable):
      return np.asarray(tensor.numpy())
    if hasattr(tensor, "numpy"):
      return np.asarray(tensor.numpy())
  raise InputError(
    f"{where()} is {tensor!r:.120}, a tensor of a tf.function that is being traced, which JAX cannot read. Call the "
    f"TensorFlow function directly, or convert the JAX function around it with jax2tf.convert."
  )
