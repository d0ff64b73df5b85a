"""Files of HDF5 with weights of Keras: links, datasets, filters, attributes, and the lists of shards."""

import io
import json
import struct
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from graftax.testing.hostile.draw import Draw
from graftax.testing.hostile.grammar.readers import use_weights
from graftax.testing.hostile.registry import Attempt, Box, Expectation, attempted
from graftax.testing.pytrees import Json

__all__ = ["h5_bytes", "honest_h5"]

_VALUES = np.arange(6, dtype=np.float32).reshape(2, 3)
Group: TypeAlias = Any
"""A file or a group of h5py, which ships no type information and is imported when a template runs."""

Write = Callable[[Draw, Box, Group], None]


def h5_bytes(write: Callable[[Group], None]) -> bytes:
  """Returns the bytes of an HDF5 file that a function fills."""
  import h5py

  buffer = io.BytesIO()
  with h5py.File(buffer, "w") as file:
    write(file)
  return buffer.getvalue()


def honest_h5(file: Group) -> None:
  """Writes the weights of one layer."""
  file.create_group("layers/dense/vars")["0"] = _VALUES


def attempt_of(write: Write, draw: Draw, box: Box, expectation: Expectation = "typed") -> Attempt:
  """Writes weights of Keras."""
  path = box.model / draw.pick("m.weights.h5", "m.h5")
  path.write_bytes(h5_bytes(lambda file: write(draw, box, file)))
  return Attempt(lambda: use_weights(path), expectation)


def _layer(file: Group, name: str = "dense") -> Group:
  return file.require_group(f"layers/{name}/vars")


@attempted("loaded")
def honest(draw: Draw, box: Box, file: Group) -> None:
  del draw, box
  honest_h5(file)


def external_links(draw: Draw, box: Box, file: Group) -> None:
  import h5py

  honest_h5(file)
  target = draw.pick(
    str(box.outside / "x.h5"), f"../{box.outside.name}/x.h5", "/etc/hostname", str(box.outside / "fifo")
  )
  place = draw.pick("layers/other", "layers/dense/vars/1", "optimizer", "x")
  file[place] = h5py.ExternalLink(target, draw.pick("/", "/layers/dense", "/x"))


def soft_links(draw: Draw, box: Box, file: Group) -> None:
  import h5py

  honest_h5(file)
  target = draw.pick("/layers/dense", "/layers/other", "/nothing", "/", "..", "layers")
  file[draw.pick("layers/other", "layers/dense/vars/1")] = h5py.SoftLink(target)


def hard_links(draw: Draw, box: Box, file: Group) -> None:
  group = _layer(file)
  group["0"] = _VALUES
  for i in range(draw.pick(1, 3, 5000)):
    group[str(i + 1)] = draw.pick(group["0"], file["layers"]) if i < 5 else group["0"]


def groups_inside_themselves(draw: Draw, box: Box, file: Group) -> None:
  group = file.create_group("layers/a")
  for name in ("b", "c", "d")[: draw.integer(1, 3)]:
    group[name] = draw.pick(group, file["layers"], file["/"])


def groups_deep(draw: Draw, box: Box, file: Group) -> None:
  _layer(file, "/".join([draw.pick("a", "layers", "vars")] * draw.pick(5, 60, 900)))["0"] = _VALUES


def external_values(draw: Draw, box: Box, file: Group) -> None:
  target = draw.pick(str(box.outside / "secret.txt"), f"../{box.outside.name}/secret.txt", "/etc/hostname", "/dev/zero")
  size = draw.pick(4, 1 << 20)
  _layer(file).create_dataset("0", (size,), "u1", external=[(target, draw.pick(0, 3), size)])


def virtual_values(draw: Draw, box: Box, file: Group) -> None:
  import h5py

  count = draw.pick(2, 1 << 33)
  layout = h5py.VirtualLayout((count,), np.float32)
  target = draw.pick(str(box.outside / "x.h5"), f"../{box.outside.name}/x.h5", ".")
  layout[:2] = h5py.VirtualSource(target, draw.pick("x", "/layers/dense/vars/0"), (2,))
  _layer(file).create_virtual_dataset("0", layout)


