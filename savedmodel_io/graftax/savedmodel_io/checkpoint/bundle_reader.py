"""Reader of checkpoints in format 2: an index table and data shards, `<prefix>.index` and `<prefix>.data-*-of-*`."""

import math
import os
import sys
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
from google.protobuf.message import DecodeError

from graftax.graphdef_ir import Budget, DType, ModelFolder, schema
from graftax.graphdef_ir.errors import UnsupportedError
from graftax.savedmodel_io.checkpoint.crc32c import masked_crc32c
from graftax.savedmodel_io.checkpoint.partition import Bounds, box_index, check_slices, read_partitioned
from graftax.savedmodel_io.checkpoint.pieces import (
  PIECE_BYTES,
  cast_in_pieces,
  checksum_in_pieces,
  copy_in_pieces,
  read_ahead,
)
from graftax.savedmodel_io.checkpoint.read_options import ReadOptions
from graftax.savedmodel_io.checkpoint.string_tensor import decode_string_tensor
from graftax.savedmodel_io.checkpoint.table_reader import read_table
from graftax.savedmodel_io.checkpoint.tensor_entry import TensorEntry
from graftax.savedmodel_io.checkpoint.tensor_slice import TensorSlice, slice_key
from graftax.savedmodel_io.errors import (
  CheckpointNotFoundError,
  DamagedCheckpointError,
  MissingShardError,
  UnsupportedCheckpointError,
)

__all__ = ["BundleReader", "index_path", "shard_path"]

_HEADER_KEY = b""
_VERSION = 1  # of the bundle format; TensorFlow has written no other
# What a slice of a tensor takes in memory.
_SLICE_BYTES = 400
_MAX_SHARDS = 99_999  # the file names have five digits
# The beginning of errors about the file.
_SHARD = "a data shard of the checkpoint"


def index_path(prefix: str) -> str:
  """Returns the path of a checkpoint's index file."""
  return f"{prefix}.index"


def shard_path(prefix: str, shard: int, num_shards: int) -> str:
  """Returns the path of one data file of a checkpoint."""
  return f"{prefix}.data-{shard:05d}-of-{num_shards:05d}"


