"""Files of `Module.save`, those of `testdata/saved` written by `tools/artifacts/saved_modules.py`."""

import dataclasses
import io
import json
import os
import pathlib
import random
import struct
import zipfile

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from graftax.xla_call_module import (
  ArgumentError,
  DecodeError,
  LimitExceededError,
  Limits,
  Module,
  StableHloError,
  UnsupportedModuleError,
  VersionError,
  lift,
  structured,
)

_TESTDATA = pathlib.Path(__file__).parent.parent / "testdata"
_GOLDEN = sorted((_TESTDATA / "saved").glob("*.zip"))
_NAMES = ("symbolic", "loop", "trees", "lapack", "platforms", "shard_map")
X = np.array([0.3, 1.7], np.float32)


def _exported(name):
  return Module.from_exported((_TESTDATA / "exported" / f"{name}.jax").read_bytes(), guard=False)


def _orders(module):
  while module is not None:
    yield module
    module = module.gradient


def _check_same(found, expected):
  for one, other in zip(_orders(found), _orders(expected), strict=True):
    assert one.data == other.data
    for field in ("inputs", "outputs", "platforms", "version", "disabled_checks", "kept", "dim_args", "signature"):
      assert getattr(one, field) == getattr(other, field), field


def test_a_saved_module_is_read_from_a_file_and_from_bytes_of_any_kind(tmp_path):
  module = Module.from_text("func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> { return %x : tensor<3xf32> }")
  module.save(tmp_path / "module.zip")
  data = (tmp_path / "module.zip").read_bytes()
  for source in (tmp_path / "module.zip", data, bytearray(data), memoryview(data)):
    assert str(Module.load(source, guard=False)) == str(module)
  with pytest.raises(ArgumentError, match="Module.load: got None; expected bytes"):
    Module.load(None)


@pytest.mark.parametrize("name", _NAMES)
def test_a_saved_module_is_read_as_it_was(name, tmp_path):
  for version in ("0.4.30", "0.12.0"):
    module = _exported(f"{name}-{version}")
    module.save(tmp_path / "module.zip")
    _check_same(Module.load(tmp_path / "module.zip", guard=False), module)
    assert [path.name for path in tmp_path.iterdir()] == ["module.zip"]


@pytest.mark.parametrize("path", _GOLDEN, ids=lambda path: path.stem)
def test_files_of_a_date_are_read_as_then(path):
  name = path.stem.partition("-")[0]
  module = Module.load(path, guard=False)
  _check_same(module, _exported(f"{name}-0.12.0"))
  with np.load(_TESTDATA / "exported" / f"{name}-0.12.0.npz") as arrays:
    stored = dict(arrays)
  inputs = [stored[f"input_{i}"] for i in range(len(module.inputs))]
  for i, found in enumerate(lift(module)(*inputs)):
    np.testing.assert_allclose(found, stored[f"output_{i}"], rtol=2e-6, atol=1e-6)


def test_there_are_files_of_a_date():
  assert len(_GOLDEN) >= 3


def test_modules_without_a_signature_are_saved(tmp_path):
  text = "func.func @main(%i: tensor<i32>, %x: tensor<3xf32>) -> tensor<3xf32> { return %x : tensor<3xf32> }"
  module = Module.from_call_module(
    version=9, module=text.encode(), platforms=["CPU", "TPU"], disabled_checks=["platform"], function_list=["f"]
  )
  module.save(tmp_path / "module.zip")
  found = Module.load(tmp_path / "module.zip")
  assert (str(found), found.function_list, found.has_platform_index) == (str(module), ("f",), True)
  Module.from_text(text).save(tmp_path / "module.zip")
  assert Module.load(tmp_path / "module.zip").version is None


