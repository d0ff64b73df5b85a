"""Common structures of tensor lists and optionals, for JAX's control flow.

JAX needs one structure for the results of all branches, for a loop variable in all iterations and for all elements of a
list. TensorFlow does not: an optional may be empty in one branch, a list may be longer. `joined` returns a structure
with room for both of two values, and `conformed` converts a value to such a structure.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeAlias, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from graftax.ops_jax._core.errors import InvalidInputError
from graftax.ops_jax._core.known import canonical_dtype
from graftax.ops_jax._core.values import Value, is_known, is_string, materialize
from graftax.ops_jax.variants.optional_value import OptionalValue
from graftax.ops_jax.variants.padded_value import PaddedElement, RaggedValue, as_leaf, zeros
from graftax.ops_jax.variants.tensor_array_gradient import FlowGradient
from graftax.ops_jax.variants.tensor_list_value import VARIANT, TensorList, larger

__all__ = [
  "Constant",
  "OneOf",
  "Structure",
  "array_dtype",
  "array_structure",
  "as_held",
  "chosen",
  "conformed",
  "is_variant",
  "joined",
  "joined_elements",
  "kind_of",
  "only",
  "released",
  "shapes_of",
  "with_element",
]

Structure: TypeAlias = Any
"""A value of a graph with a `jax.ShapeDtypeStruct` for each array."""

_Kind: TypeAlias = tuple[Any, ...]
_Variant = TypeVar("_Variant")

# Larger known values are stored as arrays: shapes and counters are never as large.
_MAX_CONSTANT_SIZE = 64


@jax.tree_util.register_pytree_node_class
@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Constant:
  """A value in a list or an optional that is known while tracing, so that shapes stay known on their way through.

  Attributes:
    value: a known array; symbolic dimensions may be in it.
    dtype: its dtype as an array.
  """

  value: np.ndarray
  dtype: np.dtype

  @property
  def array(self) -> jax.Array:
    """Returns the value as a JAX array."""
    return jnp.asarray(materialize(self.value, self.dtype), self.dtype)

  def tree_flatten(self) -> tuple[tuple[()], "Constant"]:
    return (), self

  @classmethod
  def tree_unflatten(cls, aux: "Constant", children: tuple[()]) -> "Constant":
    return aux

  def __eq__(self, other: object) -> bool:
    return (
      isinstance(other, Constant)
      and self.dtype == other.dtype
      and self.value.shape == other.value.shape
      and all(a == b for a, b in zip(self.value.flat, other.value.flat, strict=True))
    )

  def __hash__(self) -> int:
    return hash((self.dtype, self.value.shape, tuple(self.value.flat)))


@jax.tree_util.register_pytree_node_class
@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class OneOf:
  """Several alternatives for a tensor list or an optional; the op that reads it selects one.

  Attributes:
    alternatives: the possible values, by kind.
  """

  alternatives: Mapping[_Kind, Value]

  def tree_flatten(self) -> tuple[tuple[Value, ...], tuple[_Kind, ...]]:
    kinds = tuple(sorted(self.alternatives, key=str))
    return tuple(self.alternatives[kind] for kind in kinds), kinds

  @classmethod
  def tree_unflatten(cls, kinds: tuple[_Kind, ...], children: tuple[Value, ...]) -> "OneOf":
    return cls(dict(zip(kinds, children, strict=True)))


def is_variant(value: Value) -> bool:
  """Returns whether a value is a tensor list, an optional, a ragged tensor or a gradient of a TensorArray."""
  return isinstance(value, (TensorList, OptionalValue, OneOf, FlowGradient, RaggedValue))


def kind_of(value: Value) -> _Kind:
  """Returns the key that distinguishes alternatives: dtype and shape of an array, the kind of a list's elements."""
  match value:
    case TensorList():
      return ("list", str(value.element_dtype), _kind_of_elements(value))
    case OptionalValue():
      return ("optional",)
    case OneOf():
      return ("one of",)
    case FlowGradient():
      return ("gradients",)
    case RaggedValue():
      return ("ragged", str(value.values.dtype), len(value.splits))
    case PaddedElement():
      return (str(value.dtype), value.sizes)
    case Constant():
      return (str(array_dtype(value.dtype)), value.value.shape)
  return (str(value.dtype), tuple(value.shape))