class BundleReader:
  """The tensors of a format 2 checkpoint, by key.

  Opening reads and verifies the index. When a tensor is first read, its data shard is mapped and its checksum verified.

  Attributes:
    entries: key -> TensorEntry, in key order, without the stored slices of partitioned tensors.
  """

  entries: Mapping[str, TensorEntry]

  def __init__(self, prefix: str, folder: ModelFolder, budget: Budget):
    self._prefix = prefix
    self._folder = folder
    self._budget = budget
    path = index_path(prefix)
    try:
      data = folder.read(path, "the index of the checkpoint")
    except FileNotFoundError as e:
      raise CheckpointNotFoundError(f"{path}: no checkpoint index there; expected the path without '.index'") from e
    table = read_table(data, path, budget)
    self._num_shards = _read_header(table, path)
    self._shards: dict[int, np.ndarray] = {}
    self._states: dict[int, tuple[int, ...]] = {}
    self._changed: set[int] = set()
    self._verified: set[TensorEntry] = set()
    protos = _parse_entries(table, path)
    num_slices = sum(len(proto.slices) for proto in protos.values())
    budget.spend_unpacked_bytes(_SLICE_BYTES * num_slices, len(data), f"{path}: an index of {num_slices} slices")
    entries, self._slices = _read_entries(protos, self._num_shards, path)
    self.entries = MappingProxyType(entries)
    self._check_shards()

  def read(self, entry: TensorEntry, options: ReadOptions) -> np.ndarray:
    """Returns the tensor, read-only: a view of the mapped file if it is numeric and stored whole, otherwise a copy."""
    if not entry.slices:
      return self._read_stored(entry, f"tensor {entry.key!r}", options)
    return self.read_region(entry, tuple((0, dim) for dim in entry.shape), options)

  def read_region(self, entry: TensorEntry, bounds: Bounds, options: ReadOptions) -> np.ndarray:
    """Returns the part of a tensor within (start, stop) per dimension. Only stored slices that overlap it are read."""
    stored_dtype = _numpy_dtype(entry, index_path(self._prefix))
    if not entry.slices:
      return self._read_box(entry, f"tensor {entry.key!r}", bounds, options)

    def read_slice(part: TensorSlice, box: Bounds) -> np.ndarray:
      return self._read_box(self._stored_slice(entry, part), f"slice {part} of {entry.key!r}", box, options)

    return read_partitioned(entry, bounds, options.result_dtype(stored_dtype), read_slice, index_path(self._prefix))

  def read_ahead(self, entry: TensorEntry, bounds: Bounds) -> None:
    """Has the system read a part of a tensor in the background, if it is stored in one place."""
    if not entry.slices and entry.dtype != DType.STRING:
      view = self._read_stored(entry, f"tensor {entry.key!r}", ReadOptions(verify=False))[box_index(bounds)]
      read_ahead(self._shard(entry.shard), view)

  def _read_box(self, entry: TensorEntry, what: str, bounds: Bounds, options: ReadOptions) -> np.ndarray:
    """Returns a box of a tensor, or of a slice, that is stored in one place."""
    stored_dtype = _numpy_dtype(entry, what)
    is_whole = all(bound == (0, dim) for bound, dim in zip(bounds, entry.shape, strict=True))
    is_view = not options.copy and options.result_dtype(stored_dtype) == stored_dtype
    if is_whole or is_view or entry.dtype == DType.STRING:
      return self._read_stored(entry, what, options)[box_index(bounds)]
    if self._must_verify(entry, options):
      self._verify_in_pieces(entry, what, options)
    view = self._read_stored(entry, what, ReadOptions(verify=False))[box_index(bounds)]
    array = copy_in_pieces(self._shard(entry.shard), view, options.result_dtype(stored_dtype), options.report)
    array.flags.writeable = False
    return array

  def _stored_slice(self, entry: TensorEntry, part: TensorSlice) -> TensorEntry:
    stored = self._slices.get(slice_key(entry.key, part))
    where = f"{index_path(self._prefix)}: slice {part} of {entry.key!r}"
    if stored is None:
      raise DamagedCheckpointError(f"{where}: the index has no entry for it")
    shape = tuple(stop - start for start, stop in part.bounds(entry.shape))
    if stored.shape != shape or stored.dtype != entry.dtype:
      raise DamagedCheckpointError(
        f"{where}: stored as {stored.dtype.name} {stored.shape}, expected {entry.dtype.name} {shape}"
      )
    return stored

  def _read_stored(self, entry: TensorEntry, what: str, options: ReadOptions) -> np.ndarray:
    """Returns a tensor, or a slice, that is stored in one place."""
    path = shard_path(self._prefix, entry.shard, self._num_shards)
    where = f"{path}: {what} at byte {entry.offset_bytes}"
    stored_dtype = _numpy_dtype(entry, where)
    is_unverified = self._must_verify(entry, options)
    data = self._shard(entry.shard)[entry.offset_bytes : entry.offset_bytes + entry.size_bytes]
    if data.size != entry.size_bytes:
      raise _short_shard(path, entry, self._shard(entry.shard).size)
    if entry.dtype == DType.STRING:
      read_ahead(self._shard(entry.shard), data)
      strings, checksum = decode_string_tensor(data.tobytes(), entry.shape, where)
      if is_unverified:
        _verify(checksum, entry, where)
      return strings
    dtype = options.result_dtype(stored_dtype)
    if dtype == stored_dtype and not options.copy:
      checksum = self._checksum(entry, data, options) if is_unverified else 0
    else:
      mapped, bounds = self._shard(entry.shard), (entry.offset_bytes, _end(entry))
      data, checksum = cast_in_pieces(mapped, *bounds, stored_dtype, dtype, options.report)
    if is_unverified:
      _verify(checksum, entry, where)
      self._verified.add(entry)
    # Not `data.view(dtype)`, which refuses unaligned starts; NumPy reads unaligned memory correctly.
    try:
      array = np.ndarray(entry.shape, dtype, buffer=data)
    except ValueError as e:  # more dimensions, or larger ones beside a 0, than NumPy has
      raise DamagedCheckpointError(f"{where}: shape {entry.shape} cannot be an array: {e}") from e
    array.flags.writeable = False
    return array

  def _checksum(self, entry: TensorEntry, data: np.ndarray, options: ReadOptions) -> int:
    if data.size <= PIECE_BYTES:
      return masked_crc32c(data)
    # So that a large tensor is not in memory before it is used.
    return checksum_in_pieces(self._shard(entry.shard), entry.offset_bytes, _end(entry), options.report)

  def verify(self) -> None:
    """Checks the checksums of all tensors that were not read yet."""
    options = ReadOptions(verify=True)
    for entry in (*self.entries.values(), *self._slices.values()):
      if entry.slices or entry in self._verified:
        continue
      if entry.dtype == DType.STRING:  # its checksum is not that of its bytes
        self.read(entry, options)
        continue
      self._verify_in_pieces(entry, f"tensor {entry.key!r}", options)

  def _verify_in_pieces(self, entry: TensorEntry, what: str, options: ReadOptions) -> None:
    path = shard_path(self._prefix, entry.shard, self._num_shards)
    checksum = checksum_in_pieces(self._shard(entry.shard), entry.offset_bytes, _end(entry), options.report)
    _verify(checksum, entry, f"{path}: {what} at byte {entry.offset_bytes}")
    self._verified.add(entry)

  def map_shards(self) -> None:
    """Maps every data shard that holds a tensor."""
    for entry in (*self.entries.values(), *self._slices.values()):
      if not entry.slices:
        self._shard(entry.shard)

  def _shard(self, shard: int) -> np.ndarray:
    mapped = self._shards.get(shard)
    if mapped is None:
      mapped = self._shards[shard] = _map_file(shard_path(self._prefix, shard, self._num_shards), self._folder)
    return mapped

  def _must_verify(self, entry: TensorEntry, options: ReadOptions) -> bool:
    """Returns whether the checksum of an entry has to be verified before its bytes are used.

    If the file was written to since it was mapped, that is so whatever the options say: mapped bytes change with it.

    Raises:
      DamagedCheckpointError: the file is shorter than it was, so that reading the mapping would end the process.
    """
    path = shard_path(self._prefix, entry.shard, self._num_shards)
    state = _state(path)
    known = self._states.setdefault(entry.shard, state)
    # Another file that took the place of this one does not matter: the mapping keeps the old one.
    if state != known and state[:2] == known[:2]:
      if state[2] < known[2]:
        raise DamagedCheckpointError(
          f"{path}: was shortened from {known[2]} to {state[2]} bytes after it was opened. Put new files in the place "
          "of old ones, as `save` does, or load the model with copy=True."
        )
      self._states[entry.shard] = state
      self._changed.add(entry.shard)
      self._verified = {other for other in self._verified if other.shard != entry.shard}
    return (options.verify or entry.shard in self._changed) and entry not in self._verified

  def _check_shards(self) -> None:
    """Checks that every shard exists and is long enough, so that nothing fails half way through a model."""
    last: dict[int, TensorEntry] = {}
    stored_bytes = shard_bytes = 0
    for entry in (*self.entries.values(), *self._slices.values()):
      if entry.slices:
        continue
      stored_bytes += entry.size_bytes
      known = last.get(entry.shard)
      if known is None or _end(entry) > _end(known):
        last[entry.shard] = entry
    for shard, entry in sorted(last.items()):
      path = shard_path(self._prefix, shard, self._num_shards)
      try:
        size = self._folder.size_bytes(path, _SHARD)
      except FileNotFoundError as e:
        raise MissingShardError(
          f"{path}: data shard {shard} of {self._num_shards} is missing; copy all files {self._prefix}.* together"
        ) from e
      if _end(entry) > size:
        raise _short_shard(path, entry, size)
      shard_bytes += size
    if stored_bytes > shard_bytes:
      # TensorFlow gives each tensor bytes of its own.
      where = f"{self._prefix}.data-*: data that several tensors share"
      self._budget.spend_unpacked_bytes(stored_bytes - shard_bytes, shard_bytes, where)


