"""Files that change while a model is used: overwritten, cut off, replaced, deleted, or replaced by links and pipes."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from graftax.savedmodel_io import CheckpointReader, load
from graftax.testing.hostile.draw import Draw
from graftax.testing.hostile.grammar.models import write_object_model
from graftax.testing.hostile.grammar.tables import new_bundle, write_bundle
from graftax.testing.hostile.registry import Attempt, Box, family
from graftax.testing.pytrees import Leaf

_KIND = "changing_files"
_DATA, _INDEX, _MODEL, _ASSET = (
  "variables/variables.data-00000-of-00001",
  "variables/variables.index",
  "saved_model.pb",
  "assets/words.txt",
)
Change = Callable[[Path, Draw, Box], None]


def _overwrite(path: Path, draw: Draw, box: Box) -> None:
  with path.open("r+b") as file:
    file.write(draw.pick(b"\xff", bytes(4)) * 4)


def _cut(path: Path, draw: Draw, box: Box) -> None:
  os.truncate(path, draw.pick(0, 1, 3))


def _grow(path: Path, draw: Draw, box: Box) -> None:
  with path.open("ab") as file:
    file.write(bytes(draw.pick(1, 1 << 16)))


def _delete(path: Path, draw: Draw, box: Box) -> None:
  path.unlink()


def _replace(path: Path, draw: Draw, box: Box) -> None:
  path.with_suffix(".new").write_bytes(draw.pick(b"", b"\xff" * 100, path.read_bytes()[::-1]))
  path.with_suffix(".new").rename(path)


def _link(path: Path, draw: Draw, box: Box) -> None:
  path.unlink()
  path.symlink_to(draw.pick(box.outside / "secret.txt", box.outside / "x.index", Path("/dev/zero")))


def _pipe(path: Path, draw: Draw, box: Box) -> None:
  path.unlink()
  os.mkfifo(path)


def _folder(path: Path, draw: Draw, box: Box) -> None:
  path.unlink()
  path.mkdir()


_CHANGES = {
  "overwritten": _overwrite,
  "cut": _cut,
  "grown": _grow,
  "deleted": _delete,
  "replaced": _replace,
  "linked": _link,
  "pipe": _pipe,
  "folder": _folder,
}


def _after_load(change: Change, draw: Draw, box: Box) -> Attempt:
  """The model is loaded and used with values in memory of its own; then a file changes; then it is used again."""
  write_object_model(box.model)
  name = draw.pick(_DATA, _INDEX, _MODEL, _ASSET)

  def read() -> tuple[Any, Any]:
    model = load(box.model, copy=True)
    fn, params = model.convert()
    before = _result(fn, params)
    change(box.model / name, draw, box)
    after = _result(fn, params), {key: np.array(value) for key, value in params.items()}
    again = _load_again(box.model)
    return (before, *after), again

  def check(value: tuple[Any, Any]) -> None:
    before, after, params = value[0]
    np.testing.assert_array_equal(before, after)
    np.testing.assert_array_equal([params["w"], params["v"]], [1.0, 3.0])

  return Attempt(read, "typed", check)


def _load_again(folder: Path) -> str:
  """Reads the changed model, which may be refused."""
  # Opened here, as the worker reads this module.
  from graftax.testing.hostile.worker import TYPED

  try:
    model = load(folder)
    return str({name: np.array(value) for name, value in model.variables.items()}) + str(dict(model.assets))
  except TYPED as e:
    return str(e)


def _result(fn: Any, params: Leaf) -> np.ndarray:
  outputs, _ = fn(params, np.float32(2)) if "x" not in str(fn) else fn(params, x=np.float32(2))
  (value,) = outputs.values() if isinstance(outputs, dict) else (outputs,)
  return np.array(value)


def _before_first_use(change: Change, draw: Draw, box: Box) -> Attempt:
  """The checkpoint is opened, then a file changes, then values are read: the old ones, or none."""
  write_bundle(box.model / "ckpt", new_bundle({"a": np.ones(4, np.float32), "b": np.arange(3)}))
  name = draw.pick("ckpt.data-00000-of-00001", "ckpt.index")

  def read() -> Any:
    reader = CheckpointReader(box.model / "ckpt", copy=draw.chance(0.5))
    change(box.model / name, draw, box)
    return {key: np.array(reader[key]) for key in reader}

  def check(value: Any) -> None:
    np.testing.assert_array_equal(value["a"], np.ones(4))
    np.testing.assert_array_equal(value["b"], np.arange(3))

  return Attempt(read, "typed", check)


family(_KIND, {f"used_then_{name}": change for name, change in _CHANGES.items()}, _after_load)
# A file that is cut off under a mapping ends the process, which `copy=True` is for.
_MAPPED = {name: change for name, change in _CHANGES.items() if name != "cut"}
family(_KIND, {f"opened_then_{name}": change for name, change in _MAPPED.items()}, _before_first_use)
