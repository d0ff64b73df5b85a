"""`.keras` archives: the zip file, its members, the configuration, and the weights in it."""

import io
import json
import struct
import warnings
import zipfile
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from graftax.testing.hostile.draw import Draw
from graftax.testing.hostile.grammar.readers import use_weights
from graftax.testing.hostile.registry import Attempt, Box, Expectation, family
from graftax.testing.hostile.templates.h5 import h5_bytes, honest_h5
from graftax.testing.pytrees import Json

_KIND = "keras_archive"
_CONFIG = {
  "module": "keras",
  "class_name": "Sequential",
  "config": {"name": "m", "layers": [{"class_name": "Dense", "config": {"name": "dense", "units": 3}}]},
  "registered_name": None,
}


def _zip(
  members: Sequence[tuple[str | zipfile.ZipInfo, bytes]], compression: int = zipfile.ZIP_STORED, comment: bytes = b""
) -> bytes:
  buffer = io.BytesIO()
  with warnings.catch_warnings(), zipfile.ZipFile(buffer, "w", compression) as archive:
    warnings.simplefilter("ignore")  # names that occur twice
    for name, data in members:
      archive.writestr(name if isinstance(name, zipfile.ZipInfo) else name.partition("\0")[0] or "a", data)
    archive.comment = comment
  return buffer.getvalue()


def _members(config: Json = None, weights: bytes | None = None) -> list[tuple[str | zipfile.ZipInfo, bytes]]:
  return [
    ("metadata.json", b'{"keras_version": "3.8.0"}'),
    (
      "config.json",
      config if isinstance(config, bytes) else json.dumps(_CONFIG if config is None else config).encode(),
    ),
    ("model.weights.h5", h5_bytes(honest_h5) if weights is None else weights),
  ]


def _attempt(box: Box, data: bytes, expectation: Expectation = "typed") -> Attempt:
  path = box.model / "m.keras"
  path.write_bytes(data)

  def check(value: object) -> None:
    del value
    assert [p.name for p in box.model.iterdir()] == ["m.keras"], "a file was written beside the archive"

  return Attempt(lambda: use_weights(path), expectation, check)


def honest(draw: Draw, box: Box) -> Attempt:
  return _attempt(box, _zip(_members(), draw.pick(zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)), "loaded")


def names_of_members(draw: Draw, box: Box) -> Attempt:
  members = [
    (draw.name(str(name), "model.weights.h5", "./config.json", "config.json/")[:60_000], data)
    for name, data in _members()
  ]
  return _attempt(box, _zip(members))


def more_members(draw: Draw, box: Box) -> Attempt:
  more = [(draw.name("assets/x", *box.outside_names())[:60_000], b"x") for _ in range(draw.pick(1, 5))]
  many = [(f"assets/{i}", b"") for i in range(draw.pick(0, 4200))]
  return _attempt(box, _zip([*_members(), *more, *many]))


def missing_members(draw: Draw, box: Box) -> Attempt:
  members = _members()
  del members[draw.pick(2, 1)]
  return _attempt(box, _zip(members), "refused")


def members_twice(draw: Draw, box: Box) -> Attempt:
  return _attempt(box, _zip([*_members(), draw.pick(*_members()[1:])]), "refused")


def linked_members(draw: Draw, box: Box) -> Attempt:
  info = zipfile.ZipInfo(draw.pick("model.weights.h5", "config.json"))
  info.external_attr = draw.pick(0o120777, 0o010666, 0o020666) << 16  # a link, a pipe, a device
  members = [member for member in _members() if member[0] != info.filename]
  return _attempt(box, _zip([*members, (info, str(box.outside / "x.h5").encode())]))