@pytest.mark.skipif(os.name != "posix", reason="Windows has no permissions of this kind")
def test_a_saved_file_has_the_permissions_of_new_files(tmp_path, monkeypatch):
  module = Module.from_text("func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> { return %x : tensor<3xf32> }")
  path, set_mask = tmp_path / "module.zip", os.umask
  mask = set_mask(0o027)
  try:
    monkeypatch.setattr(os, "umask", None)  # other threads make files at the same time
    for _ in range(2):
      module.save(path)
      assert path.stat().st_mode & 0o777 == 0o640
  finally:
    set_mask(mask)
  (tmp_path / "folder").mkdir()
  with pytest.raises(OSError, match="folder"):
    module.save(tmp_path / "folder")
  assert sorted(entry.name for entry in tmp_path.iterdir()) == ["folder", "module.zip"]


def _rounded(x):
  return x + jax.lax.stop_gradient(jnp.round(x) - x)


def test_a_live_function_keeps_its_nesting_and_two_orders_of_derivatives(tmp_path):
  exported = jax.export.export(jax.jit(lambda tree: {"y": _rounded(tree["x"][0]), "z": {3: tree["x"][1]}}))(
    {"x": [X, X]}
  )
  Module.from_exported(exported).save(tmp_path / "module.zip")
  module = Module.load(tmp_path / "module.zip")
  again = structured(lift(module))
  found = again({"x": [X, X]})
  np.testing.assert_array_equal(found["y"], [0, 2])
  np.testing.assert_array_equal(found["z"][3], X)
  np.testing.assert_array_equal(jax.grad(lambda x: again({"x": [x, x]})["y"].sum())(X), [1, 1])
  third = module.gradient.gradient
  with pytest.raises(StableHloError, match="2 orders"):
    third.gradient  # noqa: B018


def test_what_json_cannot_hold_is_refused(tmp_path):
  exported = jax.export.export(jax.jit(lambda tree: tree))({1.5: X})
  with pytest.raises(UnsupportedModuleError, match=r"1\.5, a float"):
    Module.from_exported(exported).save(tmp_path / "module.zip")
  assert not list(tmp_path.iterdir())


def _signature(**fields):
  with zipfile.ZipFile(_TESTDATA / "saved" / "trees-2026-11-26.zip") as archive:
    return {**json.loads(archive.read("module.json"))["signature"], **fields}


# True and 1 are one key of a dict.
_TWICE = {"kind": "dict", "keys": [1, True], "children": [{"kind": "leaf"}] * 2}


def test_keys_of_an_implementation_that_no_other_process_has_are_refused(tmp_path):
  module = _exported("loop-0.12.0")
  first, *others = module.signature.inputs
  leaves = (dataclasses.replace(first, dtype="key<mine>"), *others)
  module = dataclasses.replace(module, signature=dataclasses.replace(module.signature, inputs=leaves))
  with pytest.raises(UnsupportedModuleError, match="is key<mine>; expected"):
    module.save(tmp_path / "module.zip")


def _changed(path, **fields):
  """Returns the file with other fields."""
  with zipfile.ZipFile(path) as archive:
    entries = {name: archive.read(name) for name in archive.namelist()}
  convention = {**json.loads(entries["module.json"]), **fields}
  entries["module.json"] = json.dumps(convention).encode()
  target = path.with_suffix(".changed")
  with zipfile.ZipFile(target, "w") as archive:
    for name, data in entries.items():
      archive.writestr(name, data)
  return target


