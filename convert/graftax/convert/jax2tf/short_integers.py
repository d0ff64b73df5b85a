"""Integers below 8 bits, such as int4: TensorFlow stores each in a byte, and XLA packs several into one.

A module therefore takes and returns int8 or uint8 in their place, and Cast nodes around it convert them.
"""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from graftax.convert.errors import ConversionError
from graftax.convert.pytrees import Leaf
from graftax.ops_jax import Array

__all__ = ["CAST_BITS", "in_whole_bytes", "is_short_integer", "whole_bytes"]

CAST_BITS = (4,)
"""The lengths of integers below 8 bits that TensorFlow casts to int8 and uint8, and from them."""


def is_short_integer(dtype: DTypeLike) -> bool:
  """Returns whether a dtype is of integers below 8 bits."""
  return bool(jnp.issubdtype(dtype, np.integer)) and jnp.iinfo(dtype).bits < 8


def whole_bytes(spec: jax.ShapeDtypeStruct) -> jax.ShapeDtypeStruct:
  """Returns a spec with int8 or uint8 in place of a shorter integer dtype; other specs unchanged.

  Raises:
    ConversionError: TensorFlow cannot cast the dtype.
  """
  if not is_short_integer(spec.dtype):
    return spec
  if jnp.iinfo(spec.dtype).bits not in CAST_BITS:
    raise ConversionError(f"TensorFlow does not cast {spec.dtype} to other dtypes; use int4, uint4 or a longer dtype.")
  return jax.ShapeDtypeStruct(spec.shape, np.int8 if jnp.iinfo(spec.dtype).min else np.uint8)


def in_whole_bytes(
  function: Callable[..., list[Leaf]], inputs: Sequence[jax.ShapeDtypeStruct]
) -> Callable[..., list[Leaf]]:
  """Returns a function of flat arrays whose arguments and results have the dtypes of `whole_bytes`.

  Args:
    function: a function of flat arrays.
    inputs: shape and dtype of each of its arguments.
  """

  def call(*args: Leaf) -> list[Leaf]:
    given = [_as_dtype(x, spec.dtype) for x, spec in zip(args, inputs, strict=True)]
    return [_as_dtype(result, whole_bytes(result).dtype) for result in function(*given)]

  return call


def _as_dtype(x: Array, dtype: DTypeLike) -> Array:
  return x if x.dtype == dtype else jax.lax.convert_element_type(x, dtype)