def _verify(checksum: int, entry: TensorEntry, where: str) -> None:
  if checksum != entry.crc32c:
    raise DamagedCheckpointError(
      f"{where}: its checksum is {checksum:#010x}, but the index stores {entry.crc32c:#010x}. The file was "
      "damaged after it was written; copy it again from its source. To read the damaged values anyway, pass "
      "verify=False."
    )


def _state(path: str) -> tuple[int, ...]:
  """Returns which file a path names, its size and when it was last written to; () if there is none."""
  try:
    found = os.stat(path)
  except OSError:
    return ()
  return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _end(entry: TensorEntry) -> int:
  return entry.offset_bytes + entry.size_bytes


def _short_shard(path: str, entry: TensorEntry, size: int) -> DamagedCheckpointError:
  return DamagedCheckpointError(
    f"{path}: tensor {entry.key!r} ends at byte {_end(entry)}, but the file has {size} bytes; it is cut off"
  )


def _map_file(path: str, folder: ModelFolder) -> np.ndarray:
  try:
    with folder.open(path, _SHARD) as file:
      if os.fstat(file.fileno()).st_size == 0:  # an empty file cannot be mapped
        return np.empty(0, np.uint8)
      return np.memmap(file, np.uint8, mode="r")
  except FileNotFoundError as e:
    raise MissingShardError(f"{path}: this data shard is missing") from e