def giants_that_are_not_stored(draw: Draw, box: Box, file: Group) -> None:
  shape = draw.pick((1 << 40,), (1 << 28,), (1 << 20, 1 << 20, 1 << 20), (1 << 14, 1 << 14))
  chunks = draw.pick(None, tuple(min(n, 256) for n in shape))
  _layer(file).create_dataset("0", shape, np.float32, chunks=chunks, fillvalue=draw.pick(0.0, 1.5))


def compressed_zeros(draw: Draw, box: Box, file: Group) -> None:
  num_values = draw.pick(1, 4, 16)
  for i in range(num_values):
    data = _layer(file).create_dataset(
      str(i), (draw.pick(1 << 20, 1 << 26),), "u1", chunks=(1 << 20,), compression=draw.pick("gzip", "lzf")
    )
    data[: 1 << 20] = 0


def chunks_that_unpack_short(draw: Draw, box: Box, file: Group) -> None:
  import zlib

  data = _layer(file).create_dataset(
    "0", (64, 64), np.float32, chunks=(32, 64), compression="gzip", shuffle=draw.chance(0.3)
  )
  content = zlib.compress(np.ones(draw.pick(32 * 64, 10, 0, 32 * 63, 32 * 65), np.float32).tobytes())
  content = content[: draw.size(len(content), 5, low=0)]
  for row in (0, 32)[: draw.integer(1, 2)]:
    data.id.write_direct_chunk((row, 0), content, filter_mask=draw.pick(0, 1, 3))


def filters(draw: Draw, box: Box, file: Group) -> None:
  fletcher = draw.chance(0.5)
  _layer(file).create_dataset(
    "0",
    data=_VALUES,
    chunks=(1, 3),
    fletcher32=fletcher,
    shuffle=draw.chance(0.5),
    scaleoffset=None if fletcher else draw.pick(None, 0, 3),
  )


def dtypes(draw: Draw, box: Box, file: Group) -> None:
  import h5py

  kinds = [
    np.zeros(3, ">f8"),
    np.zeros(3, [("a", "f4"), ("b", "i4")]),
    np.zeros(3, "S5"),
    np.zeros(3, "V7"),
    np.zeros(3, np.complex128),
    np.zeros(3, bool),
    np.zeros((), np.float16),
    np.zeros((0, 1 << 20), np.float32),
  ]
  value = draw.pick(*kinds)
  group = _layer(file)
  if draw.chance(0.3):
    group["0"] = h5py.Empty(draw.pick("f4", "S3"))
  elif draw.chance(0.3):
    group.create_dataset(
      "0",
      (2,),
      draw.pick(
        h5py.ref_dtype, h5py.regionref_dtype, h5py.string_dtype(), h5py.vlen_dtype("f4"), h5py.enum_dtype({"A": 1})
      ),
    )
  else:
    group["0"] = value


def attributes(draw: Draw, box: Box, file: Group) -> None:
  honest_h5(file)
  value = draw.pick(["a", "b"], 5.0, b"\xff", np.zeros(5000), "x" * 60_000, np.array([], "S3"), [[b"a"], [b"b"]])
  draw.pick(file, file["layers"], file["layers/dense/vars"], file["layers/dense"]).attrs[
    draw.name("name", "layer_names", "weight_names")[:200].replace("\0", "") or "name"
  ] = value


def legacy(draw: Draw, box: Box, file: Group) -> None:
  root = file.create_group("model_weights") if draw.chance(0.4) else file
  layers = [draw.pick(b"dense", b"x", b"", b"..", b"/", b"\xff") for _ in range(draw.integer(1, 3))]
  root.attrs["layer_names"] = draw.pick(layers, 5, b"dense", [1, 2])
  group = root.create_group("dense")
  weights = [
    draw.pick(b"dense/kernel:0", b"../dense/dense/kernel:0", b"y:0", b"/model_weights", b"")
    for _ in range(draw.integer(1, 3))
  ]
  group.attrs["weight_names"] = draw.pick(weights, 5, b"dense/kernel:0", np.zeros((2, 2)))
  group["dense/kernel:0"] = _VALUES


def wrong_places(draw: Draw, box: Box, file: Group) -> None:
  places = "layers layers/dense layers/dense/vars layers/dense/vars/0/1 vars/0 _layer_checkpoint_dependencies/a/vars/0"
  place = draw.pick(*places.split())
  file[place] = _VALUES if draw.chance(0.7) else np.float32(1)
  if draw.chance(0.4):
    file.require_group("layers2/dense/vars")


