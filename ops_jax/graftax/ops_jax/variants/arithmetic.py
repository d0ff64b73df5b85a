"""Zeros and sums of tensor lists and optionals, which their derivatives need."""

import dataclasses
import functools
from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np

from graftax.ops_jax._core.errors import InvalidInputError
from graftax.ops_jax._core.values import Value
from graftax.ops_jax.variants.optional_value import OptionalValue
from graftax.ops_jax.variants.padded_value import PaddedElement, RaggedValue
from graftax.ops_jax.variants.structures import Constant, OneOf, conformed, joined, shapes_of
from graftax.ops_jax.variants.tensor_array_gradient import FlowGradient
from graftax.ops_jax.variants.tensor_list_value import TensorList

__all__ = ["sum_of_variants", "zeros_of_variant"]


def zeros_of_variant(value: Value) -> Value:
  """Returns a list or an optional of the same structure and length, with zeros in its arrays."""
  match value:
    case Constant():
      return Constant(np.zeros(value.value.shape, value.dtype), value.dtype)
    case OneOf():
      return OneOf({kind: zeros_of_variant(item) for kind, item in value.alternatives.items()})
    case OptionalValue():
      alternatives = {key: tuple(map(zeros_of_variant, items)) for key, items in value.alternatives.items()}
      return OptionalValue(alternatives, value.has_value)
    case TensorList():
      return dataclasses.replace(value, buffer=None if value.buffer is None else zeros_of_variant(value.buffer))
    case FlowGradient():
      return FlowGradient(jnp.zeros_like(value.buffer))
    case PaddedElement():
      return dataclasses.replace(value, padded=jnp.zeros_like(value.padded))
    case RaggedValue():
      return dataclasses.replace(value, values=zeros_of_variant(value.values))
  return jnp.zeros_like(value)


def sum_of_variants(values: Sequence[Value], what: str) -> Value:
  """Returns the sum, array by array, of lists of one length or of optionals. Unwritten elements count as zeros.

  Raises:
    InvalidInputError: they differ in length, or in the shapes of what they hold.
  """
  return functools.reduce(functools.partial(_sum, what=what), values)


def _sum(first: Value, second: Value, what: str) -> Value:
  if isinstance(first, FlowGradient):
    return first + second
  if isinstance(second, FlowGradient):
    return second + first
  structure = joined(shapes_of(first), shapes_of(second))
  if isinstance(structure, TensorList) and not structure.has_static_length and _has_static_lengths(first, second):
    raise InvalidInputError(f"{what}: lists of {first.length} and {second.length} elements cannot be added.")
  return _added(conformed(first, structure), conformed(second, structure))


def _has_static_lengths(first: TensorList, second: TensorList) -> bool:
  return first.has_static_length and second.has_static_length


def _added(first: Value, second: Value) -> Value:
  match first:
    case Constant():
      return Constant(first.value + second.value, first.dtype)
    case OneOf():
      return OneOf({kind: _added(item, second.alternatives[kind]) for kind, item in first.alternatives.items()})
    case OptionalValue():
      alternatives = {
        key: tuple(_added(a, b) for a, b in zip(items, second.alternatives[key], strict=True))
        for key, items in first.alternatives.items()
      }
      return OptionalValue(alternatives, first.has_value)
    case TensorList():
      return dataclasses.replace(first, buffer=None if first.buffer is None else _added(first.buffer, second.buffer))
    case PaddedElement():
      return dataclasses.replace(first, padded=jnp.add(first.padded, second.padded))
    case RaggedValue():
      return dataclasses.replace(first, values=_added(first.values, second.values))
  return jnp.add(first, second)
