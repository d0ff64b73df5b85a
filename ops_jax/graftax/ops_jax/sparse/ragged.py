"""Ragged tensors (values and row splits): RaggedRange, RaggedTensorToTensor, RaggedTensorToSparse, RaggedGather."""

import jax
import jax.numpy as jnp
import numpy as np

from graftax.graphdef_ir import Budget
from graftax.ops_jax._core.errors import InvalidInputError, StaticInputError, UnsupportedAttrError
from graftax.ops_jax._core.known import INT64, canonical_dtype
from graftax.ops_jax._core.numeric import search_sorted
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.result_sizes import NO_BUDGET, check_known
from graftax.ops_jax._core.values import Array, Namespace, Static, Value, is_known, namespace

__all__ = ["ragged_gather", "ragged_range", "ragged_tensor_to_sparse", "ragged_tensor_to_tensor"]


@register("RaggedRange", ignores=("T",))
def ragged_range(
  starts: Static[np.ndarray],
  limits: Static[np.ndarray],
  deltas: Static[np.ndarray],
  *,
  Tsplits: np.dtype = INT64,
  budget: Budget = NO_BUDGET,
) -> tuple[np.ndarray, np.ndarray]:
  """Returns rows of evenly spaced numbers.

  Source op: `tf.raw_ops.RaggedRange`.

  Args:
    starts: scalar or `[rows]`; bfloat16, float32, float64, int32 or int64. Must be concrete, as the next two.
    limits: scalar or `[rows]`, not included.
    deltas: scalar or `[rows]`, not 0.
    Tsplits: int32 or int64.
    budget: is asked for memory.

  Returns:
    Row splits `[rows + 1]` of `Tsplits`, and the numbers, dtype of `starts`.

  Raises:
    StaticInputError: an input depends on traced data, and with it the shape of the result.
    InvalidInputError: a delta is 0, or a number is infinite or NaN.
    LimitExceededError: the rows need too much memory.
  """
  if not np.all(deltas):
    raise InvalidInputError("RaggedRange: a delta is 0; expected deltas other than 0.")
  starts, limits, deltas = np.atleast_1d(*np.broadcast_arrays(starts, limits, deltas))
  if starts.dtype.kind in "iu":
    steps = limits.astype(object) - starts.astype(object)
    exact = [max(0, -(-s // int(d))) for s, d in zip(steps, deltas.tolist(), strict=True)]
  else:
    with np.errstate(all="ignore"):
      steps = (limits - starts).astype(np.float64)
      counts = np.ceil(np.abs(steps / deltas.astype(np.float64))) * (np.sign(steps) == np.sign(deltas))
    if not np.all(np.isfinite(counts)):
      raise InvalidInputError("RaggedRange: a row does not have a finite number of steps.")
    exact = list(map(int, counts.tolist()))
  check_known((sum(exact) + 1,), budget, "RaggedRange", 16)
  lengths = np.array(exact, np.int64)
  rows = [_row(start, delta, length) for start, delta, length in zip(starts, deltas, lengths, strict=True)]
  splits = np.concatenate([[0], np.cumsum(lengths)]).astype(Tsplits)
  return splits, np.concatenate([np.zeros(0, starts.dtype), *rows])


def _row(start: np.generic, delta: np.generic, length: int) -> np.ndarray:
  if start.dtype.kind in "iu":
    return start + delta * np.arange(length, dtype=start.dtype)
  # TensorFlow adds the delta repeatedly, with rounding each time.
  steps = np.full(length, delta, start.dtype)
  steps[:1] = start
  return np.add.accumulate(steps, dtype=start.dtype)


@register("RaggedTensorToSparse", ignores=("T", "Tsplits", "RAGGED_RANK"), compared_inputs=("rt_dense_values",))
def ragged_tensor_to_sparse(
  rt_nested_splits: list[Array], rt_dense_values: Array, *, budget: Budget = NO_BUDGET
) -> tuple[Value, Value, Value]:
  """Converts a ragged tensor to coordinates, values and bounding shape.

  Source op: `tf.raw_ops.RaggedTensorToSparse`.

  Args:
    rt_nested_splits: row splits of each ragged axis, outermost first; int32 or int64.
    rt_dense_values: `[n, ...]`, any dtype.
    budget: is asked for memory.

  Returns:
    Coordinates `[nnz, rank]` int64, values `[nnz]`, shape `[rank]` int64. Traced if the splits are.

  Raises:
    LimitExceededError: the coordinates need too much memory.
  """
  xp = namespace(*rt_nested_splits)
  if xp is np:
    rank = len(rt_nested_splits) + rt_dense_values.ndim
    check_known((*rt_dense_values.shape, rank), budget, "RaggedTensorToSparse")
  splits = [xp.asarray(s) for s in rt_nested_splits]
  values_xp = namespace(rt_dense_values)
  inner = rt_dense_values.shape[1:]
  columns = [xp.arange(splits[0].shape[0] - 1)]
  sizes = [splits[0].shape[0] - 1]
  for level, split in enumerate(splits):
    length = rt_dense_values.shape[0] if level + 1 == len(splits) else splits[level + 1].shape[0] - 1
    rows, places = _rows_and_places(split, length, xp)
    columns = [column[rows] for column in columns] + [places]
    widths = split[1:] - split[:-1]
    sizes.append(xp.max(widths) if widths.shape[0] else 0)
  block = int(np.prod(inner, dtype=np.int64))
  columns = [xp.repeat(column, block) for column in columns]
  for axis in range(len(inner)):
    offsets = np.indices(inner)[axis].reshape(-1)
    columns.append(xp.asarray(np.tile(offsets, rt_dense_values.shape[0])))
  dtype = INT64 if xp is np else canonical_dtype(INT64)
  indices = xp.stack([column.astype(dtype) for column in columns], axis=-1)
  shape = xp.stack([xp.asarray(size).astype(dtype) for size in [*sizes, *inner]])
  return indices, values_xp.asarray(rt_dense_values).reshape(-1), shape


def _rows_and_places(splits: Array, length: int, xp: Namespace) -> tuple[Array, Array]:
  """Returns for each of `length` elements its row, and its position in the row."""
  position = xp.arange(length)
  rows = (np.searchsorted(splits, position, side="right") if xp is np else search_sorted(splits, position, "right")) - 1
  if splits.shape[0] == 1:
    return rows, position
  return rows, position - splits[rows]


@register(
  "RaggedTensorToTensor",
  ignores=("T", "Tindex", "Tshape", "num_row_partition_tensors"),
  data_inputs=("values", "default_value"),
)
def ragged_tensor_to_tensor(
  shape: Static[np.ndarray],
  values: Array,
  default_value: Array,
  row_partition_tensors: list[Array],
  *,
  row_partition_types: tuple[str, ...],
  budget: Budget = NO_BUDGET,
) -> Array:
  """Converts a ragged tensor to a dense one, padded with one value.

  Source op: `tf.raw_ops.RaggedTensorToTensor`.

  Args:
    shape: shape of the result; -1, as a scalar or an entry, is inferred. Longer rows are cut.
    values: `[n, ...]`, any dtype.
    default_value: dtype of `values`; broadcasts to the shape of one element.
    row_partition_tensors: row partition of each ragged axis, outermost first.
    row_partition_types: the kind of each: `ROW_SPLITS`, `VALUE_ROWIDS` or `FIRST_DIM_SIZE`.
    budget: is asked for memory.

  Returns:
    Dense, dtype of `values`.

  Raises:
    StaticInputError: a size is -1 and the row splits depend on traced data; a `shape` with numbers in place of -1
      bounds the rows.
    UnsupportedAttrError: another kind of row partition.
    InvalidInputError: the shape or the row splits are not those of the values.
    LimitExceededError: the result needs too much memory.
  """
  splits = _all_splits([_known_if_concrete(t) for t in row_partition_tensors], row_partition_types, budget)
  num_ragged = len(splits)
  inner = tuple(values.shape[1:])
  wanted = [-1] * (1 + num_ragged + len(inner)) if shape.ndim == 0 else shape.tolist()
  if len(wanted) != 1 + num_ragged + len(inner):
    raise InvalidInputError(f"RaggedTensorToTensor: shape {wanted!r} does not have rank {1 + num_ragged + len(inner)}.")
  if not splits or any(isinstance(size, int) and size < -1 for size in wanted):
    raise InvalidInputError(f"RaggedTensorToTensor: shape {wanted!r}; expected sizes of at least 0, or -1.")
  _check_splits(splits, values.shape[0])
  num_rows = splits[0].shape[0] - 1
  outer = [num_rows if wanted[0] == -1 else wanted[0]]
  for level, split in enumerate(splits):
    outer.append(_longest_row(split, level) if wanted[level + 1] == -1 else wanted[level + 1])
  check_known((*outer, *inner), budget, "RaggedTensorToTensor", max(values.dtype.itemsize, 1))
  xp = namespace(*splits)
  columns = [xp.arange(num_rows)]
  for level, split in enumerate(splits):
    length = values.shape[0] if level + 1 == num_ragged else splits[level + 1].shape[0] - 1
    rows, places = _rows_and_places(split, length, xp)
    columns = [_of_rows(column, rows) for column in columns] + [places]
  fill = jnp.broadcast_to(jnp.asarray(default_value, values.dtype), inner)
  dense = jnp.broadcast_to(fill, (*outer, *inner))
  dense = dense.at[tuple(jnp.asarray(c) for c in columns)].set(jnp.asarray(values), mode="drop")
  return dense[tuple(slice(0, n) if n != -1 else slice(None) for n in wanted)]


def _known_if_concrete(value: Array) -> Array:
  """Returns `value` as a numpy array unless it is traced: row splits that JAX has computed give sizes as well."""
  return value if isinstance(value, jax.core.Tracer) else np.asarray(value)


def _of_rows(column: Array, rows: Array) -> Array:
  """Returns the entries of a column at some rows; out of range for values after the last row, which are dropped."""
  if is_known(column) and is_known(rows):
    return column[rows]
  return jnp.asarray(column).at[rows].get(mode="fill", fill_value=np.iinfo(np.int32).max)


def _check_splits(splits: list[Array], num_values: int) -> None:
  """Raises if row splits that are known do not begin at 0, decrease, or do not end at the number of values."""
  ends = [*(split.shape[0] - 1 for split in splits[1:]), num_values]
  for split, end in zip(splits, ends, strict=True):
    if not split.ndim or split.shape[0] == 0:
      raise InvalidInputError(f"RaggedTensorToTensor: row splits of shape {split.shape}; expected at least one.")
    if is_known(split) and (split[0] != 0 or np.any(split[1:] < split[:-1]) or split[-1] > end):
      raise InvalidInputError(f"RaggedTensorToTensor: row splits do not divide {end} values.")


def _longest_row(splits: Array, level: int) -> int:
  if not is_known(splits):
    raise StaticInputError(
      f"RaggedTensorToTensor: axis {level + 1} is as long as the longest row, which depends on traced data. Pass a "
      f"shape that bounds it, for example `ragged.to_tensor(shape=[None, 128])`."
    )
  return int(np.max(splits[1:] - splits[:-1], initial=0))


def _all_splits(tensors: list[Array], types: tuple[str, ...], budget: Budget) -> list[Array]:
  """Returns row splits of each ragged axis."""
  tensors, kinds = list(tensors), list(types)
  first_size: int | None = None
  if kinds and kinds[0] == "FIRST_DIM_SIZE":
    size = tensors.pop(0)
    kinds.pop(0)
    if not is_known(size):
      raise StaticInputError("RaggedTensorToTensor: the number of rows depends on traced data; pass it as a constant.")
    first_size = int(size)
    if first_size < 0:
      raise InvalidInputError(f"RaggedTensorToTensor: {first_size} rows; expected at least 0.")
  splits: list[Array] = []
  for level, (tensor, kind) in enumerate(zip(tensors, kinds, strict=True)):
    if kind == "ROW_SPLITS":
      splits.append(tensor)
    elif kind == "VALUE_ROWIDS":
      if level > 0:
        num_rows = _num_children(splits[-1], tensors[level - 1], kinds[level - 1])
      elif first_size is not None:
        num_rows = first_size
      else:
        raise InvalidInputError("RaggedTensorToTensor: VALUE_ROWIDS must follow FIRST_DIM_SIZE.")
      check_known((num_rows + 1,), budget, "RaggedTensorToTensor")
      xp = namespace(tensor)
      splits.append(xp.searchsorted(xp.asarray(tensor), xp.arange(num_rows + 1), side="left"))
    else:
      raise UnsupportedAttrError(
        f"RaggedTensorToTensor: row_partition_types has {kind!r}; ROW_SPLITS or VALUE_ROWIDS work."
      )
  return splits


def _num_children(splits: Array, tensor: Array, kind: str) -> int:
  """Returns the number of rows of the next level, which is the number of elements of this level."""
  if kind == "VALUE_ROWIDS":
    return tensor.shape[0]
  if not is_known(splits):
    raise StaticInputError("RaggedTensorToTensor: the number of inner rows depends on traced data; use row splits.")
  return int(splits[-1])


@register(
  "RaggedGather",
  ignores=("Tvalues", "Tindices", "Tsplits", "PARAMS_RAGGED_RANK", "OUTPUT_RAGGED_RANK"),
  compared_inputs=("params_dense_values",),
)
def ragged_gather(
  params_nested_splits: list[Array],
  params_dense_values: Array,
  indices: Static[np.ndarray],
  *,
  budget: Budget = NO_BUDGET,
) -> tuple[Value, ...]:
  """Gathers rows of a ragged tensor.

  Source op: `tf.raw_ops.RaggedGather`.

  Args:
    params_nested_splits: row splits of each ragged axis, outermost first; int32 or int64. Must be concrete.
    params_dense_values: `[n, ...]`, any dtype.
    indices: indices of rows, any shape. Must be concrete.
    budget: is asked for memory.

  Returns:
    Row splits of the result, outermost first, then its values.

  Raises:
    StaticInputError: the splits or the indices depend on traced data, and with them the shape of the result.
    InvalidInputError: an index is out of range, row splits decrease, or they go beyond the values.
    LimitExceededError: the result needs too much memory.
  """
  nested_splits = [_known_if_concrete(splits) for splits in params_nested_splits]
  if not all(map(is_known, nested_splits)):
    raise StaticInputError(
      "RaggedGather: the row splits depend on traced data, and with them the shape of the result. Pass them as "
      "constants, or gather from a dense tensor (`ragged.to_tensor(shape=...)`)."
    )
  _check_nested_splits(nested_splits, params_dense_values.shape[:1])
  num_rows = nested_splits[0].shape[0] - 1
  if indices.size and not 0 <= indices.min() <= indices.max() < num_rows:
    raise InvalidInputError(f"RaggedGather: an index is out of range for {num_rows} rows.")
  dtype = nested_splits[0].dtype
  splits: list[np.ndarray] = []
  for axis, size in enumerate(indices.shape[1:]):
    splits.append(np.arange(int(np.prod(indices.shape[: axis + 1])) + 1, dtype=dtype) * dtype.type(size))
  rows = indices.reshape(-1)
  for split in nested_splits:
    lengths = split[rows + 1] - split[rows]
    check_known((sum(lengths.tolist()), *params_dense_values.shape[1:]), budget, "RaggedGather")
    splits.append(np.concatenate([[0], np.cumsum(lengths)]).astype(dtype))
    starts = np.repeat(split[rows] - splits[-1][:-1], lengths)
    rows = (starts + np.arange(starts.size)).astype(np.int64)
  return *splits, params_dense_values[rows]


def _check_nested_splits(nested_splits: list[Array], lengths: tuple[int, ...]) -> None:
  """Raises if row splits are not those of rows, each of the next splits, or of values with these leading sizes."""
  if not nested_splits or not lengths or any(split.ndim != 1 or not split.size for split in nested_splits):
    raise InvalidInputError(
      "RaggedGather: expected row splits of rank 1 with an element, and values of rank 1 at least."
    )
  for split, length in zip(nested_splits, [*(s.size - 1 for s in nested_splits[1:]), *lengths], strict=True):
    if split[0] < 0 or np.any(split[1:] < split[:-1]):
      raise InvalidInputError("RaggedGather: row splits decrease, or are negative.")
    if isinstance(length, int) and split[-1] > length:
      raise InvalidInputError(f"RaggedGather: row splits go to {split[-1]}, beyond the {length} rows or values.")
