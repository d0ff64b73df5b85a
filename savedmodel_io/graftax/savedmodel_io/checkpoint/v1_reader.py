"""Reader of checkpoints in format 1 (`tf.train.Saver` before 2017): tables that hold the tensors themselves."""

import glob
import math
import os
import re
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
from google.protobuf.message import DecodeError

from graftax.graphdef_ir import Budget, DType, ModelFolder, Tensor, schema
from graftax.graphdef_ir.errors import GraftaxError, UnsupportedError
from graftax.savedmodel_io.checkpoint.partition import Bounds, box_index, check_slices, read_partitioned
from graftax.savedmodel_io.checkpoint.read_options import ReadOptions
from graftax.savedmodel_io.checkpoint.table_reader import is_table, read_table
from graftax.savedmodel_io.checkpoint.tensor_entry import TensorEntry
from graftax.savedmodel_io.checkpoint.tensor_slice import TensorSlice, slice_key
from graftax.savedmodel_io.errors import DamagedCheckpointError, UnsupportedCheckpointError

__all__ = ["V1Reader", "is_v1_checkpoint"]

_META_KEY = b""
_VERSION = 1
_SHARD_NAME = re.compile(r"-\d{5}-of-\d{5}$")
_VALUE_FIELDS = {
  DType.FLOAT: "float_val",
  DType.DOUBLE: "double_val",
  DType.INT64: "int64_val",
  DType.BOOL: "bool_val",
  DType.HALF: "half_val",
  DType.BFLOAT16: "half_val",
  DType.STRING: "string_val",
  DType.COMPLEX64: "scomplex_val",
  DType.COMPLEX128: "dcomplex_val",
}


def is_v1_checkpoint(prefix: str) -> bool:
  """Returns whether there are files of format 1 at the prefix."""
  return bool(_files(prefix))


def _files(prefix: str) -> list[str]:
  if os.path.isfile(prefix):
    return [prefix]
  return sorted(path for path in glob.glob(glob.escape(prefix) + "-*") if _SHARD_NAME.search(path))


class V1Reader:
  """The tensors of a format 1 checkpoint, by key.

  Attributes:
    entries: key -> TensorEntry, in key order.
  """

  entries: Mapping[str, TensorEntry]

  def __init__(self, prefix: str, folder: ModelFolder, budget: Budget):
    self._prefix = prefix
    self._records: dict[bytes, bytes] = {}
    entries: dict[str, TensorEntry] = {}
    for path in _files(prefix):
      data = folder.read(path, "the file of a checkpoint in format 1")
      if not is_table(data):
        raise DamagedCheckpointError(f"{path}: {len(data)} bytes, but not the table that a checkpoint in format 1 is")
      table = read_table(data, path, budget)
      for entry in _read_meta(table, path):
        _merge(entries, entry, path)
      table.pop(_META_KEY)
      self._records.update(table)
    self.entries = MappingProxyType(dict(sorted(entries.items())))

  def read(self, entry: TensorEntry, options: ReadOptions) -> np.ndarray:
    """Returns the tensor, a read-only copy. Tables are verified when they are opened, whatever `options` say."""
    return self.read_region(entry, tuple((0, dim) for dim in entry.shape), options)

  def read_region(self, entry: TensorEntry, bounds: Bounds, options: ReadOptions) -> np.ndarray:
    """Returns the part of a tensor within (start, stop) per dimension, always a copy."""
    try:
      stored_dtype = entry.dtype.numpy
    except UnsupportedError as e:
      raise UnsupportedCheckpointError(f"{self._prefix}: {entry.key!r} has no array form: {e}") from e
    dtype = options.result_dtype(stored_dtype)

    def read_slice(part: TensorSlice, box: Bounds) -> np.ndarray:
      return self._read_slice(entry, part)[box_index(box)].astype(dtype, copy=False)

    return read_partitioned(entry, bounds, dtype, read_slice, self._prefix)

  def _read_slice(self, entry: TensorEntry, part: TensorSlice) -> np.ndarray:
    where = f"{self._prefix}: slice {part} of {entry.key!r}"
    record = self._records.get(slice_key(entry.key, part))
    if record is None:
      raise DamagedCheckpointError(f"{where}: the table has no record of it")
    try:
      proto = schema.SavedTensorSlices.FromString(record).data.data
    except DecodeError as e:
      raise DamagedCheckpointError(f"{where}: the record cannot be parsed: {e}") from e
    shape = tuple(stop - start for start, stop in part.bounds(entry.shape))
    num_values = len(getattr(proto, _VALUE_FIELDS.get(entry.dtype, "int_val")))
    num_expected = math.prod(shape) * (2 if entry.dtype in (DType.COMPLEX64, DType.COMPLEX128) else 1)
    if num_values != num_expected:
      raise DamagedCheckpointError(f"{where}: {num_values} stored values for shape {shape} of {entry.dtype.name}")
    # A record leaves out what the meta record says.
    proto.dtype = int(entry.dtype)
    proto.ClearField("tensor_shape")
    for dim in shape:
      proto.tensor_shape.dim.add(size=dim)
    try:
      array = Tensor.from_proto(proto).numpy()
    except GraftaxError as e:
      raise DamagedCheckpointError(f"{where}: {e}") from e
    array.flags.writeable = False
    return array


def _read_meta(table: Mapping[bytes, bytes], path: str) -> list[TensorEntry]:
  if _META_KEY not in table:
    raise DamagedCheckpointError(f"{path}: a table without the meta record of a checkpoint in format 1")
  try:
    meta = schema.SavedTensorSlices.FromString(table[_META_KEY]).meta
    entries = [_entry(proto) for proto in meta.tensor]
  except (DecodeError, ValueError) as e:
    raise DamagedCheckpointError(f"{path}: the meta record is damaged: {e}") from e
  if meta.versions.min_consumer > _VERSION:
    raise UnsupportedCheckpointError(
      f"{path}: asks for readers of at least version {meta.versions.min_consumer}; we read version {_VERSION}"
    )
  return entries


def _entry(proto: schema.SavedSliceMeta) -> TensorEntry:
  entry = TensorEntry(
    key=proto.name,
    dtype=DType(proto.type),
    shape=tuple(dim.size for dim in proto.shape.dim),
    slices=tuple(TensorSlice.from_proto(part) for part in proto.slice),
  )
  if any(dim < 0 for dim in entry.shape):
    raise ValueError(f"shape {entry.shape} of {entry.key!r} is not fully known")
  check_slices(entry.slices, entry.shape)
  return entry


def _merge(entries: dict[str, TensorEntry], entry: TensorEntry, path: str) -> None:
  """Adds an entry; a partitioned tensor may have slices in several files."""
  known = entries.get(entry.key)
  if known is None:
    entries[entry.key] = entry
    return
  if (known.shape, known.dtype) != (entry.shape, entry.dtype):
    raise DamagedCheckpointError(
      f"{path}: {entry.key!r} is {entry.dtype.name} {entry.shape}, another shard says {known.dtype.name} {known.shape}"
    )
  slices = (*known.slices, *entry.slices)
  try:
    check_slices(slices, entry.shape)
  except ValueError as e:
    raise DamagedCheckpointError(f"{path}: {entry.key!r} has slices in several shards: {e}") from e
  entries[entry.key] = TensorEntry(key=entry.key, dtype=entry.dtype, shape=entry.shape, slices=slices)
