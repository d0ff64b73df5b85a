"""Serialized tf.SequenceExample messages: ParseSequenceExampleV2, ParseSequenceExample, ParseSingleSequenceExample."""

import math
from collections.abc import Sequence
from typing import TypedDict, TypeVar, Unpack

import numpy as np

from graftax.convert.host_ops.examples import (
  Feature,
  as_bytes,
  feature_values,
  flat_keys,
  parse_example_v2,
  read_feature,
)
from graftax.convert.host_ops.registry import host_op
from graftax.convert.host_ops.values import string_array
from graftax.convert.host_ops.wire_format import WireError, fields
from graftax.graphdef_ir import PartialShape
from graftax.ops_jax import Context, InvalidInputError

__all__ = ["parse_sequence_example", "parse_sequence_example_v2", "parse_single_sequence_example"]

_COUNTS = ("Ncontext_sparse", "Ncontext_dense", "Nfeature_list_sparse", "Nfeature_list_dense", "Tcontext_dense")
# The values of a feature in each step of each example; None for an example that does not have it.
_Lists = list[list[np.ndarray] | None]
_Array = TypeVar("_Array", bound=np.ndarray)


@host_op("ParseSequenceExampleV2", ignores=_COUNTS)
def parse_sequence_example_v2(
  ctx: Context,
  serialized: np.ndarray,
  debug_name: np.ndarray,
  context_sparse_keys: np.ndarray,
  context_dense_keys: np.ndarray,
  context_ragged_keys: np.ndarray,
  feature_list_sparse_keys: np.ndarray,
  feature_list_dense_keys: np.ndarray,
  feature_list_ragged_keys: np.ndarray,
  feature_list_dense_missing_assumed_empty: np.ndarray,
  context_dense_defaults: list[np.ndarray],
  *,
  context_sparse_types: tuple[np.dtype, ...] = (),
  context_ragged_value_types: tuple[np.dtype, ...] = (),
  context_ragged_split_types: tuple[np.dtype, ...] = (),
  context_dense_shapes: tuple[PartialShape, ...] = (),
  feature_list_dense_types: tuple[np.dtype, ...] = (),
  feature_list_sparse_types: tuple[np.dtype, ...] = (),
  feature_list_ragged_value_types: tuple[np.dtype, ...] = (),
  feature_list_ragged_split_types: tuple[np.dtype, ...] = (),
  feature_list_dense_shapes: tuple[PartialShape, ...] = (),
) -> list[np.ndarray]:
  """Returns the features of the context, as `parse_example_v2` does, and those of the steps.

  The latter are sparse indices, values and shapes; dense values and their numbers of steps; ragged values, and the
  splits of examples and of steps.

  Raises:
    InvalidInputError: a message is malformed, or lacks a feature, or has one of another type or size.
    LimitExceededError: dense features are larger than the limits of the call allow.
  """
  # The context has the place in a SequenceExample that the features have in an Example.
  context = parse_example_v2(
    ctx,
    serialized,
    debug_name,
    context_sparse_keys,
    context_dense_keys,
    context_ragged_keys,
    context_dense_defaults,
    sparse_types=context_sparse_types,
    ragged_value_types=context_ragged_value_types,
    ragged_split_types=context_ragged_split_types,
    dense_shapes=context_dense_shapes,
  )
  examples = [_feature_lists(item) for item in serialized.reshape(-1).tolist()]
  is_batch = serialized.ndim > 0

  def lists(keys: np.ndarray, types: Sequence[np.dtype]) -> list[_Lists]:
    return [_lists(examples, key, dtype) for key, dtype in zip(keys.tolist(), types, strict=True)]

  sparse = lists(feature_list_sparse_keys, feature_list_sparse_types)
  dense = lists(feature_list_dense_keys, feature_list_dense_types)
  ragged = lists(feature_list_ragged_keys, feature_list_ragged_value_types)
  missing_is_empty = feature_list_dense_missing_assumed_empty.tolist()
  for key, found, may_miss in zip(feature_list_dense_keys.tolist(), dense, missing_is_empty, strict=True):
    if None in found and not may_miss:
      raise InvalidInputError(f"ParseSequenceExample: example {found.index(None)} lacks the feature list {key!r}.")
  of_dense = zip(
    feature_list_dense_keys.tolist(), dense, feature_list_dense_types, feature_list_dense_shapes, strict=True
  )
  splits = list(zip(ragged, feature_list_ragged_split_types, strict=True))
  return [
    *context,
    *(_indices(found, is_batch) for found in sparse),
    *(_values(found, dtype) for found, dtype in zip(sparse, feature_list_sparse_types, strict=True)),
    *(_sparse_shape(found, is_batch) for found in sparse),
    *(_dense(ctx, key, found, dtype, shape, is_batch) for key, found, dtype, shape in of_dense),
    *(_one_or_all(np.array(_num_steps(found), np.int64), is_batch) for found in dense),
    *(_values(found, dtype) for found, dtype in zip(ragged, feature_list_ragged_value_types, strict=True)),
    *(_splits(_num_steps(found), dtype) if is_batch else np.zeros(0, dtype) for found, dtype in splits),
    *(_splits([len(step) for steps in found for step in steps or ()], dtype) for found, dtype in splits),
  ]


class _Attrs(TypedDict):
  """Attributes of the ops without ragged features: the types and shapes of the features, in the order of their keys."""

  context_sparse_types: tuple[np.dtype, ...]
  feature_list_dense_types: tuple[np.dtype, ...]
  context_dense_shapes: tuple[PartialShape, ...]
  feature_list_sparse_types: tuple[np.dtype, ...]
  feature_list_dense_shapes: tuple[PartialShape, ...]


