"""The value of an optional: all alternatives that a branch or an iteration may store in it.

TensorFlow may store different values in one optional in different branches. Each is an alternative here. The op that
reads the optional selects one by types and shapes.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeAlias

import jax

from graftax.ops_jax._core.values import Value

__all__ = ["Components", "Key", "OptionalValue"]

Components: TypeAlias = tuple[Value, ...]
# The result of `variants.kind_of` for each component.
Key: TypeAlias = tuple[tuple[Any, ...], ...]


@jax.tree_util.register_pytree_node_class
@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class OptionalValue:
  """Some tensors, or nothing.

  Attributes:
    alternatives: by their kinds, the tensors that it may hold. Empty for nothing, until control flow needs tensors of
      the right shapes in their place.
    has_value: whether the optional holds a value.
  """

  alternatives: Mapping[Key, Components]
  has_value: Value

  def tree_flatten(self) -> tuple[tuple[Any, ...], tuple[Key, ...]]:
    keys = tuple(sorted(self.alternatives, key=str))
    return (*(self.alternatives[key] for key in keys), self.has_value), keys

  @classmethod
  def tree_unflatten(cls, keys: tuple[Key, ...], children: tuple[Any, ...]) -> "OptionalValue":
    return cls(dict(zip(keys, children[:-1], strict=True)), children[-1])
