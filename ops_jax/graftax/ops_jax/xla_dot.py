"""tf2xla's general matrix product."""

import jax
import jax.numpy as jnp
import numpy as np

from graftax.ops_jax.errors import InvalidInputError
from graftax.ops_jax.known import canonical_dtype
from graftax.ops_jax.registry import register
from graftax.ops_jax.values import Array

__all__ = ["xla_dot", "xla_dot_v2"]

_PRECISIONS = (jax.lax.Precision.DEFAULT, jax.lax.Precision.HIGH, jax.lax.Precision.HIGHEST)


@register("XlaDot", ignores=("T",))
def xla_dot(lhs: Array, rhs: Array, *, dimension_numbers: bytes, precision_config: bytes) -> Array:
  """General product of two tensors.

  Source op: `XlaDot` (tf2xla).

  Args:
    lhs: any numeric dtype.
    rhs: dtype of `lhs`.
    dimension_numbers: serialized `xla.DotDimensionNumbers`.
    precision_config: serialized `xla.PrecisionConfig`.

  Returns:
    Batch axes, then the free axes of `lhs`, then those of `rhs`; dtype of `lhs`.
  """
  return _dot(lhs, rhs, dimension_numbers, precision_config, None)


@register("XlaDotV2", ignores=("LhsT", "RhsT"))
def xla_dot_v2(
  lhs: Array, rhs: Array, *, dimension_numbers: bytes, precision_config: bytes, preferred_element_type: np.dtype
) -> Array:
  """General product of two tensors, summed in the result's own dtype.

  Source op: `XlaDotV2` (tf2xla).

  Args:
    lhs: any numeric dtype.
    rhs: any numeric dtype.
    dimension_numbers: serialized `xla.DotDimensionNumbers`.
    precision_config: serialized `xla.PrecisionConfig`.
    preferred_element_type: dtype of the result.

  Returns:
    Batch axes, then the free axes of `lhs`, then those of `rhs`.
  """
  return _dot(lhs, rhs, dimension_numbers, precision_config, canonical_dtype(preferred_element_type))


def _dot(lhs: Array, rhs: Array, dimension_numbers: bytes, precision_config: bytes, dtype: np.dtype | None) -> Array:
  axes = _integer_fields(dimension_numbers)
  precisions = [_PRECISIONS[p] for p in _integer_fields(precision_config).get(1, [])]
  product = jax.lax.dot_general(
    jnp.asarray(lhs),
    jnp.asarray(rhs),
    ((axes.get(1, []), axes.get(2, [])), (axes.get(3, []), axes.get(4, []))),
    precision=tuple(precisions) if len(precisions) == 2 else None,
    preferred_element_type=dtype,
  )
  return product if dtype is None else product.astype(dtype)


def _integer_fields(message: bytes) -> dict[int, list[int]]:
  """Repeated integer fields of a serialized protobuf message, packed or not, by field number."""
  fields: dict[int, list[int]] = {}
  position = 0
  while position < len(message):
    tag, position = _varint(message, position)
    if tag & 7 == 0:
      value, position = _varint(message, position)
      fields.setdefault(tag >> 3, []).append(value)
    elif tag & 7 == 2:
      length, position = _varint(message, position)
      end = position + length
      while position < end:
        value, position = _varint(message, position)
        fields.setdefault(tag >> 3, []).append(value)
    else:
      raise InvalidInputError(f"XlaDot: a message of integers has wire type {tag & 7} at byte {position}.")
  return fields


def _varint(message: bytes, position: int) -> tuple[int, int]:
  value = shift = 0
  while True:
    if position >= len(message) or shift > 63:
      raise InvalidInputError(f"XlaDot: a message of {len(message)} bytes ends within an integer.")
    byte = message[position]
    value |= (byte & 0x7F) << shift
    position, shift = position + 1, shift + 7
    if byte < 0x80:
      return value, position
