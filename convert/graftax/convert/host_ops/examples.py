"""Serialized tf.Example messages: ParseExampleV2, ParseSingleExample, ParseExample."""

import dataclasses
import math
from collections.abc import Iterator, Sequence

import numpy as np

from graftax.convert.host_ops.registry import host_op
from graftax.convert.host_ops.values import string_array
from graftax.convert.host_ops.wire_format import WireError, fields, integers, packed_floats
from graftax.graphdef_ir import PartialShape
from graftax.ops_jax import Context, InvalidInputError

__all__ = [
  "Feature",
  "as_bytes",
  "feature_values",
  "flat_keys",
  "parse_example",
  "parse_example_v2",
  "parse_single_example",
  "read_feature",
]

# The field number in the message Feature for each kind of values.
_KINDS = {1: np.dtype(object), 2: np.dtype(np.float32), 3: np.dtype(np.int64)}
_Column = list[np.ndarray | None]


@host_op("ParseExampleV2", ignores=("Tdense", "num_sparse"))
def parse_example_v2(
  ctx: Context,
  serialized: np.ndarray,
  names: np.ndarray,
  sparse_keys: np.ndarray,
  dense_keys: np.ndarray,
  ragged_keys: np.ndarray,
  dense_defaults: list[np.ndarray],
  *,
  sparse_types: tuple[np.dtype, ...],
  ragged_value_types: tuple[np.dtype, ...],
  ragged_split_types: tuple[np.dtype, ...],
  dense_shapes: tuple[PartialShape, ...],
) -> list[np.ndarray]:
  """Returns the features of serialized examples: sparse indices, values and shapes; dense; ragged values and splits.

  Raises:
    InvalidInputError: a message is malformed, or lacks a feature, or has one of another type or size.
    LimitExceededError: dense features are larger than the limits of the call allow.
  """
  del names
  examples = [_features(item) for item in serialized.reshape(-1).tolist()]
  is_batch = serialized.ndim > 0
  sparse = [_column(examples, key, dtype) for key, dtype in zip(sparse_keys.tolist(), sparse_types, strict=True)]
  ragged = [_column(examples, key, dtype) for key, dtype in zip(ragged_keys.tolist(), ragged_value_types, strict=True)]
  dense = zip(dense_keys.tolist(), dense_defaults, dense_shapes, strict=True)
  return [
    *(_indices(column, is_batch) for column in sparse),
    *(_joined(column, dtype) for column, dtype in zip(sparse, sparse_types, strict=True)),
    *(_sparse_shape(column, is_batch) for column in sparse),
    *(_dense(ctx, examples, key, default, shape, is_batch) for key, default, shape in dense),
    *(_joined(column, dtype) for column, dtype in zip(ragged, ragged_value_types, strict=True)),
    *(_splits(column, dtype, is_batch) for column, dtype in zip(ragged, ragged_split_types, strict=True)),
  ]


@host_op("ParseExample", ignores=("Nsparse", "Ndense", "Tdense"))
def parse_example(
  ctx: Context,
  serialized: np.ndarray,
  names: np.ndarray,
  sparse_keys: list[np.ndarray],
  dense_keys: list[np.ndarray],
  dense_defaults: list[np.ndarray],
  *,
  sparse_types: tuple[np.dtype, ...],
  dense_shapes: tuple[PartialShape, ...],
) -> list[np.ndarray]:
  """Returns the features of serialized examples; see `parse_example_v2`."""
  return parse_example_v2(
    ctx,
    serialized,
    names,
    string_array(flat_keys(sparse_keys)),
    string_array(flat_keys(dense_keys)),
    string_array([]),
    dense_defaults,
    sparse_types=sparse_types,
    ragged_value_types=(),
    ragged_split_types=(),
    dense_shapes=dense_shapes,
  )


@host_op("ParseSingleExample", ignores=("num_sparse", "Tdense"))
def parse_single_example(
  ctx: Context,
  serialized: np.ndarray,
  dense_defaults: list[np.ndarray],
  *,
  sparse_keys: tuple[bytes, ...],
  dense_keys: tuple[bytes, ...],
  sparse_types: tuple[np.dtype, ...],
  dense_shapes: tuple[PartialShape, ...],
) -> list[np.ndarray]:
  """Returns the features of one serialized example; see `parse_example_v2`."""
  return parse_example_v2(
    ctx,
    serialized,
    string_array([]),
    string_array(sparse_keys),
    string_array(dense_keys),
    string_array([]),
    dense_defaults,
    sparse_types=sparse_types,
    ragged_value_types=(),
    ragged_split_types=(),
    dense_shapes=dense_shapes,
  )


def flat_keys(keys: Sequence[np.ndarray]) -> tuple[bytes, ...]:
  """Returns keys that are inputs of a node, each a scalar or a vector of one."""
  return tuple(np.reshape(key, -1)[0] for key in keys)


@dataclasses.dataclass(frozen=True, slots=True)
class Feature:
  """The values of a feature; the dtype is None if the message names no kind of values."""

  dtype: np.dtype | None
  values: np.ndarray


def _features(message: bytes) -> dict[bytes, Feature]:
  """Returns the features of one message by their names."""
  try:
    entries = [
      dict(fields(as_bytes(entry)))
      for number, features in fields(message)
      if number == 1
      for key, entry in fields(as_bytes(features))
      if key == 1
    ]
    return {as_bytes(entry.get(1, b"")): read_feature(as_bytes(entry.get(2, b""))) for entry in entries}
  except WireError as e:
    raise InvalidInputError(f"ParseExample: {message[:20]!r} is not a serialized tf.Example: {e}.") from e


