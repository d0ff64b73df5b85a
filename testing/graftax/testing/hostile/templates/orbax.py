"""Checkpoints of Orbax: the JSON files that describe them, and the store of arrays."""

import json
import os
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from graftax.savedmodel_io import write_orbax
from graftax.testing.hostile.draw import Draw
from graftax.testing.hostile.grammar.readers import use_orbax
from graftax.testing.hostile.registry import Attempt, Box, Expectation, attempted
from graftax.testing.pytrees import Json

_PARAMS = {"dense/kernel": np.arange(6, dtype=np.float32).reshape(2, 3), "dense/bias": np.ones(3, np.float32)}
_META, _MARKER, _SHARDING, _ARRAYS = "_METADATA", "_CHECKPOINT_METADATA", "_sharding", "array_metadatas/process_0"
Change = Callable[[Draw, Box, Path], Any]


@cache
def _honest_files() -> dict[str, bytes]:
  with tempfile.TemporaryDirectory() as folder:
    target = Path(folder) / "checkpoint"
    write_orbax(target, _PARAMS)
    return {str(path.relative_to(target)): path.read_bytes() for path in target.rglob("*") if path.is_file()}


def attempt_of(change: Change, draw: Draw, box: Box, expectation: Expectation = "typed") -> Attempt:
  """Changes the files of an honest checkpoint."""
  folder = box.model / "checkpoint"
  for name, data in _honest_files().items():
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)
  change(draw, box, folder)
  return Attempt(lambda: use_orbax(folder), expectation)


def _edited(path: Path, draw: Draw, values: list[Json], chance: float = 0.15) -> None:
  """Replaces some values in a JSON file, at any depth."""

  def edit(value: Json) -> Json:
    if draw.chance(chance):
      return draw.pick(*values)
    if isinstance(value, dict):
      return {key: edit(inner) for key, inner in value.items()}
    return [edit(inner) for inner in value] if isinstance(value, list) else value

  path.write_text(json.dumps(edit(json.loads(path.read_text()))))


_VALUES: list[Json] = [
  None,
  5,
  -1,
  [],
  {},
  "x",
  "",
  True,
  1 << 70,
  1.5,
  [[]],
  "../x",
  "/etc/hostname",
  [1 << 62],
  {"a": {}},
]


@attempted("loaded")
def honest(draw: Draw, box: Box, folder: Path) -> None:
  del draw, box, folder


def metadata_values(draw: Draw, box: Box, folder: Path) -> None:
  _edited(folder / _META, draw, _VALUES)


def metadata_keys(draw: Draw, box: Box, folder: Path) -> None:
  content = json.loads((folder / _META).read_text())
  tree = content.get("tree_metadata", {})
  for key in sorted(tree):
    entry = tree.pop(key)
    for part in entry.get("key_metadata", []):
      part["key"] = draw.name(str(part.get("key")), "..", "a/b", "a.b")
      part["key_type"] = draw.pick(2, 1, 3, -1, 99, "x")
    tree[draw.name(key, "('a',)", "os.system('x')")] = entry
  (folder / _META).write_text(json.dumps(content))


def metadata_types(draw: Draw, box: Box, folder: Path) -> None:
  text = (folder / _META).read_text()
  for old in ("jax.Array", "np.ndarray", "scalar", "zarr", "true", "false"):
    text = text.replace(old, draw.lie(old, "str", "tuple", "None", "os.system", "5"))
  (folder / _META).write_text(text)


def checkpoint_metadata(draw: Draw, box: Box, folder: Path) -> None:
  _edited(folder / _MARKER, draw, [*_VALUES, "orbax.checkpoint.NothingHandler", {"a": "b"}], 0.3)


def shardings(draw: Draw, box: Box, folder: Path) -> None:
  path = folder / _SHARDING
  if path.exists():
    _edited(path, draw, [*_VALUES, "x" * 50, '{"sharding_type": "NamedSharding"}'], 0.4)


def array_metadata(draw: Draw, box: Box, folder: Path) -> None:
  path = folder / _ARRAYS
  if path.exists():
    _edited(path, draw, _VALUES, 0.2)


def texts(draw: Draw, box: Box, folder: Path) -> None:
  path = folder / draw.pick(_META, _MARKER, _SHARDING, _ARRAYS)
  path.parent.mkdir(exist_ok=True)
  path.write_text(draw.pick("", "[]", "{", "[" * 100_000, "null", "5", "\0", '{"a":' * 3000, "NaN"))