def only(value: Value, kind: type[_Variant], dtype: np.dtype | None, what: str) -> _Variant:
  """Returns `value` as a list or an optional.

  Args:
    value: one, or a `OneOf` that has one such alternative.
    kind: `TensorList` or `OptionalValue`.
    dtype: element dtype of the list, or None for any.
    what: description of the reader, for messages.

  Raises:
    InvalidInputError: there is no such alternative, or there are several.
  """
  candidates = _alternatives(value)
  of_kind = [item for item in candidates if isinstance(item, kind)]
  found = [item for item in of_kind if dtype is None or _has_dtype(item, dtype)]
  if not found and dtype is not None:
    found = [item for item in of_kind if _has_float_dtype(item, dtype)]
  if len(found) != 1:
    given = [kind_of(item) if is_variant(item) else type(item).__name__ for item in candidates]
    raise InvalidInputError(f"{what}: expected one {kind.__name__} of dtype {dtype}; got {given}.")
  return found[0]


def _alternatives(value: Value) -> list[Value]:
  if isinstance(value, OneOf):
    return [item for alternative in value.alternatives.values() for item in _alternatives(alternative)]
  return [value]


def chosen(value: OneOf, like: Value) -> Value:
  """Returns the alternative of `value` of the kind of `like`; `value` itself if there is none, or several."""
  found = [item for item in _alternatives(value) if kind_of(item) == kind_of(like)]
  return found[0] if len(found) == 1 else value


def as_held(value: Value, dtype: np.dtype | None, *, keep_known: bool = True) -> Value:
  """Returns a value in the form stored in lists and optionals: an array, a `Constant`, a list or an optional.

  Args:
    value: any.
    dtype: of an array; None for its own.
    keep_known: whether a small known value becomes a `Constant`.
  """
  if is_variant(value) or isinstance(value, PaddedElement):
    return value
  if keep_known and is_known(value) and (np.size(value) <= _MAX_CONSTANT_SIZE or is_string(np.asarray(value))):
    known = np.asarray(value)
    return Constant(known, np.dtype(np.int32 if known.dtype == object else known.dtype) if dtype is None else dtype)
  array = materialize(value)
  if isinstance(array, bytes) or is_string(array):
    return as_leaf(array, np.dtype(object))
  array = array if hasattr(array, "dtype") else np.asarray(array)
  return as_leaf(array, canonical_dtype(array.dtype if dtype is None else dtype))


def released(value: Value) -> Value:
  """Returns a stored value as an ordinary value."""
  return value.value if isinstance(value, Constant) else value


def shapes_of(value: Value) -> Structure:
  """Returns the structure of a value."""
  return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(np.shape(leaf), leaf.dtype), value)


def joined(first: Structure, second: Structure) -> Structure:
  """Returns a structure that has room for values of either structure.

  Raises:
    InvalidInputError: arrays differ in shape or dtype, or one value is an array and the other is not.
  """
  match first, second:
    case Constant(), Constant() if first == second:
      return first
    case FlowGradient(), FlowGradient():
      return jax.eval_shape(lambda a, b: a + b, first, second)
    # The other one carries no gradient.
    case FlowGradient(), _:
      return first
    case _, FlowGradient():
      return second
    case OneOf(), OneOf():
      return OneOf(_joined_alternatives(first.alternatives, second.alternatives, joined))
    case OptionalValue(), OptionalValue():
      alternatives = _joined_alternatives(first.alternatives, second.alternatives, _joined_components)
      return OptionalValue(alternatives, jax.ShapeDtypeStruct((), bool))
    case TensorList(), TensorList() if first.element_dtype == second.element_dtype:
      return _joined_lists(first, second)
    case RaggedValue(), RaggedValue() if kind_of(first) == kind_of(second):
      splits = tuple(map(joined_elements, first.splits, second.splits))
      return RaggedValue(splits, joined_elements(first.values, second.values))
    case (PaddedElement(), _) | (_, PaddedElement()):
      return joined_elements(first, second)
  arrays = [array_structure(value) for value in (first, second)]
  if any(is_variant(array) for array in arrays) or kind_of(arrays[0]) != kind_of(arrays[1]):
    raise InvalidInputError(f"{_describe(first)} and {_describe(second)} in one place; JAX needs one shape and dtype.")
  return arrays[0]


