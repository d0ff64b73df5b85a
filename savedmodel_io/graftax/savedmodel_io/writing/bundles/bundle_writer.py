"""Writer of checkpoints in format 2: an index table and data shards, `<prefix>.index` and `<prefix>.data-*-of-*`."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graftax.graphdef_ir import DType, schema
from graftax.savedmodel_io.checkpoint.bundle_reader import index_path, shard_path
from graftax.savedmodel_io.checkpoint.crc32c import crc32c, mask
from graftax.savedmodel_io.checkpoint.table_writer import write_table
from graftax.savedmodel_io.checkpoint.tensor_slice import TensorSlice, slice_key
from graftax.savedmodel_io.errors import CheckpointWriteError, TensorValueError
from graftax.savedmodel_io.writing.bundles.part_sources import Chunk, PartSource
from graftax.savedmodel_io.writing.bundles.stored_tensor import StoredTensor

__all__ = ["MAX_SHARD_BYTES", "BundlePlan", "Progress", "plan_bundle", "write_bundle", "write_errors"]

Progress = Callable[[int, int], None]
"""Called with the number of bytes written so far and the number there will be, about once per MiB."""

MAX_SHARD_BYTES = 1 << 32
_MAX_SHARDS = 99_999  # the file names have five digits
_VERSION = 1  # of the bundle format
# JAX takes a mapped array that starts at such an offset without a copy; TensorFlow reads any offset.
_ALIGNMENT = 64
_BUFFER_BYTES = 1 << 17


@dataclass(frozen=True, slots=True)
class _PlacedPart:
  """A tensor or slice, and the place of its bytes."""

  key: bytes
  dtype: DType
  shape: tuple[int, ...]
  source: PartSource
  shard: int
  offset_bytes: int


@dataclass(frozen=True, slots=True)
class BundlePlan:
  """What a checkpoint will hold, and where.

  Attributes:
    parts: tensors and slices in the order of their places.
    partitioned: table entries of the tensors that are stored as slices.
    num_shards: how many data files hold parts; at least 1.
    size_bytes: what the parts hold together.
  """

  parts: tuple[_PlacedPart, ...]
  partitioned: Mapping[bytes, bytes]
  num_shards: int
  size_bytes: int


def plan_bundle(tensors: Mapping[str, StoredTensor], max_shard_bytes: int = MAX_SHARD_BYTES) -> BundlePlan:
  """Returns where each tensor goes. Reads no values.

  Args:
    tensors: key -> tensor, in the order in which they are written.
    max_shard_bytes: a data file is closed before a tensor or slice would make it larger; one that is larger itself
      gets a file of its own.

  Raises:
    TensorValueError: a key cannot be one, or `max_shard_bytes` is too small.
  """
  if max_shard_bytes < 1:
    raise TensorValueError(f"max_shard_bytes={max_shard_bytes!r}: expected a positive number of bytes")
  parts: list[_PlacedPart] = []
  partitioned: dict[bytes, bytes] = {}
  shard, end = 0, 0
  for name, tensor in tensors.items():
    key = _key(name)
    for part, source in tensor.parts:
      offset = _aligned(end, source.size_bytes)
      if end and offset + source.size_bytes > max_shard_bytes:
        shard, offset = shard + 1, 0
      shape = tensor.shape if part is None else tuple(stop - start for start, stop in part.bounds(tensor.shape))
      part_key = key if part is None else slice_key(name, part)
      parts.append(_PlacedPart(part_key, tensor.dtype, shape, source, shard, offset))
      end = offset + source.size_bytes
    slices = [part for part, _ in tensor.parts if part is not None]
    if slices:
      partitioned[key] = _entry(tensor.dtype, tensor.shape, slices=slices).SerializeToString()
  if shard >= _MAX_SHARDS:
    raise TensorValueError(
      f"max_shard_bytes={max_shard_bytes} makes {shard + 1} data files, and there can be {_MAX_SHARDS}; pass a larger "
      "max_shard_bytes"
    )
  return BundlePlan(tuple(parts), partitioned, shard + 1, sum(part.source.size_bytes for part in parts))


def write_bundle(
  plan: BundlePlan, prefix: str, *, num_shards: int | None = None, progress: Progress | None = None
) -> None:
  """Writes data files, then the index. None of them may exist.

  Args:
    plan: what to write.
    prefix: path without `.index`.
    num_shards: number of data files, if there are to be more than the plan needs; the last ones are empty.
    progress: see `Progress`.

  Raises:
    CheckpointWriteError: the disk is full, or a file cannot be written for another reason.
    DamagedCheckpointError: a tensor that is copied from another checkpoint is damaged there.
  """
  count = plan.num_shards if num_shards is None else num_shards
  report = _Report(plan.size_bytes, progress)
  checksums: dict[bytes, int] = {}
  by_shard: list[list[_PlacedPart]] = [[] for _ in range(count)]
  for part in plan.parts:
    by_shard[part.shard].append(part)
  for shard, parts in enumerate(by_shard):
    with _new_file(shard_path(prefix, shard, count)) as write:
      checksums.update(_write_parts(write, parts, report))
  with _new_file(index_path(prefix)) as write:
    write(write_table(_index(plan, count, checksums)))


class _Report:
  """Adds up what was written."""

  def __init__(self, total_bytes: int, progress: Progress | None):
    self._written, self._total, self._progress = 0, total_bytes, progress

  def add(self, num_bytes: int) -> None:
    self._written += num_bytes
    if self._progress is not None:
      self._progress(self._written, self._total)


def _write_parts(
  write: Callable[[Chunk], None], parts: Sequence[_PlacedPart], report: _Report
) -> Iterator[tuple[bytes, int]]:
  """Writes the parts of one shard; yields their keys and masked checksums."""
  position = 0
  for part in parts:
    write(bytes(part.offset_bytes - position))
    checksum = 0
    size = 0
    for stored, checked in part.source.chunks():
      write(stored)
      checksum = crc32c(checked, checksum)
      size += len(stored)
      report.add(len(stored))
    if size != part.source.size_bytes:
      raise AssertionError(f"internal: {part.key!r} has {size} bytes, but {part.source.size_bytes} were planned")
    position = part.offset_bytes + size
    yield part.key, mask(checksum)


def _index(plan: BundlePlan, num_shards: int, checksums: Mapping[bytes, int]) -> dict[bytes, bytes]:
  header = schema.BundleHeaderProto(num_shards=num_shards)
  header.version.producer = _VERSION
  entries = {b"": header.SerializeToString(), **plan.partitioned}
  for part in plan.parts:
    entry = _entry(part.dtype, part.shape)
    entry.shard_id = part.shard
    entry.offset = part.offset_bytes
    entry.size = part.source.size_bytes
    entry.crc32c = checksums[part.key]
    entries[part.key] = entry.SerializeToString()
  return entries


def _entry(dtype: DType, shape: tuple[int, ...], slices: Sequence[TensorSlice] = ()) -> schema.BundleEntryProto:
  entry = schema.BundleEntryProto(dtype=int(dtype))
  entry.shape.SetInParent()
  for dim in shape:
    entry.shape.dim.add(size=dim)
  for part in slices:
    stored = entry.slices.add()
    for start, length in part.extents:
      extent = stored.extent.add()
      if length is not None:
        extent.start = start
        extent.length = length
  return entry


def _key(name: str) -> bytes:
  if not isinstance(name, str):
    raise TensorValueError(f"tensor name {name!r} is of type {type(name).__name__}; expected a str")
  try:
    key = name.encode()
  except UnicodeEncodeError as e:
    raise TensorValueError(f"tensor name {name!r} cannot be written as UTF-8: {e}") from e
  if not key or key.startswith(b"\x00"):
    raise TensorValueError(f"tensor name {name!r}: expected a name that is not empty and does not begin with NUL")
  return key


def _aligned(end: int, size_bytes: int) -> int:
  # Small tensors lie side by side: 64 bytes for each of many scalars would be most of the file.
  return end if size_bytes < _ALIGNMENT else -(-end // _ALIGNMENT) * _ALIGNMENT


@contextlib.contextmanager
def _new_file(path: str) -> Iterator[Callable[[Chunk], None]]:
  """Yields a function that appends to a new file; failures to write are `CheckpointWriteError`."""
  file: Any  # numpy arrays are buffers, which their types do not say
  with write_errors(path):
    file = open(path, "xb", buffering=_BUFFER_BYTES)

  def write(data: Chunk) -> None:
    with write_errors(path):
      file.write(data)

  try:
    yield write
    with write_errors(path):
      file.close()
  finally:
    with contextlib.suppress(OSError):  # the first error tells more; closing writes what is buffered, and fails as well
      file.close()


@contextlib.contextmanager
def write_errors(path: str) -> Iterator[None]:
  """Raises the `OSError` of a block as `CheckpointWriteError`."""
  try:
    yield
  except OSError as e:
    error = CheckpointWriteError(
      f"{path}: cannot be written ({e.strerror or e}); nothing was put in place. Free some space, or choose another "
      "folder."
    )
    error.errno = e.errno
    raise error from e