def files_missing(draw: Draw, box: Box, folder: Path) -> None:
  for path in sorted(p for p in folder.rglob("*") if p.is_file()):
    if draw.chance(0.2):
      path.unlink()


def files_cut_off(draw: Draw, box: Box, folder: Path) -> None:
  for path in sorted(p for p in folder.rglob("*") if p.is_file()):
    if draw.chance(0.2):
      path.write_bytes(path.read_bytes()[: draw.pick(0, 1, 10, 30, -1, -4)])


def store_bytes(draw: Draw, box: Box, folder: Path) -> None:
  files = sorted(p for p in folder.rglob("*") if p.is_file() and "ocdbt" in str(p) or "/d/" in str(p))
  for _ in range(draw.integer(1, 3)):
    path = draw.pick(*files)
    data = bytearray(path.read_bytes())
    position = draw.integer(0, max(0, len(data) - 1))
    data[position : position + 4] = draw.pick(b"\xff\xff\xff\xff", bytes(4), b"\x7f", draw.data(4))
    path.write_bytes(data)


def store_manifest(draw: Draw, box: Box, folder: Path) -> None:
  for path in sorted(folder.rglob("manifest.ocdbt")):
    data = path.read_bytes()
    path.write_bytes(draw.pick(data, b"", data[:20], data[:4] + b"\xff" * 8 + data[12:], b"x" * 100, data + data))


def _link(draw: Draw, box: Box, path: Path) -> None:
  path.unlink()
  kind = draw.pick("file", "pipe", "device", "folder", "itself")
  if kind == "pipe":
    os.mkfifo(path)
  elif kind == "folder":
    path.mkdir()
  else:
    path.symlink_to({"file": box.outside / "array.bin", "device": Path("/dev/zero"), "itself": Path(path.name)}[kind])


def linked_metadata(draw: Draw, box: Box, folder: Path) -> None:
  _link(draw, box, folder / draw.pick(_META, _MARKER))


def linked_store(draw: Draw, box: Box, folder: Path) -> None:
  _link(draw, box, draw.pick(*sorted(folder.rglob("manifest.ocdbt"))))


def names_outside(draw: Draw, box: Box, folder: Path) -> None:
  text = (folder / _META).read_text()
  (folder / _META).write_text(
    text.replace("kernel", draw.pick("kernel", *(name.replace('"', "") for name in box.outside_names())))
  )


def folders_more(draw: Draw, box: Box, folder: Path) -> None:
  (folder / draw.pick("default", "state", "0", "x.orbax-checkpoint-tmp-1", "metadata")).mkdir(exist_ok=True)
  if draw.chance(0.5):
    (folder / "commit_success.txt").write_text("")


@attempted("refused")
def empty(draw: Draw, box: Box, folder: Path) -> None:
  shutil.rmtree(folder)
  if draw.chance(0.5):
    folder.mkdir()


def zarr_arrays(draw: Draw, box: Box, folder: Path) -> None:
  """The older layout: a folder with `.zarray` for each array."""
  content = json.loads((folder / _META).read_text())
  content["use_ocdbt"], content["use_zarr3"] = False, draw.chance(0.3)
  (folder / _META).write_text(json.dumps(content))
  for path in folder.rglob("manifest.ocdbt"):
    path.unlink()
  for name in ("dense.kernel", "dense.bias"):
    shape = [draw.size(2), draw.size(3)]
    (folder / name).mkdir(exist_ok=True)
    zarray = {
      "zarr_format": 2,
      "shape": shape,
      "chunks": [draw.size(2), draw.size(3)],
      "dtype": draw.pick("<f4", "|O", "<f99", "|V8", "<U5"),
      "order": "C",
      "fill_value": draw.pick(None, 0, "x"),
      "filters": None,
      "dimension_separator": ".",
      "compressor": draw.pick(None, {"id": "zstd", "level": 1}, {"id": "blosc"}, {"id": "pickle"}),
    }
    (folder / name / ".zarray").write_text(json.dumps(zarray))
    (folder / name / "0.0").write_bytes(draw.pick(bytes(24), b"", b"\x28\xb5\x2f\xfd", draw.data(30)))