def _read_header(table: Mapping[bytes, bytes], path: str) -> int:
  if _HEADER_KEY not in table:
    raise DamagedCheckpointError(f"{path}: a table without the header of a checkpoint index; expected an entry ''")
  try:
    header = schema.BundleHeaderProto.FromString(table[_HEADER_KEY])
  except DecodeError as e:
    raise DamagedCheckpointError(f"{path}: the header cannot be parsed: {e}") from e
  if header.endianness != schema.BundleHeaderProto.LITTLE or sys.byteorder != "little":
    raise UnsupportedCheckpointError(
      f"{path}: byte order {header.endianness} (1: big-endian) read on a {sys.byteorder}-endian machine; only "
      "little-endian checkpoints on little-endian machines can be mapped. Save it again on a little-endian machine."
    )
  version = header.version
  if version.min_consumer > _VERSION or _VERSION in version.bad_consumers:
    raise UnsupportedCheckpointError(
      f"{path}: written in bundle format {version.producer}, which asks for readers of at least format "
      f"{version.min_consumer}; we read format {_VERSION}"
    )
  if not 1 <= header.num_shards <= _MAX_SHARDS:
    raise DamagedCheckpointError(f"{path}: the header counts {header.num_shards} shards; expected 1 to {_MAX_SHARDS}")
  return header.num_shards


def _parse_entries(table: Mapping[bytes, bytes], path: str) -> dict[bytes, schema.BundleEntryProto]:
  protos = {}
  for key, value in table.items():
    if key != _HEADER_KEY:
      try:
        protos[key] = schema.BundleEntryProto.FromString(value)
      except DecodeError as e:
        raise DamagedCheckpointError(f"{path}: entry {key!r} is damaged: {e}") from e
  return protos


def _read_entries(
  protos: Mapping[bytes, schema.BundleEntryProto], num_shards: int, path: str
) -> tuple[dict[str, TensorEntry], dict[bytes, TensorEntry]]:
  tensors: dict[str, TensorEntry] = {}
  slices: dict[bytes, TensorEntry] = {}
  for raw_key, proto in protos.items():
    is_slice = raw_key.startswith(b"\x00")
    try:
      key = repr(raw_key) if is_slice else raw_key.decode()
      entry = _read_entry(key, proto)
    except ValueError as e:  # a UnicodeDecodeError is a ValueError
      raise DamagedCheckpointError(f"{path}: entry {raw_key!r} is damaged: {e}") from e
    if not 0 <= entry.shard < num_shards:
      raise DamagedCheckpointError(f"{path}: entry {key!r} is in shard {entry.shard} of {num_shards}")
    if is_slice:
      slices[raw_key] = entry
    else:
      tensors[key] = entry
  return tensors, slices


def _read_entry(key: str, proto: schema.BundleEntryProto) -> TensorEntry:
  entry = TensorEntry(
    key=key,
    dtype=DType(proto.dtype),
    shape=tuple(dim.size for dim in proto.shape.dim),
    shard=proto.shard_id,
    offset_bytes=proto.offset,
    size_bytes=proto.size,
    crc32c=proto.crc32c,
    slices=tuple(TensorSlice.from_proto(part) for part in proto.slices),
  )
  if proto.shape.unknown_rank or any(dim < 0 for dim in entry.shape):
    raise ValueError(f"shape {entry.shape} is not fully known")
  if entry.offset_bytes < 0 or entry.size_bytes < 0:
    raise ValueError(f"offset {entry.offset_bytes} or size {entry.size_bytes} is negative")
  check_slices(entry.slices, entry.shape)
  return entry


def _numpy_dtype(entry: TensorEntry, where: str) -> np.dtype:
  """Returns the NumPy type of an entry, after checking its size against shape and type."""
  try:
    dtype = entry.dtype.numpy
  except UnsupportedError as e:
    raise UnsupportedCheckpointError(f"{where}: {entry.dtype.name} has no array form: {e}") from e
  expected = math.prod(entry.shape) * dtype.itemsize
  if not entry.slices and entry.dtype != DType.STRING and entry.size_bytes != expected:
    raise DamagedCheckpointError(
      f"{where}: {entry.dtype.name} {entry.shape} takes {expected} bytes, the index says {entry.size_bytes}"
    )
  return dtype