def joined_elements(first: Structure, second: Structure) -> Structure:
  """Returns a structure that has room for elements of a list of either structure, which may be arrays of other sizes.

  Raises:
    InvalidInputError: arrays differ in rank or dtype, or one value is an array and the other is not.
  """
  arrays = [array_structure(value) for value in (first, second)]
  if any(map(is_variant, arrays)):
    return joined(first, second)
  a, b = map(_as_padded, arrays)
  if a.sizes == b.sizes and not any(isinstance(array, PaddedElement) for array in arrays):
    return joined(first, second)
  known = all(isinstance(size, int) for size in (*a.padded.shape, *b.padded.shape))
  if a.dtype != b.dtype or len(a.lengths) != len(b.lengths) or not known:
    raise InvalidInputError(f"{_describe(first)} and {_describe(second)} in one place; JAX needs one rank and dtype.")
  padded: Structure = jax.ShapeDtypeStruct(tuple(map(max, a.padded.shape, b.padded.shape)), a.dtype)
  length: Structure = jax.ShapeDtypeStruct((), np.int32)
  are_same = [m == n and m is not None for m, n in zip(a.sizes, b.sizes, strict=True)]
  return PaddedElement(padded, tuple(None if is_same else length for is_same in are_same))


def _as_padded(value: Structure) -> PaddedElement:
  return value if isinstance(value, PaddedElement) else PaddedElement(value, (None,) * len(value.shape))


def conformed(value: Value, structure: Structure) -> Value:
  """Converts `value` to `structure`, which is its structure joined with others."""
  if isinstance(structure, FlowGradient):
    capacity, *element = structure.buffer.shape
    return FlowGradient.of(value, capacity, tuple(element), structure.buffer.dtype)
  if isinstance(structure, PaddedElement):
    return _padded_like(value, structure)
  match value:
    case Constant():
      return value if isinstance(structure, Constant) else value.array
    case OneOf():
      return OneOf(
        {
          kind: conformed(value.alternatives[kind], wanted) if kind in value.alternatives else _blank(wanted)
          for kind, wanted in structure.alternatives.items()
        }
      )
    case OptionalValue():
      return _conformed_optional(value, structure)
    case TensorList():
      return _conformed_list(value, structure)
    case RaggedValue():
      splits = tuple(map(_padded_like, value.splits, structure.splits))
      return RaggedValue(splits, _padded_like(value.values, structure.values))
  return value


def _padded_like(value: Value, structure: PaddedElement) -> PaddedElement:
  """Returns an array, or several along an axis in front, padded to the sizes of `structure`."""
  rank = len(structure.lengths)
  array = value.array if isinstance(value, Constant) else value
  element = array if isinstance(array, PaddedElement) else PaddedElement(array, (None,) * rank)
  lengths = [None if needed is None else element.length(axis) for axis, needed in enumerate(structure.lengths)]
  num_front = element.padded.ndim - rank
  sizes, wanted = element.padded.shape[num_front:], structure.padded.shape[structure.padded.ndim - rank :]
  missing = [(0, 0)] * num_front + [(0, most - size) for most, size in zip(wanted, sizes, strict=True)]
  padded = jnp.pad(element.padded, missing) if any(map(max, missing)) else element.padded
  return PaddedElement(padded, tuple(lengths))


def _kind_of_elements(value: TensorList) -> _Kind | None:
  if value.buffer is not None:
    return kind_of(value.element)
  shape = value.element_shape
  if value.element_dtype == VARIANT or shape is None or None in shape:
    return None
  return (str(array_dtype(value.element_dtype)), shape)


def array_dtype(dtype: np.dtype) -> np.dtype:
  """Returns JAX's dtype for a dtype; strings, which JAX does not have, keep theirs."""
  return dtype if dtype.kind == "O" else canonical_dtype(dtype)


def _has_dtype(value: Value, dtype: np.dtype) -> bool:
  return not isinstance(value, TensorList) or value.element_dtype == dtype


def _has_float_dtype(value: Value, dtype: np.dtype) -> bool:
  # A list of an array in another precision than the graph declares.
  return jnp.issubdtype(dtype, jnp.floating) and jnp.issubdtype(value.element_dtype, jnp.floating)


def array_structure(value: Structure) -> Structure:
  """Returns the structure of a stored value, with an array for a `Constant`."""
  if not isinstance(value, Constant):
    return value
  if value.dtype.kind == "O":
    raise InvalidInputError(f"strings {value.value!r} and others in one place; JAX has no strings.")
  return jax.ShapeDtypeStruct(value.value.shape, canonical_dtype(value.dtype))


def _describe(value: Structure) -> str:
  return type(value).__name__ if is_variant(value) else f"an array of shape {kind_of(value)[1]} and {kind_of(value)[0]}"


def _joined_alternatives(
  first: Mapping[_Kind, Structure], second: Mapping[_Kind, Structure], join: Any
) -> dict[_Kind, Structure]:
  both = {key: join(first[key], second[key]) for key in first.keys() & second.keys()}
  return {**first, **second, **both}


def _joined_components(first: tuple[Structure, ...], second: tuple[Structure, ...]) -> tuple[Structure, ...]:
  return tuple(joined(a, b) for a, b in zip(first, second, strict=True))


