"""Models above 2 GB, in chunks: the file of records, and the record that says where each chunk belongs."""

import zlib
from collections.abc import Callable

import numpy as np

from graftax.graphdef_ir import schema
from graftax.testing.hostile.draw import Draw
from graftax.testing.hostile.grammar.models import object_model, write_object_model
from graftax.testing.hostile.grammar.readers import use_model
from graftax.testing.hostile.grammar.riegeli import ChunkLies, RecordWriter, field
from graftax.testing.hostile.grammar.tables import varint
from graftax.testing.hostile.registry import Attempt, Box, Expectation, family

_KIND = "chunked"
_GRAPH = (("field", 2), ("index", 0), ("field", 2))
_LIBRARY = (*_GRAPH, ("field", 2), ("field", 1))
Change = Callable[[Draw, RecordWriter, schema.ChunkedMessage], None]


def _parts() -> tuple[bytes, list[bytes]]:
  """Returns the model without its functions, and the functions."""
  model = object_model()
  library = model.meta_graphs[0].graph_def.library
  functions = [function.SerializeToString() for function in library.function]
  library.ClearField("function")
  return model.SerializeToString(), functions


def _finished(
  box: Box,
  writer: RecordWriter,
  message: schema.ChunkedMessage,
  expectation: Expectation = "typed",
  lies: ChunkLies | None = None,
) -> Attempt:
  write_object_model(box.model)
  (box.model / "saved_model.pb").unlink()
  writer.finish(box.model / "saved_model.cpb", message, lies)
  return Attempt(lambda: use_model(box.model), expectation)


def _message(writer: RecordWriter, lies: ChunkLies | None = None) -> schema.ChunkedMessage:
  base, functions = _parts()
  first = writer.record(base, lies)
  fields = [field(writer.record(data), *_LIBRARY, ("index", i)) for i, data in enumerate(functions)]
  return schema.ChunkedMessage(chunk_index=first, chunked_fields=fields)


def attempt_of(change: Change, draw: Draw, box: Box) -> Attempt:
  """Changes the chunks of an honest model."""
  writer = RecordWriter()
  message = _message(writer)
  change(draw, writer, message)
  return _finished(box, writer, message)


def honest(draw: Draw, box: Box) -> Attempt:
  del draw
  writer = RecordWriter()
  return _finished(box, writer, _message(writer), "loaded")


_CHUNK_LIES = {
  "chunk_size": lambda draw: ChunkLies(size=draw.size(0)),
  "chunk_count": lambda draw: ChunkLies(count=draw.size(0, low=-1, high=1 << 54)),
  "chunk_decoded": lambda draw: ChunkLies(decoded=draw.size(0)),
  "chunk_record_size": lambda draw: ChunkLies(record=draw.size(0)),
  "chunk_kind": lambda draw: ChunkLies(kind=draw.lie(b"r", b"s", b"m", b"p", b"t", b"\0", b"\xff")),
  "chunk_compression": lambda draw: ChunkLies(compression=draw.lie(b"\0", b"b", b"z", b"s", b"\xff")),
  "chunk_hash": lambda draw: ChunkLies(data_hash=draw.lie(0, 1, 1 << 63), header_hash=draw.lie(0, 0, 1)),
  "chunk_stored_size": lambda draw: ChunkLies(
    compression=draw.pick(b"s", b"b", b"z"), pack=lambda data: varint(draw.size(len(data), 1 << 28, 1 << 33)) + data
  ),
  "chunk_snappy_copies": lambda draw: ChunkLies(
    compression=b"s",
    pack=lambda data: varint(1 + 64 * draw.pick(1, 1 << 16, 1 << 20)) + varint(1) + b"\x00a" + b"\xfe\x01\x00" * 4000,
  ),
  "chunk_zlib": lambda draw: ChunkLies(
    compression=draw.pick(b"b", b"z"), pack=lambda data: varint(len(data)) + zlib.compress(data)
  ),
}


def _with_lies(lies, draw: Draw, box: Box) -> Attempt:  # type: ignore[no-untyped-def]
  writer = RecordWriter()
  where = draw.pick("first", "last")
  drawn = lies(draw)
  return _finished(
    box, writer, _message(writer, drawn if where == "first" else None), "typed", drawn if where == "last" else None
  )


family(_KIND, _CHUNK_LIES, _with_lies)


def chunk_infos(draw: Draw, writer: RecordWriter, message: schema.ChunkedMessage) -> None:
  for info in writer.infos:
    info.offset = draw.size(info.offset, info.offset + 1, low=0)
    info.size = draw.size(info.size, low=0)
    info.type = draw.pick(0, 1, 2)


