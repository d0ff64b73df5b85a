"""Checkpoints of format 2: the table of the index, the records in it, and the shards."""

from collections.abc import Callable

import numpy as np

from graftax.graphdef_ir import schema
from graftax.testing.hostile.draw import INT32, Draw
from graftax.testing.hostile.grammar.protos import Shape, attr
from graftax.testing.hostile.grammar.readers import use_checkpoint
from graftax.testing.hostile.grammar.tables import Bundle, TableLies, new_bundle, slice_key, table, varint, write_bundle
from graftax.testing.hostile.registry import Attempt, Box, Expectation, attempted, family

_KIND = "checkpoint"
_VALUES: dict[str, np.ndarray] = {
  "a": np.arange(6, dtype=np.float32).reshape(2, 3),
  "b": np.ones(4, np.int64),
  "c": np.zeros((2, 2), np.float16),
}
Change = Callable[[Draw, Bundle], None]


def _check(value: dict[str, np.ndarray]) -> None:
  for name, expected in _VALUES.items():
    np.testing.assert_array_equal(value[name], expected)


def _written(box: Box, bundle: Bundle, expectation: Expectation = "typed", lies: TableLies | None = None) -> Attempt:
  write_bundle(box.model / "ckpt", bundle, lies)
  return Attempt(lambda: use_checkpoint(box.model / "ckpt"), expectation, _check if expectation == "loaded" else None)


def attempt_of(change: Change, draw: Draw, box: Box, expectation: Expectation = "typed") -> Attempt:
  """Changes an honest checkpoint."""
  bundle = new_bundle(_VALUES)
  change(draw, bundle)
  return _written(box, bundle, expectation)


@attempted("loaded")
def honest(draw: Draw, bundle: Bundle) -> None:
  del draw, bundle


def header(draw: Draw, bundle: Bundle) -> None:
  bundle.header.num_shards = draw.size(1, **INT32)
  bundle.header.endianness = draw.lie(0, 1, 2, probability=0.3)
  bundle.header.version.producer = draw.size(1, **INT32)
  bundle.header.version.min_consumer = draw.size(0, **INT32)


def dtypes(draw: Draw, bundle: Bundle) -> None:
  for entry in bundle.entries.values():
    entry.dtype = draw.lie(entry.dtype, 0, 2, 7, 10, 18, 20, 21, 22, 23, 25, 99, 101, 1000)


def shapes(draw: Draw, bundle: Bundle) -> None:
  for entry in bundle.entries.values():
    entry.shape.CopyFrom(attr(Shape([draw.size(2) for _ in range(draw.pick(2, 0, 1, 3, 70))])).shape)
    entry.shape.unknown_rank = draw.chance(0.1)


def shapes_of_nothing(draw: Draw, bundle: Bundle) -> None:
  for entry in bundle.entries.values():  # with a 0 in it, the product says nothing of the other sizes
    entry.shape.CopyFrom(attr(Shape([0, draw.size(1), draw.size(1 << 40)])).shape)
    entry.size, entry.crc32c = 0, 0xA282EAD8


def offsets(draw: Draw, bundle: Bundle) -> None:
  for entry in bundle.entries.values():
    entry.offset = draw.size(entry.offset, 1, len(bundle.data[0]))


def sizes(draw: Draw, bundle: Bundle) -> None:
  for entry in bundle.entries.values():
    entry.size = draw.size(entry.size)


def sizes_and_shapes(draw: Draw, bundle: Bundle) -> None:
  for entry in bundle.entries.values():
    size = draw.size(6, 1 << 28, 1 << 36)
    entry.shape.CopyFrom(attr(Shape([size])).shape)
    entry.size = max(-(1 << 63), min(size * 4, (1 << 63) - 1))


def shard_numbers(draw: Draw, bundle: Bundle) -> None:
  bundle.header.num_shards = draw.pick(1, 2, 100_000)
  for entry in bundle.entries.values():
    entry.shard_id = draw.size(0, 1, **INT32)


