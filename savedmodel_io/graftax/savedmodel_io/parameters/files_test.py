"""Parameters in safetensors files and Orbax checkpoints. The libraries themselves are the oracles."""

import os
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
import pytest
from jax.sharding import SingleDeviceSharding
from safetensors.numpy import load_file, save_file

from graftax.convert import Variable
from graftax.graphdef_ir import LibraryNotFoundError
from graftax.savedmodel_io import (
  load,
  nest,
  read_orbax,
  read_safetensors,
  unnest,
  write_orbax,
  write_safetensors,
)
from graftax.savedmodel_io.errors import (
  CheckpointNotFoundError,
  MissingFolderError,
  OutputExistsError,
  ParameterFileError,
  ParameterNameError,
  ShardingError,
  TensorValueError,
)
from graftax.savedmodel_io.writing.atomic import PARTIAL_SUFFIX

_KERAS = Path(__file__).parents[1] / "testdata/2026_11_21/keras_export"
_PARAMS = {
  "dense/kernel": np.arange(24, dtype=np.float32).reshape(4, 6),
  "dense/kernel/Adam": np.arange(6, dtype=np.int64).reshape(2, 3).T,
  "scalar": np.array(2.5, np.float64),
  "half": np.array([0, 1, -0.5, 3], jnp.bfloat16),
  "nan": np.array([0x7FC00001, 0xFF800000, 0x80000000], np.uint32).view(np.float32),
  "complex": np.array([1 + 2j], np.complex64),
  "flags": np.array([True, False, True]),
  "wide": np.array([1 << 40, -1], np.int64),
  "größe.x": np.array([1, 2], np.uint8),
}
_WRITERS = {"safetensors": (write_safetensors, read_safetensors), "orbax": (write_orbax, read_orbax)}
_BOTH = pytest.mark.parametrize(("write", "read"), _WRITERS.values(), ids=_WRITERS)

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:.*Sharding info not provided.*")


def _assert_equal(found, expected):
  assert sorted(found) == sorted(expected)
  for name, value in expected.items():
    assert (found[name].dtype, found[name].shape) == (value.dtype, value.shape), name
    assert np.asarray(found[name]).tobytes() == np.asarray(value).tobytes(), name


@_BOTH
def test_names_and_bits_are_kept(tmp_path, write, read):
  write(tmp_path / "p", _PARAMS)
  _assert_equal(read(tmp_path / "p"), _PARAMS)
  write(tmp_path / "nested", nest(_PARAMS))
  _assert_equal(read(tmp_path / "nested"), _PARAMS)


@_BOTH
def test_parameters_of_a_model_and_of_jax(tmp_path, write, read):
  _, params = load(_KERAS).convert()
  assert all(isinstance(value, Variable) for value in params.values())
  write(tmp_path / "p", params)
  _assert_equal(read(tmp_path / "p"), params)
  write(tmp_path / "p", {name: jnp.asarray(value) for name, value in params.items()}, overwrite=True)
  _assert_equal(read(tmp_path / "p"), params)


def test_safetensors_reads_what_was_written_and_the_other_way(tmp_path):
  params = {**_PARAMS, "empty": np.zeros((0, 3), np.float16), "big endian": np.array([1, 256], ">i4")}
  write_safetensors(tmp_path / "p", params, metadata={"model": "digits"})
  native = {**params, "big endian": np.array([1, 256], np.int32)}
  _assert_equal(load_file(tmp_path / "p"), native)
  save_file({name: np.asarray(value, order="C") for name, value in native.items()}, tmp_path / "q")
  _assert_equal(read_safetensors(tmp_path / "q"), native)


def test_orbax_reads_what_was_written_and_the_other_way(tmp_path):
  params = {name: value for name, value in _PARAMS.items() if name != "wide"}
  write_orbax(tmp_path / "p", params)
  with ocp.StandardCheckpointer() as checkpointer:
    _assert_equal(unnest(checkpointer.restore(tmp_path / "p")), params)
    checkpointer.save(tmp_path / "q", {"layers": [{"w": np.ones(2, np.float32)}, {"w": np.zeros(3, np.int8)}]})
    checkpointer.wait_until_finished()
  expected = {"layers/0/w": np.ones(2, np.float32), "layers/1/w": np.zeros(3, np.int8)}
  _assert_equal(read_orbax(tmp_path / "q"), expected)


@_BOTH
def test_parameters_are_cast_and_placed_while_they_are_read(tmp_path, write, read):
  write(tmp_path / "p", _PARAMS)
  device = SingleDeviceSharding(jax.devices()[0])
  choose = {name: device if name == "dense/kernel" else None for name in _PARAMS}
  found = read(tmp_path / "p", dtype=jnp.bfloat16, keep="nan", sharding=choose)
  assert isinstance(found["dense/kernel"], jax.Array)
  expected = {name: _PARAMS[name].astype(jnp.bfloat16) for name in ("dense/kernel", "scalar")}
  _assert_equal(found, {**_PARAMS, **expected})
  wide = read(tmp_path / "p", sharding=device)["wide"]
  assert isinstance(wide, np.ndarray)  # 64-bit types are off
  _assert_equal({"wide": wide}, {"wide": _PARAMS["wide"]})
  with pytest.raises(ShardingError, match="names the variable 'kernel'"):
    read(tmp_path / "p", sharding={"kernel": device})