def chunk_numbers(draw: Draw, writer: RecordWriter, message: schema.ChunkedMessage) -> None:
  message.chunk_index = draw.size(0, 1, low=0)
  for part in message.chunked_fields:
    part.message.chunk_index = draw.size(part.message.chunk_index, 0, low=0)


def far_elements(draw: Draw, writer: RecordWriter, message: schema.ChunkedMessage) -> None:
  for i in range(draw.pick(1, 100, 2000)):
    index = draw.pick(1 << 19, 1 << 20, 1 << 31) if i < 3 else (1 << 20) - 1
    message.chunked_fields.append(
      field(schema.ChunkedMessage(), ("field", 2), ("index", i), ("field", 2), ("field", 1), ("index", index))
    )


def far_elements_of_each(draw: Draw, writer: RecordWriter, message: schema.ChunkedMessage) -> None:
  path: list[tuple[str, int | str]] = [
    ("field", 2),
    ("index", 0),
    ("field", 7),
    ("field", 1),
    ("index", draw.pick(3, 1 << 18)),
  ]
  path += [("field", 1), ("index", draw.pick(3, 1 << 18))]
  for _ in range(draw.pick(1, 30)):
    message.chunked_fields.append(field(schema.ChunkedMessage(), *path))


def paths(draw: Draw, writer: RecordWriter, message: schema.ChunkedMessage) -> None:
  steps: list[tuple[str, int | str]] = [
    ("field", 2),
    ("field", 1),
    ("field", 99),
    ("index", 0),
    ("index", 3),
    ("key", "x"),
    ("field", 0),
    ("key", "serving_default"),
    ("field", 5),
  ]
  for _ in range(draw.integer(1, 3)):
    path = [draw.pick(*steps) for _ in range(draw.integer(0, 6))]
    message.chunked_fields.append(field(writer.record(draw.pick(b"", b"\xff", b"\x08\x01", draw.data(9))), *path))


def nested_messages(draw: Draw, writer: RecordWriter, message: schema.ChunkedMessage) -> None:
  inner = schema.ChunkedMessage()
  for _ in range(draw.pick(3, 30, 45)):
    inner = schema.ChunkedMessage(chunked_fields=[field(inner)])
  message.chunked_fields.append(field(inner, *draw.pick((), _GRAPH)))


def chunks_used_twice(draw: Draw, writer: RecordWriter, message: schema.ChunkedMessage) -> None:
  message.chunked_fields.extend([message.chunked_fields[0]] * draw.integer(1, 5))


def fields_of_values(draw: Draw, writer: RecordWriter, message: schema.ChunkedMessage) -> None:
  at = draw.pick(
    (("field", 1),),
    (*_GRAPH, ("field", 4)),
    (("field", 2), ("index", 0), ("field", 1), ("field", 5)),
    (*_GRAPH, ("field", 1), ("index", 0), ("field", 1)),
  )
  for _ in range(draw.pick(1, 3, 300)):
    message.chunked_fields.append(field(writer.record(draw.pick(b"a", b"\xff\xfe", np.zeros(9).tobytes())), *at))


def last_record(draw: Draw, box: Box) -> Attempt:
  writer = RecordWriter()
  _message(writer)
  writer.record(draw.pick(b"", b"\xff\xff", draw.data(50), b"\x1a" * 4000))
  write_object_model(box.model)
  (box.model / "saved_model.pb").unlink()
  (box.model / "saved_model.cpb").write_bytes(writer.data)
  return Attempt(lambda: use_model(box.model), "refused")


def cut_off(draw: Draw, box: Box) -> Attempt:
  writer = RecordWriter()
  attempt = _finished(box, writer, _message(writer), "refused")
  path = box.model / "saved_model.cpb"
  path.write_bytes(path.read_bytes()[: draw.pick(-1, 0, 10, 63, 64, 65, 100, -50)])
  return attempt


def beside_another(draw: Draw, box: Box) -> Attempt:
  writer = RecordWriter()
  attempt = _finished(box, writer, _message(writer))
  (box.model / "saved_model.pb").write_bytes(draw.pick(b"", b"\xff", object_model().SerializeToString()))
  return attempt


def many_records(draw: Draw, writer: RecordWriter, message: schema.ChunkedMessage) -> None:
  for _ in range(draw.pick(10, 1000)):
    writer.record(b"")
