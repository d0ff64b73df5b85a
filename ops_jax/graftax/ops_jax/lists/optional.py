"""Optionals, in which a branch saves values for the branch of its gradient: OptionalFromValue."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from graftax.graphdef_ir import DType, PartialShape
from graftax.ops_jax._core.context import Context
from graftax.ops_jax._core.errors import InvalidInputError
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array, Unconverted, Value
from graftax.ops_jax.variants.optional_value import OptionalValue
from graftax.ops_jax.variants.structures import OneOf, array_dtype, as_held, is_variant, kind_of, only, released

__all__ = [
  "optional_from_value",
  "optional_get_value",
  "optional_has_value",
  "optional_none",
]


@register("OptionalFromValue")
def optional_from_value(components: Unconverted, *, Toutput_types: tuple[DType, ...]) -> OptionalValue:
  """Returns an optional that holds tensors.

  Source op: `tf.raw_ops.OptionalFromValue`.
  """
  held = tuple(
    as_held(component, None if is_variant(component) else dtype.numpy)
    for component, dtype in zip(components, Toutput_types, strict=True)
  )
  return OptionalValue({tuple(map(kind_of, held)): held}, np.True_)


@register("OptionalNone")
def optional_none() -> OptionalValue:
  """Returns an empty optional.

  Source op: `tf.raw_ops.OptionalNone`.
  """
  return OptionalValue({}, np.False_)


@register("OptionalHasValue")
def optional_has_value(optional: OptionalValue) -> Array:
  """Returns whether an optional holds a value.

  Source op: `tf.raw_ops.OptionalHasValue`.
  """
  return only(optional, OptionalValue, None, "OptionalHasValue").has_value


@register("OptionalGetValue")
def optional_get_value(
  ctx: Context, optional: OptionalValue, *, output_types: tuple[DType, ...], output_shapes: tuple[PartialShape, ...]
) -> tuple[Value, ...]:
  """Returns the tensors that an optional holds.

  Source op: `tf.raw_ops.OptionalGetValue`.

  Raises:
    InvalidInputError: no stored value matches these types and shapes, or more than one does.

  Differs from TF: if the optional is empty depending on traced data, the result is unspecified instead of an error.
  """
  what = f"OptionalGetValue node {ctx.node_name!r} (function {ctx.function_name!r})"
  alternatives = only(optional, OptionalValue, None, what).alternatives
  fitting = [
    key for key in alternatives if len(key) == len(output_types) and all(map(_fits, key, output_types, output_shapes))
  ]
  if len(fitting) == 1:
    return tuple(map(released, alternatives[fitting[0]]))
  if len(fitting) > 1 and tuple(output_types) == (DType.VARIANT,):
    return (OneOf({key[0]: alternatives[key][0] for key in fitting}),)
  problem = "holds nothing" if not fitting else "may hold several things"
  raise InvalidInputError(
    f"{what}: the optional {problem} of types {[str(dtype) for dtype in output_types]} and shapes "
    f"{[str(shape) for shape in output_shapes]}; it holds {[list(key) for key in alternatives]}."
  )


def _fits(kind: Sequence[Any], dtype: DType, shape: PartialShape) -> bool:
  if kind[0] in ("list", "one of", "optional"):
    return dtype is DType.VARIANT
  return dtype is not DType.VARIANT and kind[0] == str(array_dtype(dtype.numpy)) and shape.is_compatible_with(kind[1])