def names(draw: Draw, box: Box, file: Group) -> None:
  group = file.create_group("layers")
  for i in range(draw.integer(1, 4)):
    name = draw.name(f"layer{i}", "dense", "..", ".")[:300].replace("\0", "").strip("/") or "a"
    try:
      group.require_group(name).require_group("vars")[draw.pick("0", "-1", "x", "99999999999999999999")] = _VALUES
    except (ValueError, TypeError, OSError):
      continue


def many_groups(draw: Draw, box: Box, file: Group) -> None:
  for i in range(draw.pick(10, 3000)):
    _layer(file, f"l{i}").attrs["name"] = draw.pick("same", f"n{i}") if i < 20 else "same"


def superblock(draw: Draw, box: Box) -> Attempt:
  data = bytearray(h5_bytes(honest_h5))
  for _ in range(draw.integer(1, 3)):
    position = draw.pick(8, 9, 13, 14, 16, 18, 20, 24, 32, 40, 48, 56, 64, 72, 80)
    data[position : position + 8] = struct.pack("<q", draw.size(0))
  path = box.model / "m.h5"
  path.write_bytes(data)
  return Attempt(lambda: use_weights(path))


def _with_names(file: Group) -> None:
  honest_h5(file)
  file.attrs.update(layer_names=["a", "b"])


_MARKS = (b"TREE", b"HEAP", b"SNOD", b"GCOL")


def structures(draw: Draw, box: Box) -> Attempt:
  """Trees, heaps and tables of names: sizes, counts and addresses."""
  data = bytearray(h5_bytes(_with_names))
  for _ in range(draw.integer(1, 4)):
    mark = draw.pick(*_MARKS)
    found = data.find(mark, data.find(mark) + draw.pick(0, 1))
    position = found + draw.pick(4, 5, 6, 8, 16, 24, 32, 40)
    data[position : position + 8] = struct.pack("<q", draw.size(0, len(data), 8, found))[: draw.pick(8, 2, 1)]
  path = box.model / "m.h5"
  path.write_bytes(data)
  return Attempt(lambda: use_weights(path))


def object_headers(draw: Draw, box: Box) -> Attempt:
  data = bytearray(h5_bytes(honest_h5))
  # The messages of the dataset: space, type, layout.
  start = data.rfind(b"\x01\x00", 0, len(data) - 24)
  for _ in range(draw.integer(1, 4)):
    position = draw.pick(start + 16, start + 24, start + 32, start + 40, 96, 104, 112, 120, 800, 1400)
    data[position : position + 2] = struct.pack("<q", draw.size(1))[:2]
  path = box.model / "m.h5"
  path.write_bytes(data)
  return Attempt(lambda: use_weights(path))


def other_bytes(draw: Draw, box: Box) -> Attempt:
  data = h5_bytes(honest_h5)
  path = box.model / "m.h5"
  path.write_bytes(
    draw.pick(
      data[: draw.size(len(data), 100, low=0)], b"", b"\x89HDF\r\n\x1a\n", data + data, bytes(512) + data, b"x" * 100
    )
  )
  return Attempt(lambda: use_weights(path))


def sharded_map(draw: Draw, box: Box) -> Attempt:
  for i in range(2):
    (box.model / f"a_{i:05d}.weights.h5").write_bytes(h5_bytes(honest_h5))
  names: list[Any] = [
    "a_00000.weights.h5",
    "a_00001.weights.h5",
    "a_00009.weights.h5",
    "",
    ".",
    "..",
    "a.weights.json",
    5,
    None,
    [],
    {"x": 1},
    *box.outside_names(),
    "a\0b",
  ]
  groups = ["/layers/dense/vars", "/", "", "/nothing", "../x", "/layers/dense/vars/0", "\0"]
  weight_map: Json = {
    draw.pick(*groups): draw.pick(draw.pick(*names), [draw.pick(*names), draw.pick(*names)])
    for _ in range(draw.integer(1, 3))
  }
  content = {
    "weight_map": draw.pick(weight_map, weight_map, weight_map, [], 5, {f"/{i}": f"{i}.h5" for i in range(600)}),
    "metadata": {"total_size": draw.size(24)},
  }
  path = box.model / "a.weights.json"
  path.write_text(
    draw.pick(json.dumps(content), json.dumps(content), json.dumps(content), "[" * 100_000, '{"weight_map": 1e999}', "")
  )
  return Attempt(lambda: use_weights(path))