def _joined_lists(first: TensorList, second: TensorList) -> TensorList:
  elements = [value.element for value in (first, second) if value.buffer is not None]
  capacity = larger(first.capacity, second.capacity)
  buffer = None
  if elements:
    element = joined_elements(elements[0], elements[-1])
    buffer = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((capacity, *leaf.shape), leaf.dtype), element)
  same_length = first.has_static_length and second.has_static_length and first.length == second.length
  return dataclasses.replace(
    first,
    buffer=buffer,
    length=first.length if same_length else jax.ShapeDtypeStruct((), np.int32),
    capacity=capacity,
    element_shape=_common_shape(first.element_shape, second.element_shape),
    max_length=first.max_length if first.max_length == second.max_length else None,
    has_room=first.has_room if first.has_room == second.has_room else False,
  )


def _common_shape(
  first: tuple[int | None, ...] | None, second: tuple[int | None, ...] | None
) -> tuple[int | None, ...] | None:
  if first is None or second is None or len(first) != len(second):
    return None
  return tuple(a if a == b else None for a, b in zip(first, second, strict=True))


def _conformed_optional(value: OptionalValue, structure: OptionalValue) -> OptionalValue:
  alternatives = {}
  for key, wanted in structure.alternatives.items():
    if key in value.alternatives:
      pairs = zip(value.alternatives[key], wanted, strict=True)
      alternatives[key] = tuple(conformed(component, shape) for component, shape in pairs)
    else:
      alternatives[key] = tuple(map(_never_read, wanted))
  return OptionalValue(alternatives, value.has_value)


def _conformed_list(value: TensorList, structure: TensorList) -> TensorList:
  fitted = value
  if structure.buffer is not None:
    fitted = with_element(fitted, structure.element).with_capacity(structure.capacity)
  length = value.length if structure.has_static_length else jnp.asarray(value.length, np.int32)
  return dataclasses.replace(structure, buffer=fitted.buffer, length=length, peak=value.peak)


def with_element(value: TensorList, element: Structure) -> TensorList:
  """Converts a list to elements of a structure with room for its own; zeros if it has no buffer."""
  if (value.buffer is None or value.capacity == 0) and isinstance(element, jax.ShapeDtypeStruct):
    # Not one element that is repeated: a list without elements takes no memory, however large these would be.
    buffer = zeros((value.capacity, *element.shape), element.dtype)
  elif value.buffer is None or value.capacity == 0:
    blank = _blank(element)
    buffer = jax.tree.map(lambda leaf: _repeated(leaf, value.capacity), blank)
  elif _same(value.element, element):
    return value
  elif isinstance(element, (PaddedElement, RaggedValue)):
    buffer = conformed(value.buffer, element)
  else:
    buffer = jax.vmap(lambda item: conformed(item, element), axis_size=value.capacity)(value.buffer)
  return dataclasses.replace(value, buffer=buffer)


def _same(first: Structure, second: Structure) -> bool:
  first_tree: object
  second_tree: object
  first_leaves, first_tree = jax.tree.flatten(first)
  second_leaves, second_tree = jax.tree.flatten(second)
  return first_tree == second_tree and [leaf.shape for leaf in first_leaves] == [leaf.shape for leaf in second_leaves]


def _repeated(leaf: Value, times: Any) -> Value:
  xp = np if isinstance(leaf, np.ndarray) and isinstance(times, int) else jnp
  return xp.broadcast_to(leaf, (times, *leaf.shape))


def _blank(structure: Structure) -> Value:
  """Returns the value of an element that was never written: zeros, as in TensorFlow."""
  if isinstance(structure, OptionalValue):
    return _conformed_optional(OptionalValue({}, jnp.zeros(structure.has_value.shape, bool)), structure)
  if isinstance(structure, PaddedElement):
    lengths = tuple(None if n is None else np.zeros(n.shape, np.int32) for n in structure.lengths)
    return PaddedElement(jnp.zeros(structure.padded.shape, structure.dtype), lengths)
  return jax.tree.map(
    lambda part: (
      _blank(part) if isinstance(part, (OptionalValue, PaddedElement)) else jnp.zeros(part.shape, part.dtype)
    ),
    structure,
    is_leaf=lambda part: isinstance(part, (OptionalValue, PaddedElement)),
  )


def _never_read(structure: Structure) -> Value:
  # Ones, since `vmap` runs both branches, and a logarithm or a quotient of zeros would make derivatives NaN.
  return jax.tree.map(lambda leaf: jnp.ones(leaf.shape, leaf.dtype), structure)
