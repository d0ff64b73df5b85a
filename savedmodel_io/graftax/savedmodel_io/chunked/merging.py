"""Puts the chunks of a message together, as the last record of the file says."""

import os
from collections import deque
from collections.abc import Callable
from typing import Any, TypeAlias

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError

from graftax.graphdef_ir import Budget, LimitExceededError, ModelFolder, schema
from graftax.savedmodel_io.chunked.riegeli import RecordFile
from graftax.savedmodel_io.errors import DamagedSavedModelError

__all__ = ["read_chunked_saved_model"]

# A message, or what is in one of its fields. The type of messages that protobuf declares is not that of our schema.
_Message: TypeAlias = Any
_KEY_FIELD, _VALUE_FIELD = 1, 2
# A repeated field may be given an element far behind its end. What an element and its message take in memory.
_ELEMENT_BYTES = 200


def read_chunked_saved_model(
  path: str, budget: Budget | None = None, folder: ModelFolder | None = None
) -> schema.SavedModel:
  """Returns the message in a `.cpb` file.

  It may be larger than 2 GB, so it can be read, but not serialized in one piece.

  Args:
    path: the file.
    budget: limits what the chunks decompress to.
    folder: the files that may be read; by default those beside it.

  Raises:
    UnsafeFileError: the file is a link to another folder, or not a regular file.
    DamagedSavedModelError: the file is damaged.
    UnsupportedSavedModelError: its records are of a kind that TensorFlow does not write.
    LimitExceededError: it asks for more memory, or deeper messages, than the budget allows.
  """
  budget = Budget.of(budget)
  file = RecordFile(path, budget, folder)
  if file.last_position is None:
    raise DamagedSavedModelError(f"{path}: holds no records")
  model = schema.SavedModel()
  try:
    metadata = schema.ChunkMetadata.FromString(bytes(file.read(file.last_position)))
    _Merger(file, metadata, path, budget).merge(metadata.message, model, 0)
  except (DecodeError, ValueError, TypeError, IndexError, OverflowError, RecursionError) as e:
    raise (
      e
      if isinstance(e, DamagedSavedModelError | LimitExceededError)
      else DamagedSavedModelError(f"{path}: damaged: {e}")
    ) from e
  return model


class _Merger:
  """Merges the chunks of one file."""

  def __init__(self, file: RecordFile, metadata: schema.ChunkMetadata, path: str, budget: Budget):
    self._file = file
    self._path = path
    self._file_bytes = os.path.getsize(path)
    self._budget = budget
    self._infos = metadata.chunks
    self._used: set[int] = set()

  def merge(self, chunked: schema.ChunkedMessage, target: _Message, depth: int) -> None:
    """Merges a chunk, and then the chunks of fields within it, into a message.

    Args:
      chunked: where the chunks are.
      target: the message.
      depth: how many messages it lies in.
    """
    if chunked.HasField("chunk_index"):
      target.MergeFromString(self._chunk(chunked.chunk_index))
    # Chunks that create elements come before those that fill them.
    for field in sorted(chunked.chunked_fields, key=_depth):
      self._merge_field(field, target, depth)

  def _merge_field(self, field: schema.ChunkedField, target: _Message, depth: int) -> None:
    tags = deque(field.field_tag)
    if not tags:
      self.merge(field.message, target, depth)
      return
    while tags:
      descriptor = _field(target, tags.popleft())
      key = tags.popleft() if tags and tags[0].WhichOneof("kind") != "field" else None
      if descriptor.message_type is None:
        if tags:
          raise ValueError(f"field {descriptor.full_name!r} has no fields within it")
        self._set_value(target, descriptor, key, bytes(self._chunk(field.message.chunk_index)))
        return
      # Deep messages can be made, but neither copied nor compared.
      depth += 1
      self._budget.check_depth(depth, f"{self._path}: field {descriptor.full_name!r}")
      target = self._submessage(target, descriptor, key)
    self.merge(field.message, target, depth)

  def _chunk(self, index: int) -> bytes:
    if index >= len(self._infos) or index in self._used:
      raise ValueError(f"chunk {index} of {len(self._infos)} is missing, or has several places")
    self._used.add(index)
    info = self._infos[index]
    data = bytes(self._file.read(info.offset))
    if len(data) != info.size:
      raise ValueError(f"chunk {index} has {len(data)} bytes; expected {info.size}")
    return data

  def _submessage(self, message: _Message, descriptor: FieldDescriptor, key: schema.FieldIndex | None) -> _Message:
    """Returns the message in a field, or in an element of it, which is added if it is not there."""
    value = getattr(message, descriptor.name)
    is_map = descriptor.message_type is not None and descriptor.message_type.GetOptions().map_entry
    if is_map:
      if key is None or key.WhichOneof("kind") != "map_key":
        raise ValueError(f"map field {descriptor.full_name!r} is given no key")
      return value[getattr(key.map_key, key.map_key.WhichOneof("type") or "s")]
    if not descriptor.is_repeated:
      value.SetInParent()
      return value
    index = 0 if key is None else key.index
    self._extend(value, index, descriptor, value.add)
    return value[index]

  def _set_value(
    self, message: _Message, descriptor: FieldDescriptor, key: schema.FieldIndex | None, chunk: bytes
  ) -> None:
    """Appends a chunk to the bytes in a field, or in an element of it."""
    if descriptor.type not in (FieldDescriptor.TYPE_BYTES, FieldDescriptor.TYPE_STRING):
      raise ValueError(f"field {descriptor.full_name!r} does not hold bytes")
    part: Any = chunk if descriptor.type == FieldDescriptor.TYPE_BYTES else chunk.decode()
    if not descriptor.is_repeated:
      setattr(message, descriptor.name, self._joined(getattr(message, descriptor.name), part, descriptor))
      return
    values = getattr(message, descriptor.name)
    index = len(values) if key is None else key.index
    self._extend(values, index, descriptor, lambda: values.append(part[:0]))
    values[index] = self._joined(values[index], part, descriptor)

  def _joined(self, old: Any, part: Any, descriptor: FieldDescriptor) -> Any:
    if not old:
      return part
    # Each part copies those before it.
    self._spend(len(old), f"joining the parts of field {descriptor.full_name!r}")
    return old + part

  def _extend(self, values: _Message, index: int, descriptor: FieldDescriptor, add: Callable[[], object]) -> None:
    num_added = index + 1 - len(values)
    if num_added > 0:
      self._spend(_ELEMENT_BYTES * num_added, f"element {index} of field {descriptor.full_name!r}")
    for _ in range(num_added):
      add()

  def _spend(self, num_bytes: int, what: str) -> None:
    self._budget.spend_unpacked_bytes(num_bytes, self._file_bytes, f"{self._path}: {what}")


def _depth(field: schema.ChunkedField) -> int:
  return len(field.field_tag)


def _field(message: _Message, tag: schema.FieldIndex) -> FieldDescriptor:
  descriptor: FieldDescriptor | None
  descriptor = message.DESCRIPTOR.fields_by_number.get(tag.field) if tag.WhichOneof("kind") == "field" else None
  if descriptor is None:
    raise ValueError(f"{message.DESCRIPTOR.name} has no field {tag.field}")
  return descriptor
