"""Puts the chunks of a message together, as the last record of the file says."""

from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError

from graftax.graphdef_ir import schema
from graftax.savedmodel_io.chunked.riegeli import RecordFile
from graftax.savedmodel_io.errors import DamagedSavedModelError

__all__ = ["read_chunked_saved_model"]

# Any in this module: a field holds messages, lists, maps or values.

_KEY_FIELD, _VALUE_FIELD = 1, 2
# A repeated field may be given an element far behind its end.
_MOST_ELEMENTS_ADDED = 1 << 20


def read_chunked_saved_model(path: str) -> schema.SavedModel:
  """Returns the message in a `.cpb` file.

  It may be larger than 2 GB, so it can be read, but not serialized in one piece.

  Raises:
    DamagedSavedModelError: the file is damaged.
    UnsupportedSavedModelError: its records are of a kind that TensorFlow does not write.
  """
  file = RecordFile(path)
  if not file.positions:
    raise DamagedSavedModelError(f"{path}: holds no records")
  model = schema.SavedModel()
  try:
    metadata = schema.ChunkMetadata.FromString(bytes(file.read(file.positions[-1])))
    _Merger(file, metadata).merge(metadata.message, model)
  except (DecodeError, ValueError, TypeError, IndexError, OverflowError, RecursionError) as e:
    raise e if isinstance(e, DamagedSavedModelError) else DamagedSavedModelError(f"{path}: damaged: {e}") from e
  return model


class _Merger:
  """Merges the chunks of one file."""

  def __init__(self, file: RecordFile, metadata: schema.ChunkMetadata):
    self._file = file
    self._infos = metadata.chunks
    self._used: set[int] = set()

  def merge(self, chunked: schema.ChunkedMessage, target: Any) -> None:
    """Merges a chunk, and then the chunks of fields within it, into a message."""
    if chunked.HasField("chunk_index"):
      target.MergeFromString(self._chunk(chunked.chunk_index))
    # Chunks that create elements come before those that fill them.
    for field in sorted(chunked.chunked_fields, key=_depth):
      self._merge_field(field, target)

  def _merge_field(self, field: schema.ChunkedField, target: Any) -> None:
    tags = list(field.field_tag)
    if not tags:
      self.merge(field.message, target)
      return
    while tags:
      descriptor = _field(target, tags.pop(0))
      key = tags.pop(0) if tags and tags[0].WhichOneof("kind") != "field" else None
      if descriptor.message_type is None:
        if tags:
          raise ValueError(f"field {descriptor.full_name!r} has no fields within it")
        _set_value(target, descriptor, key, bytes(self._chunk(field.message.chunk_index)))
        return
      target = _submessage(target, descriptor, key)
    self.merge(field.message, target)

  def _chunk(self, index: int) -> bytes:
    if index >= len(self._infos) or index in self._used:
      raise ValueError(f"chunk {index} of {len(self._infos)} is missing, or has several places")
    self._used.add(index)
    info = self._infos[index]
    data = bytes(self._file.read(info.offset))
    if len(data) != info.size:
      raise ValueError(f"chunk {index} has {len(data)} bytes; expected {info.size}")
    return data


def _depth(field: schema.ChunkedField) -> int:
  return len(field.field_tag)


def _field(message: Any, tag: schema.FieldIndex) -> Any:
  descriptor = message.DESCRIPTOR.fields_by_number.get(tag.field) if tag.WhichOneof("kind") == "field" else None
  if descriptor is None:
    raise ValueError(f"{message.DESCRIPTOR.name} has no field {tag.field}")
  return descriptor


def _submessage(message: Any, descriptor: Any, key: schema.FieldIndex | None) -> Any:
  """Returns the message in a field, or in an element of it, which is added if it is not there."""
  value = getattr(message, descriptor.name)
  if descriptor.message_type.GetOptions().map_entry:
    if key is None or key.WhichOneof("kind") != "map_key":
      raise ValueError(f"map field {descriptor.full_name!r} is given no key")
    return value[getattr(key.map_key, key.map_key.WhichOneof("type") or "s")]
  if not descriptor.is_repeated:
    value.SetInParent()
    return value
  index = 0 if key is None else key.index
  _extend(value, index, descriptor, value.add)
  return value[index]


def _set_value(message: Any, descriptor: Any, key: schema.FieldIndex | None, chunk: bytes) -> None:
  """Appends a chunk to the bytes in a field, or in an element of it."""
  if descriptor.type not in (FieldDescriptor.TYPE_BYTES, FieldDescriptor.TYPE_STRING):
    raise ValueError(f"field {descriptor.full_name!r} does not hold bytes")
  part: Any = chunk if descriptor.type == FieldDescriptor.TYPE_BYTES else chunk.decode()
  if not descriptor.is_repeated:
    old = getattr(message, descriptor.name)
    setattr(message, descriptor.name, old + part if old else part)
    return
  values = getattr(message, descriptor.name)
  index = len(values) if key is None else key.index
  _extend(values, index, descriptor, lambda: values.append(part[:0]))
  values[index] = values[index] + part if values[index] else part


def _extend(values: Any, index: int, descriptor: Any, add: Any) -> None:
  if index - len(values) > _MOST_ELEMENTS_ADDED:
    raise ValueError(f"field {descriptor.full_name!r} has {len(values)} elements; got one at {index}")
  while len(values) <= index:
    add()
