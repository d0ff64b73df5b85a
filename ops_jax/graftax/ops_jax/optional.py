"""Optionals: how TensorFlow hands the intermediate values of a conditional's branch to the branch of its gradient.

TensorFlow may put different things into one optional in different branches. Whatever any branch puts there is an
alternative here, and whoever reads the optional says by type and shape which one is meant.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from graftax.graphdef_ir import DType, PartialShape
from graftax.ops_jax.errors import InvalidInputError
from graftax.ops_jax.known import canonical_dtype
from graftax.ops_jax.registry import register
from graftax.ops_jax.values import Array, Value, materialize

__all__ = [
  "OptionalValue",
  "completed",
  "optional_from_value",
  "optional_get_value",
  "optional_has_value",
  "optional_none",
]

_Components: TypeAlias = tuple[Value, ...]
# Per component: dtype and shape of an array, or nothing for another optional or a tensor list.
_Key: TypeAlias = tuple[tuple[Any, ...], ...]


@jax.tree_util.register_pytree_node_class
@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class OptionalValue:
  """Some tensors, or nothing.

  Attributes:
    alternatives: by their types, the tensors that it may hold. Empty for nothing, until control flow needs tensors of
      the right shapes in their place.
    has_value: whether there is something.
  """

  alternatives: Mapping[_Key, _Components]
  has_value: Value

  def tree_flatten(self) -> tuple[tuple[Any, ...], tuple[_Key, ...]]:
    keys = tuple(sorted(self.alternatives, key=str))
    return (*(self.alternatives[key] for key in keys), self.has_value), keys

  @classmethod
  def tree_unflatten(cls, keys: tuple[_Key, ...], children: tuple[Any, ...]) -> "OptionalValue":
    return cls(dict(zip(keys, children[:-1], strict=True)), children[-1])


def completed(results: tuple[Value, ...], seen: dict[int, OptionalValue]) -> list[Value]:
  """Results of a branch, with tensors in place of nothing where another branch has some.

  Args:
    results: the results of one branch.
    seen: position of a result -> shapes of what branches put there; what these results hold is added.
  """
  full = list(results)
  for position, value in enumerate(results):
    if isinstance(value, OptionalValue):
      # Arrays of the branch must not leave it; their shapes may.
      shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), value)
      seen[position] = _union(seen[position], shapes) if position in seen else shapes
      full[position] = _filled(value, seen[position])
  return full


def _union(first: OptionalValue, second: OptionalValue) -> OptionalValue:
  alternatives = {**first.alternatives, **second.alternatives}
  for key in first.alternatives.keys() & second.alternatives.keys():
    pairs = zip(first.alternatives[key], second.alternatives[key], strict=True)
    alternatives[key] = tuple(_union(a, b) if isinstance(a, OptionalValue) else a for a, b in pairs)
  return OptionalValue(alternatives, first.has_value)


def _filled(value: OptionalValue, shapes: OptionalValue) -> OptionalValue:
  alternatives = {}
  for key, wanted in shapes.alternatives.items():
    if key in value.alternatives:
      pairs = zip(value.alternatives[key], wanted, strict=True)
      alternatives[key] = tuple(_filled(v, w) if isinstance(v, OptionalValue) else v for v, w in pairs)
    else:
      # Ones, since `vmap` runs both branches, and a logarithm or a quotient of zeros would spoil derivatives.
      alternatives[key] = jax.tree.map(lambda leaf: jnp.ones(leaf.shape, leaf.dtype), wanted)
  return OptionalValue(alternatives, value.has_value)


@register("OptionalFromValue", ignores=("Toutput_types",))
def optional_from_value(components: list[Array]) -> OptionalValue:
  """An optional that holds tensors.

  Source op: `tf.raw_ops.OptionalFromValue`.
  """
  arrays = tuple(jax.tree.map(lambda leaf: jnp.asarray(materialize(leaf)), component) for component in components)
  key = tuple((str(a.dtype), tuple(a.shape)) if isinstance(a, jax.Array) else () for a in arrays)
  return OptionalValue({key: arrays}, np.True_)


@register("OptionalNone")
def optional_none() -> OptionalValue:
  """An optional that holds nothing.

  Source op: `tf.raw_ops.OptionalNone`.
  """
  return OptionalValue({}, np.False_)


@register("OptionalHasValue")
def optional_has_value(optional: OptionalValue) -> Array:
  """Whether an optional holds something.

  Source op: `tf.raw_ops.OptionalHasValue`.
  """
  return optional.has_value


@register("OptionalGetValue")
def optional_get_value(
  optional: OptionalValue, *, output_types: tuple[DType, ...], output_shapes: tuple[PartialShape, ...]
) -> tuple[Value, ...]:
  """What an optional holds.

  Source op: `tf.raw_ops.OptionalGetValue`.

  Raises:
    InvalidInputError: it is known to hold nothing of these types and shapes.

  Differs from TF: where it depends on traced data that it holds nothing, the result has no meaning.
  """
  for key, components in optional.alternatives.items():
    if len(key) == len(output_types) and all(map(_fits, key, output_types, output_shapes)):
      return components
  held = [list(key) for key in optional.alternatives]
  raise InvalidInputError(
    f"OptionalGetValue: the optional holds nothing of types {[str(dtype) for dtype in output_types]}; it holds {held}."
  )


def _fits(key: Sequence[Any], dtype: DType, shape: PartialShape) -> bool:
  if dtype is DType.VARIANT or not key:
    return dtype is DType.VARIANT and not key
  return key[0] == str(canonical_dtype(dtype.numpy)) and shape.is_compatible_with(key[1])
