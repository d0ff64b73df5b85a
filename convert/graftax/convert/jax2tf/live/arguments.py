"""Arguments of a converted function: pytrees of tensors, variables, arrays and numbers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from graftax.convert._tensorflow import TensorFlow, TfDType, TfTensor
from graftax.convert.jax2tf.live.dtypes import jax_dtype
from graftax.convert.pytrees import Leaf, PyTree

__all__ = ["ArgumentSpec", "argument_key", "argument_spec", "as_tensor", "flatten"]


def flatten(tf: TensorFlow, args: tuple[PyTree, ...], kwargs: Mapping[str, PyTree]) -> tuple[list[Leaf], PyTree]:
  """Returns the leaves and the structure of `(args, kwargs)`.

  Containers that TensorFlow wrapped because they are attributes of a `tf.Module` count as the plain containers, and
  objects that TensorFlow can convert, such as variables of Keras, as their values.
  """
  leaves, structure = jax.tree.flatten((args, kwargs))
  if any(map(_is_wrapped, leaves)):
    leaves, structure = jax.tree.flatten(jax.tree.map(_unwrapped, (args, kwargs)))
  return [tf.convert_to_tensor(leaf) if _is_keras_variable(leaf) else leaf for leaf in leaves], structure


def argument_key(tf: TensorFlow, leaf: object) -> Any:
  """Returns a hashable value that is the same for arguments with the same `argument_spec`.

  Every call computes it, so it does less than `argument_spec`, and checks nothing.
  """
  if isinstance(leaf, tf.Tensor | tf.Variable):
    shape = leaf.shape
    return tf.Tensor, leaf.dtype, None if shape.rank is None else tuple(shape)
  if isinstance(leaf, bool | int | float | complex):
    return type(leaf)
  return type(leaf), getattr(leaf, "shape", None), getattr(leaf, "dtype", None)


@dataclass(frozen=True, slots=True)
class ArgumentSpec:
  """Shape and dtype of an argument, as JAX sees them.

  Attributes:
    shape: a dimension of None is not known. `jax.ShapeDtypeStruct` refuses None since JAX 0.12.
    dtype: the dtype.
  """

  shape: tuple[int | None, ...]
  dtype: np.dtype


def argument_spec(tf: TensorFlow, leaf: object) -> ArgumentSpec:
  """Returns shape and dtype of an argument.

  Raises:
    TypeError: JAX cannot hold the argument.
    ValueError: the rank of a tensor is not known.
  """
  if isinstance(leaf, tf.Tensor | tf.Variable):
    if leaf.shape.rank is None:
      raise ValueError(
        f"jax2tf.convert: argument {leaf} has an unknown rank; expected a number of dimensions, as of "
        "tf.TensorSpec([None, 3]). Use tf.ensure_shape, or an input_signature that tells it. (jax.experimental.jax2tf: "
        "Cannot iterate over a shape with unknown rank.)"
      )
    # Dimensions of TensorFlow 1 are objects.
    return ArgumentSpec(tuple(getattr(dim, "value", dim) for dim in leaf.shape), jax_dtype(leaf.dtype))
  aval = jax.typeof(leaf)
  if not _is_number(aval.dtype) or isinstance(leaf, jax.core.Tracer):
    raise TypeError(
      f"Argument {leaf} of type {type(leaf)} of jax2tf.convert(f) should be NumPy array, scalar, tf.Variable, or "
      "tf.Tensor"
    )
  return ArgumentSpec(aval.shape, aval.dtype)


def as_tensor(tf: TensorFlow, leaf: object, dtype: TfDType) -> TfTensor:
  """Returns an argument as a tensor of a TensorFlow dtype. Gradients flow from it to a tensor or variable."""
  if isinstance(leaf, tf.Tensor):
    return leaf if leaf.dtype is dtype else tf.cast(leaf, dtype)
  if isinstance(leaf, tf.Variable):
    return tf.cast(tf.convert_to_tensor(leaf), dtype)
  return tf.convert_to_tensor(np.asarray(leaf, dtype.as_numpy_dtype))


def _is_number(dtype: TfDType) -> bool:
  return jax.numpy.issubdtype(dtype, np.number) or dtype == np.bool_


def _is_keras_variable(leaf: object) -> bool:
  return type(leaf).__module__.startswith("keras.") and hasattr(leaf, "__tf_tensor__") and hasattr(leaf, "assign")


def _is_wrapped(leaf: object) -> bool:
  return isinstance(leaf, list | tuple | dict)


def _unwrapped(leaf: object) -> Leaf:
  match leaf:
    case dict():
      return {key: _unwrapped(value) for key, value in leaf.items()}
    case tuple() if hasattr(leaf, "_fields"):
      return leaf.__class__(*map(_unwrapped, leaf))  # Not its type: TensorFlow wraps tuples in proxies.
    case list() | tuple():
      plain: Sequence[Leaf] = [_unwrapped(value) for value in leaf]
      return tuple(plain) if isinstance(leaf, tuple) else plain
  return leaf
