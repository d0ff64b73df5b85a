"""Tensors made of several arrays: ragged tensors, sparse tensors and indexed slices.

A converted function uses these in place of TensorFlow's classes of the same names. They are pytrees, so they work with
all JAX transforms. A `dense_shape` in NumPy is part of the structure of the pytree: it stays known under `jit`, which
compiles again for another one. In a structure of specs, the fields of an instance are `TensorSpec`s.
"""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from graftax.convert.pytrees import Leaf, PyTree

__all__ = ["CompositeTensor", "IndexedSlices", "RaggedTensor", "SparseTensor"]

_Composite = TypeVar("_Composite", bound="CompositeTensor")


@dataclasses.dataclass(frozen=True)
class CompositeTensor:
  """Base class of composite tensors, whose fields are flattened in TensorFlow's order."""

  @property
  def components(self) -> tuple[Leaf, ...]:
    """Returns the tensors of all fields, in TensorFlow's order; fields that are None are left out."""
    values = [getattr(self, field.name) for field in dataclasses.fields(self)]
    return tuple(
      part for value in values for part in (value if isinstance(value, tuple) else (value,)) if part is not None
    )

  @property
  def component_names(self) -> tuple[str, ...]:
    """Returns a name for each of `components`, for messages."""
    names: list[str] = []
    for field in dataclasses.fields(self):
      value = getattr(self, field.name)
      if isinstance(value, tuple):
        names += (f"{field.name}[{i}]" for i in range(len(value)))
      elif value is not None:
        names.append(field.name)
    return tuple(names)

  def with_components(self: _Composite, components: Sequence[Leaf]) -> _Composite:
    """Returns a copy with other tensors, one for each of `components`."""
    left = iter(components)
    fields: dict[str, Leaf] = {}
    for field in dataclasses.fields(self):
      value = getattr(self, field.name)
      if isinstance(value, tuple):
        fields[field.name] = tuple(next(left) for _ in value)
      else:
        fields[field.name] = None if value is None else next(left)
    return type(self)(**fields)


@dataclasses.dataclass(frozen=True)
class RaggedTensor(CompositeTensor):
  """Rows of different lengths; the counterpart of `tf.RaggedTensor`.

  Attributes:
    flat_values: `[num_values, ...]`, the concatenated values of all rows.
    row_splits: for each ragged dimension, outermost first, `[num_rows + 1]` integers. Row `i` consists of the elements
      `splits[i]` to `splits[i + 1]` of the next level.

  Example:
    >>> RaggedTensor.from_lists([[1, 2], [], [3]]).row_splits[0].tolist()
    [0, 2, 2, 3]
  """

  flat_values: Leaf
  row_splits: tuple[Leaf, ...]

  @classmethod
  def from_lists(
    cls,
    rows: Sequence[PyTree],
    *,
    ragged_rank: int | None = None,
    dtype: DTypeLike | None = None,
    row_splits_dtype: DTypeLike = np.int64,
  ) -> "RaggedTensor":
    """Returns a ragged tensor made from nested lists, as `tf.ragged.constant` does.

    Args:
      rows: lists, all nested to the same depth.
      ragged_rank: the number of ragged dimensions; by default all but the outermost are ragged.
      dtype: the dtype of the values; by default float32 for floats and int32 for integers.
      row_splits_dtype: the dtype of `row_splits`, int32 or int64.

    Raises:
      ValueError: rows are nested to different depths, or differ in length below the ragged levels.
    """
    depth = _depth(rows)
    if ragged_rank is None:
      ragged_rank = max(1, depth - 1)
    if not 1 <= ragged_rank <= max(1, depth - 1):
      raise ValueError(
        f"RaggedTensor.from_lists: ragged_rank={ragged_rank!r}; lists nested {depth} deep allow 1 to {depth - 1}."
      )
    splits, level = [], list(rows)
    for _ in range(ragged_rank):
      if not all(isinstance(row, list | tuple | np.ndarray) for row in level):
        raise ValueError(f"RaggedTensor.from_lists: rows are nested to different depths in {rows!r}.")
      splits.append(np.cumsum([0, *map(len, level)], dtype=row_splits_dtype))
      level = [item for row in level for item in row]
    return cls(_values(level, dtype), tuple(splits))

  def to_lists(self) -> list[PyTree]:
    """Returns nested lists of Python values."""
    level = np.asarray(self.flat_values).tolist()
    for splits in reversed(self.row_splits):
      bounds = np.asarray(splits).tolist()
      level = [level[start:stop] for start, stop in zip(bounds[:-1], bounds[1:], strict=True)]
    return level


