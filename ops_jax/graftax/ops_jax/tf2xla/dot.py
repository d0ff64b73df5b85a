"""tf2xla's general matrix product."""

import jax
import jax.numpy as jnp
import numpy as np

from graftax.ops_jax._core.errors import InvalidInputError
from graftax.ops_jax._core.known import canonical_dtype
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array
from graftax.ops_jax.tf2xla.proto_fields import integer_fields

__all__ = ["precisions", "xla_dot", "xla_dot_v2"]

_PRECISIONS = (jax.lax.Precision.DEFAULT, jax.lax.Precision.HIGH, jax.lax.Precision.HIGHEST)


def precisions(op: str, precision_config: bytes) -> tuple[jax.lax.Precision, jax.lax.Precision] | None:
  """Returns the precisions of both operands in a serialized `xla.PrecisionConfig`, or None for the default.

  Args:
    op: name of the op, for messages.
    precision_config: the serialized message.

  Raises:
    InvalidInputError: the bytes are not such a message, or contain an unknown precision.
  """
  numbers = integer_fields(op, precision_config, fields=(1,)).get(1, [])
  if any(number >= len(_PRECISIONS) for number in numbers):
    raise InvalidInputError(f"{op}: precision_config={precision_config!r} has operand precisions {numbers}; at most 2.")
  return (_PRECISIONS[numbers[0]], _PRECISIONS[numbers[1]]) if len(numbers) == 2 else None


@register("XlaDot", ignores=("T",))
def xla_dot(lhs: Array, rhs: Array, *, dimension_numbers: bytes, precision_config: bytes) -> Array:
  """Computes the general product of two tensors.

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
  """Computes the general product of two tensors with sums in the dtype of the result.

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
  axes = integer_fields("XlaDot", dimension_numbers)
  product = jax.lax.dot_general(
    jnp.asarray(lhs),
    jnp.asarray(rhs),
    ((axes.get(1, []), axes.get(2, [])), (axes.get(3, []), axes.get(4, []))),
    precision=precisions("XlaDot", precision_config),
    preferred_element_type=dtype,
  )
  return product if dtype is None else product.astype(dtype)