@attempted("refused")
def checksums(draw: Draw, bundle: Bundle) -> None:
  entry = draw.pick(*bundle.entries.values())
  entry.crc32c ^= 1 << draw.integer(0, 31)


@attempted("refused")
def short_shards(draw: Draw, bundle: Bundle) -> None:
  bundle.data[0] = bundle.data[0][: -draw.integer(1, 30)]


@attempted("refused")
def changed_shards(draw: Draw, bundle: Bundle) -> None:
  position = draw.integer(0, len(bundle.data[0]) - 1)
  data = bytearray(bundle.data[0])
  data[position] ^= draw.integer(1, 255)
  bundle.data[0] = bytes(data)


def tensors_at_one_place(draw: Draw, bundle: Bundle) -> None:
  entry = bundle.add("big", np.zeros(draw.pick(16, 1 << 18), np.float32))
  for i in range(draw.pick(3, 600)):
    bundle.entries[f"copy_{i}"] = entry


def _add_sliced(bundle: Bundle, extents: list[list[tuple[int, int]]], shape: tuple[int, ...]) -> None:
  entry = schema.BundleEntryProto(dtype=1)
  entry.shape.CopyFrom(attr(Shape(shape)).shape)
  for part in extents:
    proto = entry.slices.add()
    for start, length in part:
      proto.extent.add(start=start, length=length)
  bundle.entries["sliced"] = entry


def _slice_records(extents: list[list[tuple[int, int]]], entry: schema.BundleEntryProto) -> list[tuple[bytes, bytes]]:
  return [(slice_key("sliced", part), entry.SerializeToString()) for part in extents]


def _slices(draw: Draw, box: Box, extents: list[list[tuple[int, int]]], shape: tuple[int, ...], size: int) -> Attempt:
  bundle = new_bundle(_VALUES)
  _add_sliced(bundle, extents, shape)
  entry = bundle.add("part", np.ones(size, np.float32))
  del bundle.entries["part"]
  entry.shape.CopyFrom(attr(Shape((size,))).shape)
  if draw.chance(0.2):
    entry.size = draw.size(entry.size)
  # Keys of slices sort before those of tensors.
  write_bundle(box.model / "ckpt", bundle)
  records = _slice_records([[(max(-(1 << 63), a), b) for a, b in part] for part in extents], entry)
  entries = [(b"", bundle.header.SerializeToString()), *sorted(dict(records).items())]
  entries += sorted((key.encode(), value.SerializeToString()) for key, value in bundle.entries.items())
  (box.model / "ckpt.index").write_bytes(table(entries))
  return Attempt(lambda: use_checkpoint(box.model / "ckpt"))


def slices_many(draw: Draw, box: Box) -> Attempt:
  count, size = draw.pick((2, 4), (600, 1 << 14), (5000, 64))
  return _slices(draw, box, [[(i * size, size)] for i in range(count)], (count * size,), size)


def slices_that_overlap(draw: Draw, box: Box) -> Attempt:
  extents = [[(draw.integer(0, 6), draw.size(4, low=0, high=1 << 40))] for _ in range(draw.integer(1, 6))]
  return _slices(draw, box, extents, (draw.size(10),), 4)


def slices_with_gaps(draw: Draw, box: Box) -> Attempt:
  return _slices(draw, box, [[(0, 4)], [(draw.integer(5, 8), 4)]], (draw.pick(12, 1 << 20, 1 << 33),), 4)


def slices_of_other_rank(draw: Draw, box: Box) -> Attempt:
  extents = [[(0, 4)] * draw.pick(2, 0, 3, 40)]
  return _slices(draw, box, extents, (4,), 4)


def slices_of_nothing(draw: Draw, box: Box) -> Attempt:
  shape = (0, draw.size(1), draw.size(1 << 50))
  return _slices(draw, box, [[(0, 0), (0, draw.size(1)), (0, -1)]], shape, 1)