@dataclasses.dataclass(frozen=True)
class SparseTensor(CompositeTensor):
  """The nonzero elements of a tensor; the counterpart of `tf.SparseTensor`.

  Attributes:
    indices: `[n, rank]` integers.
    values: `[n]`.
    dense_shape: `[rank]` integers. Under `jit`, most functions need it as a NumPy array.

  Example:
    >>> SparseTensor.from_dense([[0.0, 5.0], [0.0, 0.0]]).indices.tolist()
    [[0, 1]]
  """

  indices: Leaf
  values: Leaf
  dense_shape: Leaf

  @classmethod
  def from_dense(cls, dense: PyTree) -> "SparseTensor":
    """Returns a sparse tensor of the nonzero elements of an array or nested lists."""
    array = _values(dense, None)
    indices = np.argwhere(array).astype(np.int64)
    return cls(indices, array[tuple(indices.T)], np.array(array.shape, np.int64))

  def to_dense(self) -> np.ndarray:
    """Returns the dense array. If an index occurs more than once, its last value is used."""
    dense = np.zeros(tuple(np.asarray(self.dense_shape).tolist()), np.asarray(self.values).dtype)
    dense[tuple(np.asarray(self.indices).T)] = self.values
    return dense

  def to_lists(self) -> PyTree:
    """Returns `to_dense()` as nested lists."""
    return self.to_dense().tolist()


@dataclasses.dataclass(frozen=True)
class IndexedSlices(CompositeTensor):
  """Some rows of a tensor, such as the gradient of a lookup; the counterpart of `tf.IndexedSlices`.

  Attributes:
    values: `[n, ...]`, the rows.
    indices: `[n]` integers: `values[i]` is row `indices[i]` of the tensor. Rows with equal indices are added.
    dense_shape: `[rank]` integers, or None if it is not known.
  """

  values: Leaf
  indices: Leaf
  dense_shape: Leaf = None

  def to_dense(self, num_rows: int | None = None) -> jax.Array:
    """Returns the whole tensor, with zeros for all other rows.

    Args:
      num_rows: size of the first dimension; needed if `dense_shape` is None.

    Raises:
      ValueError: `num_rows` and `dense_shape` are both None.
    """
    if num_rows is None:
      if self.dense_shape is None:
        raise ValueError("IndexedSlices.to_dense: dense_shape is not known; pass num_rows.")
      num_rows = int(np.asarray(self.dense_shape)[0])
    values = jnp.asarray(self.values)
    return jnp.zeros((num_rows, *values.shape[1:]), values.dtype).at[jnp.asarray(self.indices)].add(values)


def _register(kind: type[CompositeTensor]) -> None:
  names = [field.name for field in dataclasses.fields(kind)]

  def flatten(composite: Leaf) -> tuple[list[tuple[Leaf, Leaf]], tuple[Leaf, ...] | None]:
    known = _known_shape(composite)
    children = [(jax.tree_util.GetAttrKey(name), getattr(composite, name)) for name in names]
    return children if known is None else [child for child in children if child[0].name != _SHAPE], known

  def unflatten(known: tuple[Any, ...] | None, children: Iterable[Leaf]) -> CompositeTensor:
    if known is None:
      return kind(*children)
    left = iter(children)
    sizes, dtype = known
    return kind(*(np.array(sizes, dtype) if name == _SHAPE else next(left) for name in names))

  jax.tree_util.register_pytree_with_keys(kind, flatten, unflatten)


_SHAPE = "dense_shape"


def _known_shape(composite: Leaf) -> tuple[Any, ...] | None:
  """Returns sizes and dtype of a `dense_shape` in NumPy, which can be compared and hashed; None for any other."""
  shape = getattr(composite, _SHAPE, None)
  return (tuple(shape.tolist()), shape.dtype.str) if isinstance(shape, np.ndarray) and shape.ndim == 1 else None


for _class in (RaggedTensor, SparseTensor, IndexedSlices):
  _register(_class)


def _depth(value: object) -> int:
  if isinstance(value, np.ndarray):
    return value.ndim
  return 1 + max((_depth(item) for item in value), default=0) if isinstance(value, list | tuple) else 0


def _values(value: object, dtype: DTypeLike | None) -> np.ndarray:
  array = np.asarray(value, dtype)
  if dtype is None and not isinstance(value, np.ndarray | np.generic) and not hasattr(value, "dtype"):
    # Python numbers get the dtypes that TensorFlow gives them.
    plain = {"f": np.float32, "i": np.int32}.get(array.dtype.kind)
    array = array.astype(np.float32 if array.size == 0 else plain) if plain else array
  return array
