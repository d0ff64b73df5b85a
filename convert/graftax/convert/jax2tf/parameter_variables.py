"""The parameters of a JAX function as TensorFlow variables: their names and values."""

import re

import jax
import jax.numpy as jnp
import numpy as np

from graftax.convert.errors import ConversionError
from graftax.convert.jax2tf.argument_names import path_name
from graftax.convert.jax2tf.traced_function import array_spec
from graftax.convert.live.variables import unique_name
from graftax.convert.pytrees import Leaf, PyTree
from graftax.convert.variable import Variable
from graftax.ops_jax import Array

__all__ = ["parameter_variables", "variable_names"]


def variable_names(params: PyTree, separator: str = "/") -> tuple[str, ...]:
  """Returns the name of the variable of each leaf of a pytree: its path, such as "dense/kernel".

  What TensorFlow does not allow in names becomes an underscore. A name that is then taken gets a number.

  Args:
    params: a pytree; what its leaves are does not matter.
    separator: written between the keys of a path.

  Returns:
    A name per leaf, in the order of `jax.tree.leaves(params)`.

  Example:
    >>> variable_names({"dense": {"kernel": 0, "bias": 1}})
    ('dense/bias', 'dense/kernel')
  """
  taken: dict[str, None] = {}
  for path, _ in jax.tree_util.tree_leaves_with_path(params):
    taken[unique_name(_allowed(path_name(path, separator)), taken)] = None
  return tuple(taken)


def parameter_variables(params: PyTree, function: str) -> dict[str, Variable]:
  """Returns a variable for each leaf of a pytree, by name; the dtypes are those that JAX gives the arrays.

  Numbers are trainable and integers are not. An array in the memory of the host is not copied. A leaf that only has a
  shape and a dtype becomes zeros that take no memory.

  Raises:
    ConversionError: a leaf is not an array; `function` is the name of the function in the message.
  """
  leaves = jax.tree.leaves(params)
  return {
    name: Variable(_value(leaf, f"{function}: parameter {name!r}"), f"{name}:0", _is_trainable(leaf))
    for name, leaf in zip(variable_names(params), leaves, strict=True)
  }


def _allowed(name: str) -> str:
  name = re.sub(r"[^A-Za-z0-9_.\\/>-]", "_", name) or "params"
  return name if re.match(r"[A-Za-z0-9.]", name) else f"params{name if name[0] == '/' else '/' + name}"


def _value(leaf: Leaf, where: str) -> np.ndarray:
  spec = array_spec(leaf, where)
  if isinstance(leaf, jax.ShapeDtypeStruct) or not hasattr(leaf, "__array__") and hasattr(leaf, "dtype"):
    spec = jax.eval_shape(_key_data, spec)
    return np.broadcast_to(np.zeros((), spec.dtype), spec.shape)
  if jnp.issubdtype(spec.dtype, jax.dtypes.prng_key):
    return np.asarray(jax.random.key_data(leaf))
  array, value = np.asarray(leaf), np.asarray(leaf, spec.dtype)
  if value.dtype != array.dtype and value.dtype.kind in "iu" and not np.array_equal(value, array):
    raise ConversionError(
      f"{where} has {array.dtype} values beyond {value.dtype}; switch jax_enable_x64 on to keep them."
    )
  return value


def _key_data(array: Array) -> Array:
  return jax.random.key_data(array) if jnp.issubdtype(array.dtype, jax.dtypes.prng_key) else array


def _is_trainable(leaf: Leaf) -> bool:
  dtype = leaf.dtype if hasattr(leaf, "dtype") else np.result_type(leaf)
  return bool(jnp.issubdtype(dtype, jnp.inexact))