def names(draw: Draw, bundle: Bundle) -> None:
  for name in list(bundle.entries):
    bundle.entries[draw.name(name)] = bundle.entries.pop(name)


def object_graph(draw: Draw, bundle: Bundle) -> None:
  bundle.add_string("_CHECKPOINTABLE_OBJECT_GRAPH", draw.data(draw.integer(0, 60)))


def strings(draw: Draw, bundle: Bundle) -> None:
  entry = bundle.add_string("s", b"abc")
  start = entry.offset
  data = bytearray(bundle.data[0])
  data[start : start + 1] = draw.lie(b"\x03", b"\xff\xff\xff\xff\x0f", b"\xff" * 9 + b"\x01", b"\x00", b"\x04")
  bundle.data[0] = bytes(data)
  entry.size = draw.size(len(data) - start)
  entry.shape.CopyFrom(attr(Shape([draw.size(1)] * draw.integer(0, 2))).shape)


_TABLE_LIES = {
  "table_shared": lambda draw: TableLies(shared=draw.size(0, low=0)),
  "table_unshared": lambda draw: TableLies(unshared=draw.size(0, low=-1)),
  "table_value_size": lambda draw: TableLies(value_size=draw.size(0, low=-1)),
  "table_kind": lambda draw: TableLies(kind=draw.lie(0, 1, 2, 3, 255)),
  "table_crc": lambda draw: TableLies(crc=draw.lie(0, 1, 1 << 31)),
  "table_restarts": lambda draw: TableLies(num_restarts=draw.size(1), restart=draw.size(0)),
  "table_offset": lambda draw: TableLies(offset=draw.size(0)),
  "table_size": lambda draw: TableLies(size=draw.size(0)),
  "table_index": lambda draw: TableLies(index_offset=draw.size(0), index_size=draw.size(0)),
  "table_magic": lambda draw: TableLies(magic=draw.lie(0, 1, 1 << 63)),
  "table_snappy": lambda draw: TableLies(
    kind=1,
    wrap=lambda block: (
      varint(draw.size(len(block), 1 << 30, low=0)) + draw.pick(b"\xfc", b"\xfe\x01\x00", b"\x00") * draw.pick(5, 4000)
    ),
  ),
  "table_snappy_literal": lambda draw: TableLies(
    kind=1, wrap=lambda block: varint(len(block)) + b"\xf4" + (len(block) - 1).to_bytes(2, "little") + block
  ),
}
family(_KIND, _TABLE_LIES, lambda lies, draw, box: _written(box, new_bundle(_VALUES), "typed", lies(draw)))


def table_keys(draw: Draw, box: Box) -> Attempt:
  bundle = new_bundle(_VALUES)
  extra = [
    (draw.pick(b"a", b"", b"zz", b"\0", b"\xff\xff"), draw.pick(b"", b"\xff", draw.data(20)))
    for _ in range(draw.integer(1, 4))
  ]
  write_bundle(box.model / "ckpt", bundle, extra=extra)
  return Attempt(lambda: use_checkpoint(box.model / "ckpt"))


def missing_shard(draw: Draw, box: Box) -> Attempt:
  write_bundle(box.model / "ckpt", new_bundle(_VALUES))
  path = box.model / "ckpt.data-00000-of-00001"
  path.unlink()
  if draw.chance(0.5):
    path.mkdir()
  return Attempt(lambda: use_checkpoint(box.model / "ckpt"), "refused")


def state_file(draw: Draw, box: Box) -> Attempt:
  write_bundle(box.model / "ckpt", new_bundle(_VALUES))
  texts = [
    'model_checkpoint_path: "ckpt"',
    "model_checkpoint_path: ckpt",
    'x: "ckpt"',
    '"',
    "\0",
    "{" * 5000,
    'model_checkpoint_path: "\\',
    "\udcff",
  ]
  (box.model / "checkpoint").write_text(
    "\n".join(draw.pick(*texts) for _ in range(draw.integer(1, 3))), errors="surrogateescape"
  )
  return Attempt(lambda: use_checkpoint(box.model))
