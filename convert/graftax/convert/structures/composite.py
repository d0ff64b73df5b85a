"""Tensors made of several tensors: ragged, sparse and sliced ones, as JAX sees them.

A converted function takes and returns these where the TensorFlow function takes and returns the classes of the same
names. They are pytrees, so every JAX transform passes through them. In a structure of specs, an instance whose fields
are `TensorSpec`s stands for one.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

__all__ = ["CompositeTensor", "IndexedSlices", "RaggedTensor", "SparseTensor"]

_Composite = TypeVar("_Composite", bound="CompositeTensor")

# Any in this module: a field holds an array, a tracer, a spec, or whatever else a JAX transform puts into a pytree.


@dataclasses.dataclass(frozen=True)
class CompositeTensor:
  """What the classes below have in common: fields that are flattened in TensorFlow's order."""

  @property
  def components(self) -> tuple[Any, ...]:
    """The tensors that this is passed as, in TensorFlow's order; a field that is None is not passed."""
    values = [getattr(self, field.name) for field in dataclasses.fields(self)]
    return tuple(
      part for value in values for part in (value if isinstance(value, tuple) else (value,)) if part is not None
    )

  @property
  def component_names(self) -> tuple[str, ...]:
    """What to call each of `components` in a message."""
    names: list[str] = []
    for field in dataclasses.fields(self):
      value = getattr(self, field.name)
      if isinstance(value, tuple):
        names += (f"{field.name}[{i}]" for i in range(len(value)))
      elif value is not None:
        names.append(field.name)
    return tuple(names)

  def with_components(self: _Composite, components: Sequence[Any]) -> _Composite:
    """The same with other tensors, one for each of `components`."""
    left = iter(components)
    fields: dict[str, Any] = {}
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
    flat_values: `[num_values, ...]`, the values of all rows one after the other.
    row_splits: for each ragged dimension from the outermost in, `[num_rows + 1]` integers: row `i` has the values
      `splits[i]` to `splits[i + 1]` of the next level.

  Example:
    >>> RaggedTensor.from_lists([[1, 2], [], [3]]).row_splits[0].tolist()
    [0, 2, 2, 3]
  """

  flat_values: Any
  row_splits: tuple[Any, ...]

  @classmethod
  def from_lists(
    cls, rows: Sequence[Any], *, ragged_rank: int | None = None, dtype: Any = None, row_splits_dtype: Any = np.int64
  ) -> "RaggedTensor":
    """A ragged tensor from nested lists, as `tf.ragged.constant` makes it.

    Args:
      rows: lists nested equally deep.
      ragged_rank: how many levels of nesting are ragged; by default all but the outermost.
      dtype: of the values; by default float32 for floats and int32 for integers.
      row_splits_dtype: int32 or int64.

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

  def to_lists(self) -> list[Any]:
    """Nested lists of Python values."""
    level = np.asarray(self.flat_values).tolist()
    for splits in reversed(self.row_splits):
      bounds = np.asarray(splits).tolist()
      level = [level[start:stop] for start, stop in zip(bounds[:-1], bounds[1:], strict=True)]
    return level


@dataclasses.dataclass(frozen=True)
class SparseTensor(CompositeTensor):
  """The elements of a tensor that are not zero; the counterpart of `tf.SparseTensor`.

  Attributes:
    indices: `[n, rank]` integers.
    values: `[n]`.
    dense_shape: `[rank]` integers.

  Example:
    >>> SparseTensor.from_dense([[0.0, 5.0], [0.0, 0.0]]).indices.tolist()
    [[0, 1]]
  """

  indices: Any
  values: Any
  dense_shape: Any

  @classmethod
  def from_dense(cls, dense: Any) -> "SparseTensor":
    """The elements of an array, or of nested lists, that are not zero."""
    array = _values(dense, None)
    indices = np.argwhere(array).astype(np.int64)
    return cls(indices, array[tuple(indices.T)], np.array(array.shape, np.int64))

  def to_dense(self) -> np.ndarray:
    """The array, with zeros where nothing is stored. Of equal indices the last one counts."""
    dense = np.zeros(tuple(np.asarray(self.dense_shape).tolist()), np.asarray(self.values).dtype)
    dense[tuple(np.asarray(self.indices).T)] = self.values
    return dense

  def to_lists(self) -> Any:
    """`to_dense` as nested lists."""
    return self.to_dense().tolist()


@dataclasses.dataclass(frozen=True)
class IndexedSlices(CompositeTensor):
  """Some rows of a tensor; the counterpart of `tf.IndexedSlices`, which gradients of lookups are.

  Attributes:
    values: `[n, ...]`, the rows.
    indices: `[n]` integers: row `i` belongs at `indices[i]`. Rows of equal indices add up.
    dense_shape: `[rank]` integers, or None where it is not known.
  """

  values: Any
  indices: Any
  dense_shape: Any = None

  def to_dense(self, num_rows: int | None = None) -> jax.Array:
    """The whole tensor, with zeros for the rows that are not there.

    Args:
      num_rows: size of the first dimension, where `dense_shape` does not tell.

    Raises:
      ValueError: neither tells it.
    """
    if num_rows is None:
      if self.dense_shape is None:
        raise ValueError("IndexedSlices.to_dense: dense_shape is not known; pass num_rows.")
      num_rows = int(np.asarray(self.dense_shape)[0])
    values = jnp.asarray(self.values)
    return jnp.zeros((num_rows, *values.shape[1:]), values.dtype).at[jnp.asarray(self.indices)].add(values)


for _class in (RaggedTensor, SparseTensor, IndexedSlices):
  jax.tree_util.register_dataclass(_class, [field.name for field in dataclasses.fields(_class)], [])


def _depth(value: Any) -> int:
  if isinstance(value, np.ndarray):
    return value.ndim
  return 1 + max((_depth(item) for item in value), default=0) if isinstance(value, list | tuple) else 0


def _values(value: Any, dtype: Any) -> np.ndarray:
  array = np.asarray(value, dtype)
  if dtype is None and not isinstance(value, np.ndarray | np.generic) and not hasattr(value, "dtype"):
    # Python numbers become what TensorFlow makes of them.
    plain = {"f": np.float32, "i": np.int32}.get(array.dtype.kind)
    array = array.astype(np.float32 if array.size == 0 else plain) if plain else array
  return array
