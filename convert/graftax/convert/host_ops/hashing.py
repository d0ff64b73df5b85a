"""Buckets of strings: StringToHashBucketFast, StringToHashBucketStrong, SparseCrossHashed, Fingerprint."""

import itertools
import math
from collections.abc import Sequence

import numpy as np

from graftax.convert.host_ops.fingerprints import fingerprint64, fingerprint_cat64, murmur_hash64, sip_hash64
from graftax.convert.host_ops.registry import host_op
from graftax.convert.host_ops.values import ITEM_BYTES, scalar_string, string_array
from graftax.graphdef_ir import Budget
from graftax.ops_jax import NO_BUDGET, InvalidInputError

__all__ = [
  "fingerprint",
  "sparse_cross",
  "sparse_cross_hashed",
  "sparse_cross_v2",
  "string_to_hash_bucket",
  "string_to_hash_bucket_fast",
  "string_to_hash_bucket_strong",
]

_MAX_INT64 = np.iinfo(np.int64).max

# What a row of a sparse column takes in Python, and a combination of hashed features in NumPy.
_ROW_BYTES, _CROSS_BYTES = 128, 48


@host_op("StringToHashBucketFast")
def string_to_hash_bucket_fast(input_: np.ndarray, *, num_buckets: int) -> np.ndarray:
  """Returns the bucket of each string by FarmHash's fingerprint, int64."""
  return _buckets(fingerprint64(input_.reshape(-1).tolist()), num_buckets, input_.shape)


@host_op("StringToHashBucketStrong")
def string_to_hash_bucket_strong(input_: np.ndarray, *, num_buckets: int, key: tuple[int, ...]) -> np.ndarray:
  """Returns the bucket of each string by SipHash, int64."""
  return _buckets(sip_hash64(input_.reshape(-1).tolist(), _key(key)), num_buckets, input_.shape)


@host_op("StringToHashBucket")
def string_to_hash_bucket(string_tensor: np.ndarray, *, num_buckets: int) -> np.ndarray:
  """Returns the bucket of each string by `Hash64` of TensorFlow, which is MurmurHash64A, int64."""
  return _buckets(murmur_hash64(string_tensor.reshape(-1).tolist()), num_buckets, string_tensor.shape)


def _key(words: Sequence[int]) -> tuple[int, int]:
  first, second = (int(word) % 2**64 for word in words)
  return first, second


def _buckets(hashes: np.ndarray, num_buckets: int, shape: tuple[int, ...]) -> np.ndarray:
  return (hashes % np.uint64(num_buckets)).astype(np.int64).reshape(shape)


