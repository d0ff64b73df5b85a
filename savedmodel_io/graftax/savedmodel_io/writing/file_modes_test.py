"""What is written has the modes of files that `open` and `mkdir` make: those that the umask of the user leaves."""

import os
import stat
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from graftax.savedmodel_io import load, save, write_checkpoint, write_orbax, write_safetensors

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no umask")

_X = jax.ShapeDtypeStruct((2,), jnp.float32)
_PARAMS = {"w": np.ones(2, np.float32)}


def _save(path: Path) -> None:
  (path.parent / "private.txt").write_text("a")
  (path.parent / "private.txt").chmod(0o600)
  assets = {"folder/a.txt": path.parent / "private.txt"}
  save(path, (lambda params, x: x * params["w"], _X), _PARAMS, assets=assets)


def _copy(path: Path) -> None:
  original = path.parent / "original"
  _save(original)
  load(original).save(path, _PARAMS)


_WRITERS = {
  "save": _save,
  "SavedModel.save": _copy,
  "overwrite": lambda path: [_save(path), save(path, (lambda p, x: x, _X), _PARAMS, overwrite=True)],
  "write_checkpoint": lambda path: write_checkpoint(path, _PARAMS),
  "write_safetensors": lambda path: write_safetensors(path, _PARAMS),
  "write_orbax": lambda path: write_orbax(path, _PARAMS),
}


@pytest.fixture(params=[0o022, 0o077], ids=oct)
def umask(request):
  before = os.umask(request.param)
  yield request.param
  os.umask(before)


def _modes(path: Path) -> dict[str, int]:
  """Returns the mode of a path, of what is below it, and of files beside it whose names begin with its name."""
  found = [*path.parent.glob(f"{path.name}*"), *path.rglob("*")]
  return {str(p.relative_to(path.parent)): stat.S_IMODE(p.stat().st_mode) for p in found}


@pytest.mark.parametrize("writer", _WRITERS)
def test_what_is_written_has_the_modes_of_the_umask(tmp_path, umask, writer):
  _WRITERS[writer](tmp_path / "out")
  modes = _modes(tmp_path / "out")
  assert modes
  expected = {name: (0o777 if (tmp_path / name).is_dir() else 0o666) & ~umask for name in modes}
  assert modes == expected
