"""Files of other libraries that are damaged or hostile, and full disks: each is a typed error, quickly."""

import json
import re
import struct
import subprocess
import sys

import numpy as np
import pytest

from graftax.graphdef_ir import GraftaxError, LimitExceededError, Limits
from graftax.savedmodel_io import read_orbax, read_safetensors, write_orbax
from graftax.savedmodel_io.errors import ParameterFileError
from graftax.testing.resource_limits import within_limits


def _file(header: object, data: bytes = bytes(8), size: int | None = None) -> bytes:
  text = header if isinstance(header, bytes) else json.dumps(header).encode()
  return struct.pack("<Q", len(text) if size is None else size) + text + data


def _tensor(shape: object = (2,), dtype: object = "F32", offsets: object = (0, 8)) -> dict[str, object]:
  return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


_HOSTILE = {
  "empty": b"",
  "web_page": b"<!DOCTYPE html><html></html>",
  "header_of_an_exabyte": _file({"x": _tensor()}, size=1 << 60),
  "header_of_two_gigabytes": _file({"x": _tensor()}, size=1 << 31),
  "header_is_not_json": _file(b"{" * 100),
  "header_is_deep": _file(b'{"x":' * 200_000),
  "header_is_not_text": _file(b"\xff\xfe{}"),
  "header_is_a_list": _file([]),
  "not_a_tensor": _file({"x": 5}),
  "without_offsets": _file({"x": {"dtype": "F32", "shape": [2]}}),
  "unknown_dtype": _file({"x": _tensor(dtype="F31")}),
  "dtype_without_arrays": _file({"x": _tensor(shape=[8], dtype="F8_E4M3")}),
  "negative_shape": _file({"x": _tensor(shape=[-2])}),
  "shape_of_another_size": _file({"x": _tensor(shape=[3])}),
  "shape_that_overflows": _file({"x": _tensor(shape=[1 << 62, 1 << 62, 4])}),
  "giant_shape": _file({"x": _tensor(shape=[1 << 40])}),
  "offsets_behind_the_end": _file({"x": _tensor(offsets=[0, 1 << 40], shape=[1 << 38])}),
  "offsets_backwards": _file({"x": _tensor(offsets=[8, 0])}),
  "offsets_that_overlap": _file({"x": _tensor(), "y": _tensor()}),
  "data_left_over": _file({"x": _tensor()}, bytes(99)),
  "metadata_of_numbers": _file({"__metadata__": {"a": 1}, "x": _tensor()}),
  "cut_off": _file({"x": _tensor()})[:-1],
  "shape_of_many_dimensions": _file({"x": _tensor(shape=[1] * 65 + [2])}),
  "empty_shape_that_overflows": _file({"x": _tensor(shape=[0, 1 << 62, 1 << 62], offsets=[0, 0])}, b""),
}


def test_a_folder_is_not_a_safetensors_file(tmp_path):
  (tmp_path / "hostile.safetensors").mkdir()
  with pytest.raises(ParameterFileError, match="hostile.safetensors: "):
    read_safetensors(tmp_path / "hostile.safetensors")


@pytest.mark.parametrize("case", _HOSTILE)
def test_hostile_safetensors_files_are_refused(tmp_path, case):
  path = tmp_path / "hostile.safetensors"
  path.write_bytes(_HOSTILE[case])
  with within_limits(), pytest.raises(ParameterFileError, match="hostile.safetensors: "):
    read_safetensors(path)


_FULL_DISK = """
import resource, sys
import numpy as np
from graftax.savedmodel_io import write_checkpoint, write_orbax, write_safetensors
from graftax.savedmodel_io.errors import CheckpointWriteError

write = {"write_checkpoint": write_checkpoint, "write_orbax": write_orbax, "write_safetensors": write_safetensors}
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))
try:
  write[sys.argv[1]](sys.argv[2], {"w": np.random.default_rng(0).random(100_000)})
except CheckpointWriteError as e:
  assert isinstance(e, OSError)
  print(e)
  sys.exit(7)
"""


@pytest.mark.slow  # a process with JAX for each
@pytest.mark.parametrize("write", ["write_checkpoint", "write_orbax", "write_safetensors"])
def test_a_disk_that_is_full_is_a_typed_error(tmp_path, write):
  pytest.importorskip("resource")
  done = subprocess.run(
    [sys.executable, "-c", _FULL_DISK, write, tmp_path / "p"], capture_output=True, text=True, check=False
  )
  assert done.returncode == 7, done.stderr[-2000:]
  assert str(tmp_path) in done.stdout
  assert not list(tmp_path.iterdir())


def test_arrays_of_orbax_of_which_nothing_is_stored_are_refused(tmp_path):
  pytest.importorskip("orbax.checkpoint")
  write_orbax(tmp_path / "c", {"w": np.zeros((1000, 1000), np.float32)})
  with pytest.raises(LimitExceededError, match="c: 1 arrays needs .* the limit unpacked_bytes is 1000"):
    read_orbax(tmp_path / "c", limits=Limits(unpacked_bytes=1000))
  assert read_orbax(tmp_path / "c")["w"].shape == (1000, 1000)


@pytest.mark.parametrize("damage", ["remove", "cut", "noise", "json"])
def test_damaged_checkpoints_of_orbax_are_refused(tmp_path, damage):
  pytest.importorskip("orbax.checkpoint")
  write_orbax(tmp_path / "c", {"w": np.ones((10, 10), np.float32), "a/b": np.arange(5)})
  files = sorted(path for path in (tmp_path / "c").rglob("*") if path.is_file())
  for path in files:
    data = path.read_bytes()
    if damage == "remove":
      path.unlink()
    elif damage == "json":
      path.write_bytes(b'{"tree_metadata": [[[]]], "w": 5}')
    else:
      path.write_bytes(data[: len(data) // 2] if damage == "cut" else bytes(reversed(data)))
  with pytest.raises(GraftaxError, match=re.escape(str(tmp_path / "c"))):
    read_orbax(tmp_path / "c")
