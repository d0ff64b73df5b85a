"""Packed integers as numbers: XlaDequantize."""

import jax
import jax.numpy as jnp
import numpy as np

from graftax.ops_jax._core.errors import InvalidInputError, UnsupportedAttrError
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array

__all__ = ["xla_dequantize"]

_PACKED = 4


@register("XlaDequantize")
def xla_dequantize(input: Array, *, min_range: float, max_range: float, mode: str, transpose_output: bool) -> jax.Array:
  """Unpacks four 8-bit numbers from each integer, and maps them linearly to a range.

  Source op: `XlaDequantize` (tf2xla).

  Args:
    input: `[rows, columns]` uint32. The highest byte comes first.
    min_range: the number for byte 0.
    max_range: the number for byte 255, but for the rounding of the step to bfloat16.
    mode: `"MIN_COMBINED"`.
    transpose_output: return the transpose.

  Returns:
    `[rows, 4 * columns]` bfloat16, or its transpose.

  Raises:
    UnsupportedAttrError: another mode, which XLA does not have either.
    InvalidInputError: the input is not a matrix.
  """
  if mode != "MIN_COMBINED":
    raise UnsupportedAttrError(f"XlaDequantize: mode={mode!r} is not supported; expected 'MIN_COMBINED'.")
  if input.ndim != 2:
    raise InvalidInputError(f"XlaDequantize: input has shape {input.shape}; expected a matrix.")
  rows, columns = input.shape
  shifts = np.arange(24, -8, -8, dtype=np.uint32)
  bytes_ = (jnp.asarray(input, jnp.uint32)[..., None] >> shifts) & np.uint32(255)
  # XLA computes in bfloat16: byte times step, plus the least number.
  step = jnp.asarray((np.float32(max_range) - np.float32(min_range)) / np.float32(255), jnp.bfloat16)
  numbers = bytes_.reshape(rows, _PACKED * columns).astype(jnp.bfloat16) * step
  result = numbers + jnp.asarray(min_range, jnp.bfloat16)
  return result.T if transpose_output else result
