"""Checkpoints of format 1: the record of all tensors, and the records of their slices."""

from collections.abc import Callable
from typing import Any

import numpy as np

from graftax.graphdef_ir import schema
from graftax.testing.hostile.draw import INT32, Draw
from graftax.testing.hostile.grammar.protos import Shape, attr
from graftax.testing.hostile.grammar.readers import use_checkpoint
from graftax.testing.hostile.grammar.tables import TableLies, slice_key, varint, write_v1
from graftax.testing.hostile.registry import Attempt, Box, Expectation, attempted, family

_KIND = "checkpoint_v1"
Records = dict[bytes, schema.SavedTensorSlices]
Change = Callable[[Draw, schema.SavedTensorSlices, Records], None]


def _honest() -> tuple[schema.SavedTensorSlices, Records]:
  """Returns a checkpoint of `rows`, [4, 2] in two slices, and `b`, [3]."""
  meta = schema.SavedTensorSlices()
  meta.meta.versions.producer = 1
  records: Records = {}
  for name, shape, parts in (("rows", (4, 2), [[(0, 2), (0, 2)], [(2, 2), (0, 2)]]), ("b", (3,), [[(0, -1)]])):
    tensor = meta.meta.tensor.add(name=name, type=1, shape=attr(Shape(shape)).shape)
    for part in parts:
      _slice(tensor.slice.add(), part)
      record = schema.SavedTensorSlices()
      record.data.name = name
      _slice(record.data.slice, part)
      record.data.data.dtype = 1
      record.data.data.float_val.extend(np.arange(4 if name == "rows" else 3, dtype=np.float32))
      records[slice_key(name, part)] = record
  return meta, records


def _slice(proto: schema.TensorSliceProto, part: list[tuple[int, int]]) -> None:
  for start, length in part:
    extent = proto.extent.add(start=start)
    if length >= 0:
      extent.length = length


def _attempt(
  box: Box, meta: schema.SavedTensorSlices, records: Records, expectation: Expectation, lies: TableLies | None
) -> Attempt:
  write_v1(box.model / "model.ckpt", meta, records, lies)
  return Attempt(lambda: use_checkpoint(box.model / "model.ckpt"), expectation)


def attempt_of(change: Change, draw: Draw, box: Box, expectation: Expectation = "typed") -> Attempt:
  """Changes an honest checkpoint."""
  meta, records = _honest()
  change(draw, meta, records)
  return _attempt(box, meta, records, expectation, None)


@attempted("loaded")
def honest(draw: Draw, meta: schema.SavedTensorSlices, records: Records) -> None:
  del draw, meta, records


def shapes(draw: Draw, meta: schema.SavedTensorSlices, records: Records) -> None:
  for tensor in meta.meta.tensor:
    tensor.shape.CopyFrom(attr(Shape([draw.size(2) for _ in range(draw.pick(2, 1, 0, 3, 70))])).shape)
    tensor.shape.unknown_rank = draw.chance(0.1)


def dtypes(draw: Draw, meta: schema.SavedTensorSlices, records: Records) -> None:
  for tensor in meta.meta.tensor:
    tensor.type = draw.lie(1, 0, 2, 3, 7, 8, 14, 18, 19, 20, 21, 23, 99)
  for record in records.values():
    record.data.data.dtype = draw.lie(1, 0, 3, 7, 99)


def slices(draw: Draw, meta: schema.SavedTensorSlices, records: Records) -> None:
  for tensor in meta.meta.tensor:
    for part in tensor.slice:
      for extent in part.extent:
        extent.start = draw.size(extent.start)
        if draw.chance(0.7):
          extent.length = draw.size(extent.length)


def slices_repeated(draw: Draw, meta: schema.SavedTensorSlices, records: Records) -> None:
  tensor = meta.meta.tensor[0]
  tensor.slice.extend([tensor.slice[0]] * draw.pick(1, 600, 20_000))


