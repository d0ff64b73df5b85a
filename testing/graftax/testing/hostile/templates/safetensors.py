"""Safetensors files: the size of the header, its JSON, and the bytes behind it."""

import json
import struct
from collections.abc import Callable

import numpy as np

from graftax.testing.hostile.draw import Draw
from graftax.testing.hostile.grammar.readers import use_safetensors
from graftax.testing.hostile.registry import Attempt, Box, Expectation, attempted
from graftax.testing.pytrees import Json

Header = dict[str, Json]
Change = Callable[[Draw, Header], None]


def _honest() -> Header:
  return {
    "a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
    "b": {"dtype": "I64", "shape": [2], "data_offsets": [24, 40]},
    "__metadata__": {"format": "np"},
  }


_DATA = np.arange(6, dtype=np.float32).tobytes() + np.arange(2).tobytes()


def _file(
  box: Box, header: bytes, data: bytes = _DATA, size: int | None = None, expectation: Expectation = "typed"
) -> Attempt:
  path = box.model / "m.safetensors"
  stated = struct.pack("<Q", (len(header) if size is None else size) & ((1 << 64) - 1))
  path.write_bytes(stated + header + data)
  return Attempt(lambda: use_safetensors(path), expectation)


def attempt_of(change: Change, draw: Draw, box: Box, expectation: Expectation = "typed") -> Attempt:
  """Changes an honest header."""
  header = _honest()
  change(draw, header)
  return _file(box, json.dumps(header).encode(errors="surrogatepass"), expectation=expectation)


@attempted("loaded")
def honest(draw: Draw, header: Header) -> None:
  del draw, header


def offsets(draw: Draw, header: Header) -> None:
  for name in ("a", "b"):
    begin, end = header[name]["data_offsets"]
    header[name]["data_offsets"] = [draw.size(begin), draw.size(end)][: draw.pick(2, 2, 2, 1, 0)]


def offsets_that_overlap(draw: Draw, header: Header) -> None:
  header["b"]["data_offsets"] = draw.pick([24, 40], [8, 24], [0, 16], [16, 32])
  header["a"]["data_offsets"] = draw.pick([0, 24], [16, 40])


def shapes(draw: Draw, header: Header) -> None:
  for name in ("a", "b"):
    header[name]["shape"] = [draw.size(2) for _ in range(draw.pick(2, 1, 0, 3))]


def ranks(draw: Draw, header: Header) -> None:
  rank = draw.pick(3, 32, 33, 64, 65, 1000, 50_000)
  header["a"]["shape"] = [2, 3] + [1] * (rank - 2)


def empty_shapes(draw: Draw, header: Header) -> None:
  header["c"] = {"dtype": "F32", "shape": [0, draw.size(2), draw.size(1 << 40)], "data_offsets": [40, 40]}


def dtypes(draw: Draw, header: Header) -> None:
  names = "F32 F64 F16 BF16 I8 U64 BOOL F8_E4M3 F8_E5M2 F4 F6_E2M3 C64 F31".split()
  for name in ("a", "b"):
    header[name]["dtype"] = draw.pick(*names, "", "f32", 5, None, ["F32"])


def bool_values(draw: Draw, header: Header) -> None:
  header["a"] = {"dtype": draw.pick("BOOL", "U8", "F8_E4M3"), "shape": [24], "data_offsets": [0, 24]}


def fields_missing(draw: Draw, header: Header) -> None:
  for name in ("a", "b"):
    for key in ("dtype", "shape", "data_offsets"):
      if draw.chance(0.3):
        del header[name][key]


def fields_of_other_types(draw: Draw, header: Header) -> None:
  values: list[Json] = [5, None, [], {}, "x", True, 1.5, [1.5], ["2"], [[2]], 1 << 70, -0.0]
  for name in ("a", "b"):
    for key in ("dtype", "shape", "data_offsets"):
      if draw.chance(0.3):
        header[name][key] = draw.pick(*values)


def fields_more(draw: Draw, header: Header) -> None:
  header["a"][draw.name("strides", "byte_order")] = draw.pick(1, None, [2])


def metadata(draw: Draw, header: Header) -> None:
  header["__metadata__"] = draw.pick({"a": "b"}, {"a": 1}, [], 5, None, {"a": {"b": "c"}}, {"x": "y" * 100_000})