@_BOTH
def test_values_that_are_not_arrays_of_numbers_raise_and_nothing_is_written(tmp_path, write, read):
  for value in (b"text", np.array([b"a"], object), np.array(["a"]), "text", 1.0, jax.random.key(0)):
    with pytest.raises(TensorValueError, match="parameter 'x' is .*; expected an array of numbers"):
      write(tmp_path / "p", {"w": np.ones(2), "x": value})
  assert not os.listdir(tmp_path)


def test_what_a_format_cannot_hold_raises(tmp_path):
  with pytest.raises(TensorValueError, match="parameter '__metadata__': safetensors has this name for other things"):
    write_safetensors(tmp_path / "p.safetensors", {"__metadata__": np.ones(2, np.float32)})
  with pytest.raises(TensorValueError, match="'z' has dtype float8_e5m2, which safetensors cannot hold"):
    write_safetensors(tmp_path / "p", {"z": np.zeros(2, jnp.float8_e5m2)})
  with pytest.raises(TensorValueError, match=r"'z' of shape \(0, 3\) has no elements"):
    write_orbax(tmp_path / "p", {"z": np.zeros((0, 3))})
  with pytest.raises(ParameterNameError, match=r"'a/b\.c' and 'a\.b/c' have the same name"):
    write_orbax(tmp_path / "p", {"a/b.c": np.zeros(1), "a.b/c": np.ones(1)})
  assert not os.listdir(tmp_path)


@_BOTH
def test_what_exists_is_replaced_only_if_asked(tmp_path, write, read):
  write(tmp_path / "p", {"w": np.ones(2, np.float32)})
  with pytest.raises(OutputExistsError):
    write(tmp_path / "p", {"w": np.zeros(2, np.float32)})
  assert read(tmp_path / "p")["w"].tolist() == [1, 1]
  write(tmp_path / "p", {"w": np.zeros(3, np.float32)}, overwrite=True)
  assert read(tmp_path / "p")["w"].tolist() == [0, 0, 0]
  assert [path.name for path in tmp_path.iterdir()] == ["p"]
  (tmp_path / "file").touch()
  with pytest.raises(MissingFolderError):
    write(tmp_path / "file/such", {"w": np.ones(2)})
  write(tmp_path / "new/folder/p", {"w": np.ones(2, np.float32)})
  assert read(tmp_path / "new/folder/p")["w"].tolist() == [1, 1]


def test_a_folder_of_something_else_is_not_replaced(tmp_path):
  (tmp_path / "p").mkdir()
  (tmp_path / "p/notes.txt").write_text("mine")
  with pytest.raises(OutputExistsError, match="it is something else"):
    write_orbax(tmp_path / "p", {"w": np.ones(2)}, overwrite=True)


def test_a_safetensors_file_that_cannot_be_finished_leaves_nothing(tmp_path, monkeypatch):
  def fail(tensors, path, metadata):
    Path(path).write_bytes(b"half")
    raise OSError("the disk is full")

  monkeypatch.setattr("safetensors.numpy.save_file", fail)
  with pytest.raises(OSError, match="the disk is full"):
    write_safetensors(tmp_path / "p", _PARAMS)
  assert not [path for path in tmp_path.iterdir() if not path.name.endswith(PARTIAL_SUFFIX)]
  assert not (tmp_path / "p").exists()


@_BOTH
def test_files_of_another_kind_raise(tmp_path, write, read):
  with pytest.raises(CheckpointNotFoundError):
    read(tmp_path / "p")
  write(tmp_path / "p", _PARAMS)
  if (tmp_path / "p").is_file():
    for size in (0, 5, 300, (tmp_path / "p").stat().st_size - 1):
      (tmp_path / "cut").write_bytes((tmp_path / "p").read_bytes()[:size])
      with pytest.raises(ParameterFileError, match="cut: not a safetensors file, or a damaged one"):
        read(tmp_path / "cut")
  (tmp_path / "other").mkdir()
  (tmp_path / "other/saved_model.pb").write_bytes(b"")
  with pytest.raises(ParameterFileError, match="other: not a"):
    read(tmp_path / "other")


@pytest.mark.parametrize(
  ("call", "library", "extra"),
  [
    (lambda path: write_safetensors(path, {}), "safetensors", "safetensors"),
    (read_safetensors, "safetensors", "safetensors"),
    (lambda path: write_orbax(path, {}), "orbax", "orbax"),
    (read_orbax, "orbax", "orbax"),
  ],
)
def test_a_library_that_is_not_installed_raises(call, library, extra, tmp_path, monkeypatch):
  for name in [name for name in sys.modules if name.partition(".")[0] == library]:
    monkeypatch.setitem(sys.modules, name, None)
  with pytest.raises(LibraryNotFoundError, match=rf"pip install 'graftax-savedmodel-io\[{extra}\]'"):
    call(tmp_path / "p")