def bombs(draw: Draw, box: Box) -> Attempt:
  size = draw.pick(1 << 22, 1 << 27)
  kind = draw.pick(zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
  which = draw.pick("weights", "config")
  members = _members(b" " * size, None) if which == "config" else _members(None, bytes(size))
  return _attempt(box, _zip(members, kind))


# Offset and size of fields in the record of a member in the central directory.
_CENTRAL = {
  "versions": (4, 2),
  "flags": (8, 2),
  "compression": (10, 2),
  "crc": (16, 4),
  "compressed_size": (20, 4),
  "size": (24, 4),
  "length_of_name": (28, 2),
  "length_of_extra": (30, 2),
  "length_of_comment": (32, 2),
  "disk": (34, 2),
  "attributes": (38, 4),
  "local_offset": (42, 4),
}
_LOCAL = {
  "flags": (6, 2),
  "compression": (8, 2),
  "crc": (14, 4),
  "compressed_size": (18, 4),
  "size": (22, 4),
  "length_of_name": (26, 2),
  "length_of_extra": (28, 2),
}
_END = {
  "disk": (4, 2),
  "count": (8, 2),
  "total": (10, 2),
  "size": (12, 4),
  "offset": (16, 4),
  "length_of_comment": (20, 2),
}


def _lying(row: tuple[bytes, int, int], draw: Draw, box: Box) -> Attempt:
  mark, offset, size = row
  data = bytearray(_zip(_members(), draw.pick(zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)))
  starts = [i for i in range(len(data)) if data.startswith(mark, i)]
  position = draw.pick(*reversed(starts)) + offset
  value = draw.size(int.from_bytes(data[position : position + size], "little"), 1, 8, 14, 93, 98)
  data[position : position + size] = struct.pack("<q", value)[:size]
  return _attempt(box, bytes(data))


_RECORDS = {"central": (b"PK\x01\x02", _CENTRAL), "local": (b"PK\x03\x04", _LOCAL), "end": (b"PK\x05\x06", _END)}
for _record, (_mark, _fields) in _RECORDS.items():
  family(_KIND, {f"{_record}_{name}": (_mark, *place) for name, place in _fields.items()}, _lying)


def zip64_records(draw: Draw, box: Box) -> Attempt:
  info = zipfile.ZipInfo("model.weights.h5")
  extra = struct.pack("<HH", 1, draw.pick(16, 8, 0, 24, 65_535))
  info.extra = extra + struct.pack("<qq", draw.size(100), draw.size(100))
  return _attempt(box, _zip([*_members()[:2], (info, h5_bytes(honest_h5))]))


def bytes_around(draw: Draw, box: Box) -> Attempt:
  data = _zip(_members(), comment=draw.pick(b"", b"PK\x05\x06" + bytes(18), b"x" * 60_000))
  return _attempt(
    box,
    draw.pick(
      data,
      b"#!/bin/sh\n" + data,
      data + bytes(100),
      data[: draw.size(len(data), low=0)],
      data[100:],
      b"PK\x03\x04" + bytes(100),
    ),
  )


def configurations(draw: Draw, box: Box) -> Attempt:
  texts = [
    b"{}",
    b"[]",
    b"5",
    b"null",
    b"",
    b"\xff",
    b"[" * 100_000,
    b'{"config": ' * 5000,
    b'{"config": {"layers": 5}}',
    b'{"config": {"layers": [5, null, {}]}}',
    b"1e999",
    b"NaN",
    b'"' + b"a" * 100_000,
  ]
  return _attempt(box, _zip(_members(draw.pick(*texts))))


def configured_layers(draw: Draw, box: Box) -> Attempt:
  layer: Json = {
    "class_name": draw.name("Dense", "Lambda", "os.system", "builtins.eval"),
    "module": draw.name("keras.layers", "os", "subprocess"),
    "config": draw.pick(
      {"name": draw.name("dense")},
      {},
      None,
      5,
      {"name": 5},
      {"layers": [{}]},
      {"function": {"class_name": "__lambda__", "config": {"code": "AAAA"}}},
    ),
    "inbound_nodes": draw.pick([], 5, [[["x", 0, 0]]], {"args": []}),
  }
  for _ in range(draw.pick(0, 3, 300)):
    layer = {"class_name": "Functional", "config": {"name": "n", "layers": [layer]}}
  return _attempt(box, _zip(_members({**_CONFIG, "config": {"layers": [layer] * draw.integer(1, 3)}})))


def weights_of_another_kind(draw: Draw, box: Box) -> Attempt:
  def links(file: Any) -> None:
    import h5py

    file["layers/dense"] = h5py.ExternalLink(str(box.outside / "x.h5"), "/")

  def giant(file: Any) -> None:
    file.create_group("layers/dense/vars").create_dataset("0", (1 << draw.pick(20, 40),), np.float32, chunks=(1 << 16,))

  weights: list[Callable[[], bytes]] = [
    lambda: b"\x89HDF nothing",
    lambda: b"",
    lambda: h5_bytes(links),
    lambda: h5_bytes(giant),
    lambda: _zip(_members()),
  ]
  return _attempt(box, _zip(_members(None, draw.pick(*weights)())))