def names(draw: Draw, header: Header) -> None:
  for name in ("a", "b"):
    header[draw.name(name, "__metadata__", "a/b", "a//b", "/a", "b/")] = header.pop(name)


def many_tensors(draw: Draw, header: Header) -> None:
  for i in range(draw.pick(10, 30_000)):
    header[f"t{i}"] = {"dtype": "F32", "shape": [0], "data_offsets": [40, 40]}


def tensors_at_one_place(draw: Draw, header: Header) -> None:
  for i in range(draw.pick(2, 2000)):
    header[f"t{i}"] = header["a"]


@attempted("refused")
def entries_that_are_no_tensors(draw: Draw, header: Header) -> None:
  header["c"] = draw.pick(5, [], None, "x", {})


def header_size(draw: Draw, box: Box) -> Attempt:
  header = json.dumps(_honest()).encode()
  return _file(box, header, size=draw.size(len(header), 100_000_000, 100_000_001, 1 << 60))


def header_text(draw: Draw, box: Box) -> Attempt:
  header = json.dumps(_honest())
  texts = [
    "{" * 100,
    '{"x":' * 100_000,
    "[]",
    "null",
    "",
    "5",
    header + " " * 1000,
    " " + header,
    header + "}",
    "\0" * 50,
    header.replace(":", "\n:"),
    header.replace("24", "2.4e1"),
    header.replace("24", "024"),
  ]
  return _file(box, draw.pick(*texts).encode(), expectation="typed")


def header_names_twice(draw: Draw, box: Box) -> Attempt:
  one = '"a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}'
  other = draw.pick('"a": {"dtype": "I32", "shape": [6], "data_offsets": [0, 24]}', one)
  return _file(box, f"{{{one}, {other}}}".encode(), _DATA[:24])


def header_encodings(draw: Draw, box: Box) -> Attempt:
  header = json.dumps(_honest())
  return _file(
    box,
    draw.pick(
      header.encode("utf-16"),
      b"\xef\xbb\xbf" + header.encode(),
      header.encode() + b"\xff",
      header.replace('"a"', '"\\ud800"').encode(),
    ),
  )


def data_size(draw: Draw, box: Box) -> Attempt:
  return _file(box, json.dumps(_honest()).encode(), draw.pick(_DATA, _DATA[:-1], _DATA + b"\0", b"", _DATA * 50))


def file_size(draw: Draw, box: Box) -> Attempt:
  attempt = _file(box, json.dumps(_honest()).encode())
  path = box.model / "m.safetensors"
  path.write_bytes(path.read_bytes()[: draw.pick(0, 1, 7, 8, 9, 50, -1)])
  return Attempt(attempt.read, "refused")


def other_files(draw: Draw, box: Box) -> Attempt:
  path = box.model / "m.safetensors"
  path.write_bytes(
    draw.pick(
      b"",
      b"PK\x03\x04",
      b"<!DOCTYPE html>",
      b"\x80\x04\x95",
      b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n",
    )
  )
  return Attempt(lambda: use_safetensors(path), "refused")


def folders(draw: Draw, box: Box) -> Attempt:
  path = box.model / "m.safetensors"
  path.mkdir()
  (path / draw.pick("m.safetensors", "model.safetensors")).write_bytes(b"")
  return Attempt(lambda: use_safetensors(path), "refused")


def index_of_shards(draw: Draw, box: Box) -> Attempt:
  shards: list[Json] = [
    "m.safetensors",
    "model-00001-of-00001.safetensors",
    "",
    ".",
    "..",
    5,
    None,
    *box.outside_names(),
    str(box.outside / "x.safetensors"),
    f"../{box.outside.name}/x.safetensors",
    "folder",
    "a\0b",
  ]
  _file(box, json.dumps(_honest()).encode())
  (box.model / "folder").mkdir()
  weight_map: Json = {name: draw.pick(*shards) for name in ("a", "b", draw.name("c"))}
  content = {
    "metadata": {"total_size": draw.size(40)},
    "weight_map": draw.pick(weight_map, weight_map, weight_map, [], None),
  }
  path = box.model / "model.safetensors.index.json"
  path.write_text(draw.pick(json.dumps(content), json.dumps(content), "[" * 100_000, "{"))
  target = draw.pick(path, box.model)
  return Attempt(lambda: use_safetensors(target))