def as_bytes(value: bytes | int) -> bytes:
  """Returns the content of a field that holds a message or a string.

  Raises:
    WireError: it is a number.
  """
  if isinstance(value, int):
    raise WireError("a number in place of a message")
  return value


def read_feature(message: bytes) -> Feature:
  """Returns the values of one serialized Feature.

  Raises:
    WireError: the message is malformed.
  """
  feature = Feature(None, np.zeros(0))
  for number, content in fields(message):
    if number in _KINDS:
      feature = Feature(_KINDS[number], _values(number, as_bytes(content)))
  return feature


def _values(kind: int, message: bytes) -> np.ndarray:
  parts: Iterator[bytes | int] = (content for number, content in fields(message) if number == 1)
  if kind == 1:
    return string_array(as_bytes(part) for part in parts)
  if kind == 3:
    return integers(parts)
  return np.concatenate([np.zeros(0, _KINDS[kind]), *(packed_floats(part) for part in parts)])


def _column(examples: Sequence[dict[bytes, Feature]], key: bytes, dtype: np.dtype) -> _Column:
  """Returns the values of one feature in each example; None if an example does not have it."""
  return [feature_values(example.get(key), key, dtype) for example in examples]


def feature_values(feature: Feature | None, key: bytes, dtype: np.dtype) -> np.ndarray | None:
  """Returns the values of a feature, or None if the message does not have it or does not say of which kind it is.

  Raises:
    InvalidInputError: it holds values of another type.
  """
  if feature is None or feature.dtype is None:
    return None
  if feature.dtype != dtype:
    raise InvalidInputError(f"ParseExample: feature {key!r} holds {feature.dtype}; expected {dtype}.")
  return feature.values


def _lengths(column: _Column) -> list[int]:
  return [0 if values is None else len(values) for values in column]


def _indices(column: _Column, is_batch: bool) -> np.ndarray:
  lengths = np.array(_lengths(column), np.int64)
  rows = np.repeat(np.arange(len(lengths)), lengths)
  starts = np.repeat(np.cumsum(lengths) - lengths, lengths)
  indices = np.stack([rows, np.arange(len(rows)) - starts], axis=1)
  return indices if is_batch else indices[:, 1:]


def _joined(column: _Column, dtype: np.dtype) -> np.ndarray:
  return np.concatenate([np.zeros(0, dtype), *(values for values in column if values is not None)])


def _sparse_shape(column: _Column, is_batch: bool) -> np.ndarray:
  longest = max(_lengths(column), default=0)
  return np.array([len(column), longest] if is_batch else [longest], np.int64)


def _splits(column: _Column, dtype: np.dtype, is_batch: bool) -> np.ndarray:
  return np.cumsum([0, *_lengths(column)]).astype(dtype) if is_batch else np.zeros(0, dtype)


def _dense(
  ctx: Context,
  examples: Sequence[dict[bytes, Feature]],
  key: bytes,
  default: np.ndarray,
  shape: PartialShape,
  is_batch: bool,
) -> np.ndarray:
  sizes = shape.dims or ()
  column = _column(examples, key, default.dtype)
  needed = [int(size or 0) for size in sizes]
  if sizes and sizes[0] is None:
    needed = [max(_lengths(column), default=0)]
  where = f"ParseExample node {ctx.node_name!r} (function {ctx.function_name!r}), feature {key!r},"
  ctx.budget.check_array((len(column), *needed), default.dtype.itemsize, where)
  if sizes and sizes[0] is None:
    rows = _padded(column, key, default, tuple(int(size or 0) for size in sizes[1:]))
  else:
    rows = _sized(column, key, default, tuple(int(size or 0) for size in sizes))
  return rows if is_batch else rows[0]


def _sized(column: _Column, key: bytes, default: np.ndarray, sizes: tuple[int, ...]) -> np.ndarray:
  rows = np.empty((len(column), *sizes), default.dtype)
  for position, values in enumerate(column):
    if values is None and default.size != math.prod(sizes):
      raise InvalidInputError(f"ParseExample: example {position} does not have the required feature {key!r}.")
    if values is not None and len(values) != math.prod(sizes):
      raise InvalidInputError(
        f"ParseExample: feature {key!r} of example {position} has {len(values)} values; expected {list(sizes)}."
      )
    # Without the dots an array of objects would hold the array of a scalar feature in place of its string.
    rows[position, ...] = default.reshape(sizes) if values is None else values.reshape(sizes)
  return rows


def _padded(column: _Column, key: bytes, default: np.ndarray, sizes: tuple[int, ...]) -> np.ndarray:
  """Returns rows of different lengths, filled with the default value."""
  stride = math.prod(sizes)
  lengths = _lengths(column)
  if any(length % stride if stride else length for length in lengths):
    raise InvalidInputError(f"ParseExample: feature {key!r} has {lengths} values; expected multiples of {stride}.")
  fill = default.reshape(-1)[0] if default.size else (b"" if default.dtype.hasobject else 0)
  rows = np.full((len(column), max(lengths, default=0)), fill, default.dtype)
  for position, values in enumerate(column):
    if values is not None:
      rows[position, : len(values)] = values
  return rows.reshape(len(column), -1 if stride and rows.size else max(lengths, default=0) // max(stride, 1), *sizes)