@pytest.mark.parametrize(
  ("fields", "error", "message"),
  [
    ({"format": 2}, VersionError, "form 2"),
    ({"format": "1"}, DecodeError, "'format'"),
    ({"kept": [0, -1]}, DecodeError, "at least 0"),
    ({"kept": [0, 1, 2, 3, 4, 99]}, DecodeError, "arguments"),
    ({"platforms": 3}, DecodeError, "'platforms'"),
    ({"signature": []}, DecodeError, "'signature'"),
    ({"signature": None, "dim_args": [[0]]}, DecodeError, "dimension argument"),
    ({"signature": None, "dim_args": [[-9, 0]]}, DecodeError, "dim_args"),
    ({"signature": _signature(inputs=[{"shape": [], "dtype": "nonsense"}] * 7)}, DecodeError, "dtype.*'nonsense'"),
    ({"signature": _signature(inputs=[{"shape": [], "dtype": "9" * 5000}] * 7)}, DecodeError, "dtype.*'9999"),
    ({"signature": _signature(inputs=[{"shape": [], "dtype": "object"}] * 7)}, DecodeError, "dtype.*'object'"),
    ({"signature": _signature(inputs=[{"shape": [-1], "dtype": "bool"}] * 7)}, DecodeError, r"shape .* \[-1\]"),
    ({"signature": _signature(inputs=[{"shape": [1 << 63], "dtype": "int4"}] * 7)}, DecodeError, "shape .* from 0"),
    ({"signature": _signature(out_tree=_TWICE)}, DecodeError, "'dict' with 2 children"),
    ({"version": None}, DecodeError, "no calling convention"),
    ({"version": 99}, VersionError, "99"),
  ],
)
def test_wrong_fields_are_typed_errors(fields, error, message, tmp_path):
  _exported("trees-0.12.0").save(tmp_path / "module.zip")
  with pytest.raises(error, match=message):
    Module.load(_changed(tmp_path / "module.zip", **fields), guard=False)


def test_deep_files_are_refused(tmp_path):
  _exported("loop-0.12.0").save(tmp_path / "module.zip")
  with pytest.raises(LimitExceededError, match="levels deep"):
    Module.load(tmp_path / "module.zip", limits=Limits(depth=1))
  with pytest.raises(DecodeError, match="nested too deeply"):
    with zipfile.ZipFile(tmp_path / "deep.zip", "w") as archive:
      archive.writestr("module.json", "[" * 200_000)
    Module.load(tmp_path / "deep.zip")


@pytest.mark.parametrize("offset", [100, 2**62, 2**64 - 1])
def test_an_entry_that_lies_elsewhere_is_a_typed_error(offset):
  buffer = io.BytesIO()
  with zipfile.ZipFile(buffer, "w") as archive:
    archive.writestr("module.json", "{}")
  data = buffer.getvalue()
  entry, end = data.index(b"PK\1\2"), data.index(b"PK\5\6")
  # The directory says that the offset of the entry is in an additional field of 64 bits.
  name_end = entry + 46 + len("module.json")
  extra = struct.pack("<HHQ", 1, 8, offset)
  record = data[entry : entry + 30] + struct.pack("<H", len(extra)) + data[entry + 32 : entry + 42] + b"\xff" * 4
  size = struct.pack("<L", end - entry + len(extra))
  directory = record + data[entry + 46 : name_end] + extra + data[end : end + 12] + size + data[end + 16 :]
  with pytest.raises(DecodeError, match="not what Module.save writes: .*[^.]. Module.from_exported reads"):
    Module.load(data[:entry] + directory)


def test_entries_that_lie_in_each_other_are_refused():
  buffer = io.BytesIO()
  with zipfile.ZipFile(buffer, "w") as archive:
    for depth in range(3):
      archive.writestr(zipfile.ZipInfo("gradient/" * depth + "module.mlirbc"), bytes(5000))
    outer = archive.filelist[0]
    outer.file_size = outer.compress_size = 10_000
  with pytest.raises(DecodeError, match="lie in each other"):
    Module.load(buffer.getvalue(), guard=False)


def test_damaged_files_are_typed_errors():
  data = _GOLDEN[0].read_bytes()
  rng = random.Random(20261126)
  for _ in range(120):
    damaged = bytearray(data[: rng.choice([len(data), rng.randrange(len(data))])])
    for _ in range(rng.randrange(1, 4)):
      if damaged:
        damaged[rng.randrange(len(damaged))] = rng.randrange(256)
    try:
      Module.load(bytes(damaged))
    except StableHloError:
      pass