@host_op("SparseCrossHashed", ignores=("N", "sparse_types", "dense_types"))
def sparse_cross_hashed(
  indices: list[np.ndarray],
  values: list[np.ndarray],
  shapes: list[np.ndarray],
  dense_inputs: list[np.ndarray],
  num_buckets: np.ndarray,
  strong_hash: np.ndarray,
  salt: np.ndarray,
  *,
  budget: Budget = NO_BUDGET,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Returns the buckets of all combinations of features of each row, as a sparse matrix.

  Raises:
    LimitExceededError: there are too many combinations.
  """
  key = _key(np.reshape(salt, -1).tolist()) if bool(strong_hash) else None
  columns = _columns(indices, values, shapes, dense_inputs, budget)
  hashed = [[_fingerprints(_feature_bytes(row), key) for row in column] for column in columns]
  return _crossed_hashes(hashed, int(num_buckets), budget)


@host_op("SparseCross", ignores=("N", "sparse_types", "dense_types", "out_type", "internal_type"))
def sparse_cross(
  indices: list[np.ndarray],
  values: list[np.ndarray],
  shapes: list[np.ndarray],
  dense_inputs: list[np.ndarray],
  *,
  hashed_output: bool,
  num_buckets: int,
  hash_key: int,
  budget: Budget = NO_BUDGET,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Returns all combinations of features of each row as a sparse matrix: as buckets, or as text joined with `_X_`.

  Raises:
    LimitExceededError: there are too many combinations, or they are too long.
  """
  columns = _columns(indices, values, shapes, dense_inputs, budget)
  if not hashed_output:
    return _crossed_text(columns, b"_X_", budget)
  start = np.full(1, hash_key % 2**64, np.uint64)
  batch = len(columns[0]) if columns else 0
  hashed = [[start] * batch, *([_feature_numbers(row) for row in column] for column in columns)]
  return _crossed_hashes(hashed, num_buckets, budget)


@host_op("SparseCrossV2", ignores=("N", "sparse_types", "dense_types"))
def sparse_cross_v2(
  indices: list[np.ndarray],
  values: list[np.ndarray],
  shapes: list[np.ndarray],
  dense_inputs: list[np.ndarray],
  sep: np.ndarray,
  *,
  budget: Budget = NO_BUDGET,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Returns all combinations of features of each row as text, as a sparse matrix.

  Raises:
    LimitExceededError: the combinations are too long.
  """
  columns = _columns(indices, values, shapes, dense_inputs, budget)
  return _crossed_text(columns, np.reshape(np.asarray(sep, object), -1)[0], budget)


def _columns(
  indices: Sequence[np.ndarray],
  values: Sequence[np.ndarray],
  shapes: Sequence[np.ndarray],
  dense: Sequence[np.ndarray],
  budget: Budget,
) -> list[list[np.ndarray]]:
  """Returns the features of each row, for each column; sparse columns come first."""
  columns = []
  for where, items, shape in zip(indices, values, shapes, strict=True):
    budget.check_array((max(int(shape[0]), 0),), _ROW_BYTES, "SparseCross, for the rows of a column,")
    bounds = np.searchsorted(where[:, 0], np.arange(int(shape[0]) + 1))
    columns.append([items[start:stop] for start, stop in zip(bounds[:-1], bounds[1:], strict=True)])
  return [*columns, *(list(array) for array in dense)]


def _feature_bytes(row: np.ndarray) -> list[bytes]:
  """Returns what SparseCrossHashed hashes: strings, and of each integer the low four bytes."""
  if row.dtype == object:
    return row.tolist()
  return [number.tobytes() for number in row.astype(np.int64).astype("<i4")]


def _feature_numbers(row: np.ndarray) -> np.ndarray:
  """Returns what SparseCross combines: fingerprints of strings, and integers themselves."""
  return fingerprint64(row.tolist()) if row.dtype == object else row.astype(np.int64).view(np.uint64)


def _fingerprints(strings: Sequence[bytes], key: tuple[int, int] | None) -> np.ndarray:
  return fingerprint64(strings) if key is None else sip_hash64(strings, key)


def _crossed_hashes(
  columns: Sequence[Sequence[np.ndarray]], num_buckets: int, budget: Budget
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  # An empty column does not keep those before it from being combined.
  count = sum(math.prod(max(len(row), 1) for row in features) for features in zip(*columns, strict=True))
  budget.check_array((count,), _CROSS_BYTES, "SparseCross, for all combinations of features,")
  rows = []
  for features in zip(*columns, strict=True):
    crossed = features[0]
    for column in features[1:]:
      crossed = fingerprint_cat64(np.repeat(crossed, len(column)), np.tile(column, len(crossed)))
    rows.append((crossed % np.uint64(num_buckets or _MAX_INT64)).astype(np.int64))
  return *_positions(rows), np.concatenate([np.zeros(0, np.int64), *rows]), _shape(rows)


def _crossed_text(
  columns: Sequence[Sequence[np.ndarray]], separator: bytes, budget: Budget
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  def text(row: np.ndarray) -> list[bytes]:
    return row.tolist() if row.dtype == object else [str(number).encode() for number in row.tolist()]

  texts = [list(map(text, features)) for features in zip(*columns, strict=True)]
  budget.check_text(sum(_crossed_bytes(features, separator) for features in texts), "SparseCross")
  rows = [list(map(separator.join, itertools.product(*features))) for features in texts]
  return *_positions(rows), string_array(item for row in rows for item in row), _shape(rows)


def _crossed_bytes(features: Sequence[Sequence[bytes]], separator: bytes) -> int:
  """Returns the size of all combinations of the features of a row."""
  count = math.prod(map(len, features))
  own = sum(count // len(column) * sum(map(len, column)) for column in features) if count else 0
  return own + count * (len(separator) * (len(features) - 1) + ITEM_BYTES)


def _positions(rows: Sequence[Sequence[object] | np.ndarray]) -> tuple[np.ndarray]:
  sizes = [len(row) for row in rows]
  columns = np.concatenate([np.zeros(0, np.int64), *map(np.arange, sizes)])
  return (np.stack([np.repeat(np.arange(len(rows)), sizes), columns], axis=1).astype(np.int64),)


def _shape(rows: Sequence[Sequence[object] | np.ndarray]) -> np.ndarray:
  return np.array([len(rows), max(map(len, rows), default=0)], np.int64)


@host_op("Fingerprint", ignores=("T",))
def fingerprint(data: np.ndarray, method: np.ndarray) -> np.ndarray:
  """Returns FarmHash's fingerprint of the bytes of each row, uint8 `[rows, 8]`.

  Of rows with several strings it is that of the strings' fingerprints.

  Raises:
    InvalidInputError: the method is not "farmhash64", or the data are a scalar.
  """
  name = scalar_string(method, "Fingerprint: method")
  if name != b"farmhash64" or data.ndim == 0:
    raise InvalidInputError(
      f"Fingerprint: method={name!r} of data of rank {data.ndim}; expected b'farmhash64' and at least one dimension."
    )
  if data.dtype == object:
    data = data.reshape(len(data), -1)
    hashes = fingerprint64(data.reshape(-1).tolist()).reshape(data.shape)
    if data.shape[1] != 1:
      hashes = fingerprint64([row.astype("<u8").tobytes() for row in hashes])
  else:
    hashes = fingerprint64([np.ascontiguousarray(row).tobytes() for row in data])
  return np.ascontiguousarray(hashes.reshape(-1), "<u8").view(np.uint8).reshape(len(data), 8)