@host_op("ParseSequenceExample", ignores=_COUNTS)
def parse_sequence_example(
  ctx: Context,
  serialized: np.ndarray,
  debug_name: np.ndarray,
  context_dense_defaults: list[np.ndarray],
  *,
  feature_list_dense_missing_assumed_empty: tuple[bytes, ...],
  context_sparse_keys: tuple[bytes, ...],
  context_dense_keys: tuple[bytes, ...],
  feature_list_sparse_keys: tuple[bytes, ...],
  feature_list_dense_keys: tuple[bytes, ...],
  **attrs: Unpack[_Attrs],
) -> list[np.ndarray]:
  """Returns the features of the context and of the steps; see `parse_sequence_example_v2`."""
  return parse_sequence_example_v2(
    ctx,
    serialized,
    debug_name,
    string_array(context_sparse_keys),
    string_array(context_dense_keys),
    string_array([]),
    string_array(feature_list_sparse_keys),
    string_array(feature_list_dense_keys),
    string_array([]),
    np.array([key in feature_list_dense_missing_assumed_empty for key in feature_list_dense_keys], bool),
    context_dense_defaults,
    **attrs,
  )


@host_op("ParseSingleSequenceExample", ignores=_COUNTS)
def parse_single_sequence_example(
  ctx: Context,
  serialized: np.ndarray,
  feature_list_dense_missing_assumed_empty: np.ndarray,
  context_sparse_keys: list[np.ndarray],
  context_dense_keys: list[np.ndarray],
  feature_list_sparse_keys: list[np.ndarray],
  feature_list_dense_keys: list[np.ndarray],
  context_dense_defaults: list[np.ndarray],
  debug_name: np.ndarray,
  **attrs: Unpack[_Attrs],
) -> list[np.ndarray]:
  """Returns the features of one message, without numbers of steps; see `parse_sequence_example_v2`."""
  results = parse_sequence_example(
    ctx,
    serialized,
    debug_name,
    context_dense_defaults,
    feature_list_dense_missing_assumed_empty=tuple(feature_list_dense_missing_assumed_empty.tolist()),
    context_sparse_keys=flat_keys(context_sparse_keys),
    context_dense_keys=flat_keys(context_dense_keys),
    feature_list_sparse_keys=flat_keys(feature_list_sparse_keys),
    feature_list_dense_keys=flat_keys(feature_list_dense_keys),
    **attrs,
  )
  return results[: len(results) - len(feature_list_dense_keys)]


def _feature_lists(message: bytes) -> dict[bytes, list[Feature]]:
  """Returns the features of all steps of one message, by their names."""
  try:
    entries = [
      dict(fields(as_bytes(entry)))
      for number, lists in fields(message)
      if number == 2
      for key, entry in fields(as_bytes(lists))
      if key == 1
    ]
    return {
      as_bytes(entry.get(1, b"")): [
        read_feature(as_bytes(step)) for number, step in fields(as_bytes(entry.get(2, b""))) if number == 1
      ]
      for entry in entries
    }
  except WireError as e:
    raise InvalidInputError(
      f"ParseSequenceExample: {message[:20]!r} is not a serialized tf.SequenceExample: {e}."
    ) from e


def _lists(examples: Sequence[dict[bytes, list[Feature]]], key: bytes, dtype: np.dtype) -> _Lists:
  empty = np.zeros(0, dtype)
  found: _Lists = []
  for example in examples:
    steps = [feature_values(feature, key, dtype) for feature in example.get(key, ())]
    found.append([empty if step is None else step for step in steps] if key in example else None)
  return found


def _num_steps(found: _Lists) -> list[int]:
  return [len(steps or ()) for steps in found]


def _longest_step(found: _Lists) -> int:
  return max((len(step) for steps in found for step in steps or ()), default=0)


def _indices(found: _Lists, is_batch: bool) -> np.ndarray:
  indices = [
    (row, number, place)
    for row, steps in enumerate(found)
    for number, step in enumerate(steps or ())
    for place in range(len(step))
  ]
  array = np.array(indices, np.int64).reshape(-1, 3)
  return array if is_batch else array[:, 1:]


def _values(found: _Lists, dtype: np.dtype) -> np.ndarray:
  return np.concatenate([np.zeros(0, dtype), *(step for steps in found for step in steps or ())])


def _sparse_shape(found: _Lists, is_batch: bool) -> np.ndarray:
  shape = [len(found), max(_num_steps(found), default=0), _longest_step(found)]
  return np.array(shape if is_batch else shape[1:], np.int64)


def _splits(lengths: Sequence[int], dtype: np.dtype) -> np.ndarray:
  return np.cumsum([0, *lengths]).astype(dtype)


def _one_or_all(rows: _Array, is_batch: bool) -> _Array:
  row: _Array = rows if is_batch else rows[0]
  return row


def _dense(ctx: Context, key: bytes, found: _Lists, dtype: np.dtype, shape: PartialShape, is_batch: bool) -> np.ndarray:
  """Returns the values of all steps; steps that an example does not have are filled with zeros or empty strings."""
  sizes = tuple(int(size or 0) for size in shape.dims or ())
  full = (len(found), max(_num_steps(found), default=0), *sizes)
  where = f"ParseSequenceExample node {ctx.node_name!r} (function {ctx.function_name!r}), feature {key!r},"
  ctx.budget.check_array(full, dtype.itemsize, where)
  rows = np.full(full, b"" if dtype.hasobject else 0, dtype)
  for row, steps in enumerate(found):
    for number, step in enumerate(steps or ()):
      if len(step) != math.prod(sizes):
        raise InvalidInputError(
          f"ParseSequenceExample: step {number} of feature {key!r} of example {row} has {len(step)} values; expected "
          f"{list(sizes)}."
        )
      rows[row, number, ...] = step.reshape(sizes)
  return _one_or_all(rows, is_batch)