def slices_of_large_tensors(draw: Draw, meta: schema.SavedTensorSlices, records: Records) -> None:
  tensor = meta.meta.tensor[0]
  tensor.shape.dim[0].size = draw.pick(4, 1 << 28, 1 << 40)
  if draw.chance(0.5):
    del tensor.slice[:]


def tensors_repeated(draw: Draw, meta: schema.SavedTensorSlices, records: Records) -> None:
  for _ in range(draw.pick(1, 3, 2000)):
    copy = meta.meta.tensor.add()
    copy.CopyFrom(meta.meta.tensor[0])
    copy.name = draw.name("rows", "again", "b")


def values(draw: Draw, meta: schema.SavedTensorSlices, records: Records) -> None:
  for record in records.values():
    data = record.data.data
    del data.float_val[draw.integer(0, 4) :]
    field: Any = draw.pick(data.float_val, data.double_val, data.int_val, data.int64_val)
    field.extend([1] * draw.integer(0, 9))
    if draw.chance(0.3):
      data.tensor_content = draw.data(draw.integer(0, 40))
    if draw.chance(0.3):
      data.string_val.append(b"x")


@attempted("refused")
def values_missing(draw: Draw, meta: schema.SavedTensorSlices, records: Records) -> None:
  del draw.pick(*records.values()).data.data.float_val[draw.integer(0, 2) :]


@attempted("refused")
def records_missing(draw: Draw, meta: schema.SavedTensorSlices, records: Records) -> None:
  del records[draw.pick(*sorted(records))]


def records_of_other_names(draw: Draw, meta: schema.SavedTensorSlices, records: Records) -> None:
  for record in records.values():
    record.data.name = draw.name("rows", "b")


def names(draw: Draw, meta: schema.SavedTensorSlices, records: Records) -> None:
  for tensor in meta.meta.tensor:
    tensor.name = draw.name(tensor.name)


def versions(draw: Draw, meta: schema.SavedTensorSlices, records: Records) -> None:
  meta.meta.versions.producer = draw.size(1, **INT32)
  meta.meta.versions.min_consumer = draw.size(0, **INT32)


_TABLE_LIES = {
  "table_shared": lambda draw: TableLies(shared=draw.size(0, low=0)),
  "table_value_size": lambda draw: TableLies(value_size=draw.size(0, low=-1)),
  "table_kind": lambda draw: TableLies(kind=draw.lie(0, 1, 2, 255)),
  "table_crc": lambda draw: TableLies(crc=draw.lie(0, 1, 1 << 31)),
  "table_blocks": lambda draw: TableLies(offset=draw.size(0), size=draw.size(0)),
  "table_index": lambda draw: TableLies(index_offset=draw.size(0), index_size=draw.size(0)),
  "table_snappy": lambda draw: TableLies(
    kind=1,
    wrap=lambda block: (
      varint(draw.size(len(block), 1 << 30, low=0)) + b"\x00a" + b"\xfe\x01\x00" * draw.pick(5, 100_000)
    ),
  ),
}
family(_KIND, _TABLE_LIES, lambda lies, draw, box: _attempt(box, *_honest(), "typed", lies(draw)))


def several_files(draw: Draw, box: Box) -> Attempt:
  for i in range(draw.integer(2, 4)):
    meta, records = _honest()
    meta.meta.tensor[0].type = draw.lie(1, 2, probability=0.3)
    meta.meta.tensor[0].shape.dim[0].size = draw.size(4)
    write_v1(box.model / f"model.ckpt-{i:05d}-of-{draw.pick(3, 2, 99_999):05d}", meta, records)
  return Attempt(lambda: use_checkpoint(box.model / "model.ckpt"))


def wrong_records(draw: Draw, box: Box) -> Attempt:
  meta, records = _honest()
  for key in sorted(records):
    if draw.chance(0.4):
      records[key] = draw.pick(meta, schema.SavedTensorSlices())
  return _attempt(box, meta if draw.chance(0.7) else schema.SavedTensorSlices(), records, "typed", None)
