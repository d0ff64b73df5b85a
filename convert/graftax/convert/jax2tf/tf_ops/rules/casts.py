"""Conversions between dtypes."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from graftax.convert.jax2tf.short_integers import is_short_integer
from graftax.convert.jax2tf.tf_ops.builder import Builder
from graftax.convert.jax2tf.tf_ops.registry import rule
from graftax.convert.jax2tf.tf_ops.rules._common import (
  at_least_float32,
  broadcast,
  cast,
  compare,
  full,
  is_nan,
  select,
)
from graftax.convert.jax2tf.tf_ops.tensors import Tensor
from graftax.graphdef_ir import DType
from graftax.xla_call_module.lax_extras import highest, lowest


@rule("convert_element_type", ignores=("weak_type",))
def convert_element_type(b: Builder, x: Tensor, *, new_dtype: Any) -> Tensor:
  """Returns the values as another dtype. Floats beyond the range of integers become its bounds, and NaN zero."""
  dtype = np.dtype(new_dtype)
  if x.unrounded is not None and x.unrounded.dtype == dtype:
    return x.unrounded
  if x.narrow is not None and x.dtype != dtype:
    return broadcast(b, convert_element_type(b, x.narrow, new_dtype=dtype), x.shape)
  if x.dtype.kind == "c" and dtype.kind != "c":
    x = b.op("Real", x, shape=x.shape, Tout=DType.from_numpy(np.float32 if x.dtype == np.complex64 else np.float64))
  if is_short_integer(x.dtype):
    x = cast(b, x, np.int8)
  if dtype == np.bool_ and x.dtype != np.bool_:
    has_compare = not x.is_float or x.dtype.itemsize > 1
    return compare(b, "NotEqual", x if has_compare else at_least_float32(b, x), 0)
  if x.is_float and jnp.issubdtype(dtype, np.integer):
    return cast(b, _float_to_integer(b, x, dtype), dtype)
  if x.dtype == np.bool_ and dtype.kind == "c":
    x = cast(b, x, np.float32)
  return cast(b, x, dtype)


def _float_to_integer(b: Builder, x: Tensor, dtype: "np.dtype[Any]") -> Tensor:
  """Returns integers in the range of a dtype, rounded towards zero; below 8 bits they are int8.

  TensorFlow's Cast leaves open what numbers out of range become.
  """
  x = at_least_float32(b, x)
  low, high = int(lowest(dtype)), int(highest(dtype))
  dtype = np.dtype(np.int8) if is_short_integer(dtype) else dtype
  # `high + 1` is a power of two, so it is exact in every float dtype.
  above = compare(b, "GreaterEqual", x, float(high) + 1 if float(high) == high else float(high))
  below = compare(b, "LessEqual", x, float(low))
  outside = b.op("LogicalOr", b.op("LogicalOr", above, below, shape=x.shape), is_nan(b, x), shape=x.shape)
  inside = cast(b, select(b, outside, full(b, x, 0), x, x.shape), dtype)
  limited = select(b, above, np.asarray(high, dtype), inside, x.shape)
  return select(b, below, np.asarray(low, dtype), limited, x.shape)
