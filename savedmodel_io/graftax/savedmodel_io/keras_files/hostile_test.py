"""Files of weights that are damaged or hostile: each is a typed error, quickly, without reading other files."""

import io
import json
import sys
import zipfile
import zlib

import h5py
import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from graftax.graphdef_ir import LibraryNotFoundError, LimitExceededError, Limits
from graftax.savedmodel_io import read_weights
from graftax.savedmodel_io.errors import DamagedWeightsError, UnsafeWeightsError, WeightsError
from graftax.savedmodel_io.keras_files import guard, h5_file
from graftax.testing.resource_limits import within_limits

_VALUES = np.arange(6, dtype=np.float32).reshape(2, 3)


def _h5(write) -> bytes:
  buffer = io.BytesIO()
  with h5py.File(buffer, "w") as file:
    write(file)
  return buffer.getvalue()


def _layer(file, name: str = "layers/dense"):
  return file.create_group(f"{name}/vars")


def _good(file) -> None:
  _layer(file)["0"] = _VALUES


def _legacy(file, weights=(b"dense/kernel:0",), layers=(b"dense",)) -> None:
  file.attrs["layer_names"] = list(layers)
  file.create_group("dense").attrs["weight_names"] = list(weights)
  file["dense/dense/kernel:0"] = _VALUES


def test_a_helper_that_does_not_start_says_nothing_of_the_file(tmp_path, monkeypatch):
  (tmp_path / "a.h5").write_bytes(_h5(_good))
  (tmp_path / "h5_probe.py").write_text("import no_such_module")
  monkeypatch.setattr(guard, "__file__", str(tmp_path / "guard.py"))
  with pytest.raises(
    WeightsError, match=r"a.h5: the helper .* does not start: .*No module named 'no_such_module'"
  ) as found:
    read_weights(tmp_path / "a.h5")
  assert not isinstance(found.value, DamagedWeightsError)


def test_without_h5py_the_error_says_what_to_install(tmp_path, monkeypatch):
  (tmp_path / "a.h5").write_bytes(_h5(_good))
  monkeypatch.setitem(sys.modules, "h5py", None)
  with pytest.raises(LibraryNotFoundError, match=r"a.h5: .* needs h5py, .*graftax-savedmodel-io\[keras\]"):
    read_weights(tmp_path / "a.h5")


def test_what_the_library_does_not_survive_is_found_by_the_helper(tmp_path, monkeypatch):
  # The texts of an attribute, in a heap of the file; with a size of 0 the library looks for the next one forever.
  data = bytearray(_h5(lambda file: file.attrs.update(layer_names=["a", "b"])))
  start = data.index(b"GCOL")
  data[start + 24 : start + 32] = bytes(8)
  path = tmp_path / "hanging.h5"
  path.write_bytes(data)
  monkeypatch.setattr(guard, "_TIMEOUT_S", 2.0)
  with pytest.raises(DamagedWeightsError, match="hanging.h5: damaged"):
    read_weights(path)


def test_good_files_are_read(tmp_path):
  for name, data, expected in (
    ("a.weights.h5", _h5(_good), "dense/kernel"),
    ("b.h5", _h5(_legacy), "dense/kernel"),
    ("c.keras", _archive(_h5(_good)), "dense/kernel"),
    ("d.keras", _archive(_h5(_good), compression=zipfile.ZIP_DEFLATED), "dense/kernel"),
  ):
    (tmp_path / name).write_bytes(data)
    ((key, value),) = read_weights(tmp_path / name).items()
    assert key == expected
    np.testing.assert_array_equal(value, _VALUES)


def _external_link(file) -> None:
  file.create_group("layers")["dense"] = h5py.ExternalLink("other.h5", "/layers/dense")


def _soft_link(file) -> None:
  _good(file)
  file["layers/again"] = h5py.SoftLink("/layers/dense")


def _external_values(file) -> None:
  _layer(file).create_dataset("0", (4,), "u1", external=[("/etc/hostname", 0, 4)])


def _virtual_values(file) -> None:
  layout = h5py.VirtualLayout((2,), np.float32)
  layout[:] = h5py.VirtualSource("other.h5", "x", (2,))
  _layer(file).create_virtual_dataset("0", layout)


def _empty_giant(file) -> None:
  _layer(file).create_dataset("0", (1 << 40,), np.float32, chunks=(1 << 16,))


def _empty_contiguous_giant(file) -> None:
  _layer(file).create_dataset("0", (1 << 30, 1 << 20), np.float32)


def _never_written(file) -> None:
  _layer(file).create_dataset("0", (5,), np.float32)


def _bomb(file) -> None:
  values = _layer(file).create_dataset("0", (1 << 29,), "u1", chunks=(1 << 24,), compression="gzip")
  values[: 1 << 24] = np.zeros(1 << 24, "u1")


def _bombs(file) -> None:
  layer = _layer(file)
  for i in range(10):
    values = layer.create_dataset(str(i), (1 << 25,), "u1", chunks=(1 << 25,), compression="gzip")
    values.id.write_direct_chunk((0,), zlib.compress(bytes(1 << 25)))


def _in_chunks(file, **options):
  return _layer(file).create_dataset("0", (8,), "f4", chunks=(4,), **options)


def _short_chunk(file) -> None:
  values = _in_chunks(file, compression="gzip")
  values[:4] = 1
  values.id.write_direct_chunk((4,), zlib.compress(bytes(8)))


def _long_chunk(file) -> None:
  _in_chunks(file, compression="gzip").id.write_direct_chunk((0,), zlib.compress(bytes(1 << 20)))


def _short_plain_chunk(file) -> None:
  values = _in_chunks(file, compression="gzip")
  values.id.write_direct_chunk((0,), bytes(8), filter_mask=1)
  values.id.write_direct_chunk((4,), bytes(16), filter_mask=1)


def _missing_chunk(file) -> None:
  _in_chunks(file, compression="gzip", fillvalue=5)[4:] = 1


def _chunk_of_noise(file) -> None:
  _in_chunks(file, compression="gzip").id.write_direct_chunk((0,), b"noise" * 9)


def _wrong_checksum(file) -> None:
  _in_chunks(file, fletcher32=True).id.write_direct_chunk((0,), bytes(16) + b"\1\0\0\0")


def _lzf(file) -> None:
  _in_chunks(file, compression="lzf")[:] = 1


def _odd_numbers(file) -> None:
  kind = h5py.h5t.STD_I32LE.copy()
  kind.set_precision(17)
  space, properties = h5py.h5s.create_simple((8,)), h5py.h5p.create(h5py.h5p.DATASET_CREATE)
  properties.set_chunk((4,))
  values = h5py.h5d.create(_layer(file).id, b"0", kind, space, properties)
  values.write(h5py.h5s.ALL, h5py.h5s.ALL, np.arange(8, dtype=np.int32))


def _inside_itself(file) -> None:
  group = file.create_group("layers/a")
  group["b"] = group["c"] = group


def _many_names(file) -> None:
  group = _layer(file)
  group["0"] = _VALUES
  group["1"] = group["0"]


def _deep(file) -> None:
  _layer(file, "/".join(["a"] * 200))["0"] = _VALUES


def _text_values(file) -> None:
  _layer(file)["0"] = ["a", "b"]


def _record_values(file) -> None:
  _layer(file)["0"] = np.zeros(3, [("a", "f4"), ("b", "i4")])


def _reference_values(file) -> None:
  _layer(file).create_dataset("0", data=np.array([file.ref], h5py.ref_dtype), dtype=h5py.ref_dtype)


def _same_names(file) -> None:
  for layer in ("dense", "dense_1"):
    group = _layer(file, f"layers/{layer}")
    group["0"], group.attrs["name"] = _VALUES + len(layer), "same"


def _group_for_values(file) -> None:
  _layer(file).create_group("0")


def _name_of_numbers(file) -> None:
  _good(file)
  file["layers/dense/vars"].attrs["name"] = 5.0


def _no_weights(file) -> None:
  file["something"] = _VALUES


_HOSTILE_H5 = {
  "external_link": (_external_link, UnsafeWeightsError, "ExternalLink"),
  "soft_link": (_soft_link, UnsafeWeightsError, "SoftLink"),
  "external_values": (_external_values, UnsafeWeightsError, "another file"),
  "virtual_values": (_virtual_values, UnsafeWeightsError, "another file"),
  "empty_giant": (_empty_giant, UnsafeWeightsError, "claims to hold 4398046511104 bytes"),
  "empty_contiguous_giant": (_empty_contiguous_giant, UnsafeWeightsError, "claims to hold"),
  "never_written": (_never_written, UnsafeWeightsError, "20 bytes, of which the file has 0"),
  "bomb": (_bomb, LimitExceededError, "of 536870912 bytes, .* the limit unpacked_ratio"),
  "bombs": (_bombs, LimitExceededError, "/8', of 33554432 bytes, .* the limit unpacked_ratio"),
  "short_chunk": (_short_chunk, DamagedWeightsError, r"chunk \[4\] of .* unpacks to 8 bytes; expected 16"),
  "long_chunk": (_long_chunk, DamagedWeightsError, r"chunk \[0\] of .* unpacks to 21 bytes; expected 16"),
  "short_plain_chunk": (_short_plain_chunk, DamagedWeightsError, "chunk .*unpacks to 8 bytes|damaged"),
  "missing_chunk": (_missing_chunk, DamagedWeightsError, r"chunk \[0\] of .* is not stored"),
  "chunk_of_noise": (_chunk_of_noise, DamagedWeightsError, r"chunk \[0\] of .* is not gzip data"),
  "wrong_checksum": (_wrong_checksum, DamagedWeightsError, r"the checksum of chunk \[0\]"),
  "unknown_filter": (_lzf, UnsafeWeightsError, "compressed by filter 32000 .lzf."),
  "odd_numbers": (_odd_numbers, DamagedWeightsError, "unusual type"),
  "inside_itself": (_inside_itself, UnsafeWeightsError, "groups"),
  "many_names": (_many_names, UnsafeWeightsError, "several names"),
  "deep": (_deep, UnsafeWeightsError, "deep"),
  "text_values": (_text_values, DamagedWeightsError, "expected numbers"),
  "record_values": (_record_values, DamagedWeightsError, "expected numbers"),
  "reference_values": (_reference_values, DamagedWeightsError, "expected numbers"),
  "same_names": (_same_names, DamagedWeightsError, "two weights are called 'same/kernel'"),
  "group_for_values": (_group_for_values, DamagedWeightsError, "expected a dataset"),
  "name_of_numbers": (_name_of_numbers, DamagedWeightsError, "expected text"),
  "no_weights": (_no_weights, DamagedWeightsError, "without weights of Keras"),
  "legacy_unknown_layer": (lambda f: _legacy(f, layers=[b"x"]), DamagedWeightsError, "has no 'x'"),
  "legacy_unknown_weight": (lambda f: _legacy(f, [b"y:0"]), DamagedWeightsError, "has no 'y:0'"),
  "legacy_parent": (lambda f: _legacy(f, [b"../dense/dense/kernel:0"]), DamagedWeightsError, "has no '..'"),
  "legacy_not_text": (lambda f: _legacy(f, layers=[b"\xff"]), DamagedWeightsError, "utf-8"),
  "legacy_numbers": (lambda f: _legacy(f, layers=[1]), DamagedWeightsError, "expected text"),
  "legacy_twice": (lambda f: _legacy(f, [b"dense/kernel:0"] * 2), UnsafeWeightsError, "several names"),
  "legacy_no_names": (lambda f: f.create_group("model_weights"), DamagedWeightsError, "no attribute"),
}


@pytest.mark.parametrize(
  "case, suffix", [*((case, ".h5") for case in _HOSTILE_H5), ("external_link", ".keras"), ("bomb", ".keras")]
)
def test_hostile_hdf5_files_are_refused(tmp_path, case, suffix):
  write, error, message = _HOSTILE_H5[case]
  data = _h5(write)
  with h5py.File(tmp_path / "other.h5", "w") as other:
    other["layers/dense/vars/0"] = other["x"] = _VALUES  # what links lead to is there
  path = tmp_path / f"hostile{suffix}"
  path.write_bytes(data if suffix == ".h5" else _archive(data))
  with within_limits(), pytest.raises(error, match=message) as caught:
    read_weights(path, guard=False)
  assert str(caught.value).startswith(str(path))


@pytest.mark.parametrize(
  "options",
  [
    {},
    {"compression": "gzip"},
    {"shuffle": True, "compression": "gzip"},
    {"fletcher32": True},
    {"shuffle": True, "compression": "gzip", "fletcher32": True},
  ],
)
@pytest.mark.parametrize("dtype", ["<f4", ">f8", "i1", "<u8", "?", "<c8", "V2"])
def test_values_in_chunks_are_those_that_h5py_reads(tmp_path, options, dtype):
  values = np.random.default_rng(0).integers(0, 2 if dtype == "?" else 100, (5, 3, 14)).astype("f4")
  array = values.astype(dtype) if dtype != "V2" else values.astype("f2").view("V2")
  with h5py.File(tmp_path / "a.h5", "w") as file:
    _layer(file).create_dataset("0", data=array, chunks=(2, 3, 5), **options)
  with h5py.File(tmp_path / "a.h5") as file:
    expected = file["layers/dense/vars/0"][()]
  (value,) = read_weights(tmp_path / "a.h5", guard=False).values()
  assert value.tobytes() == expected.tobytes()
  assert value.shape == expected.shape
  assert value.dtype.name == ("bfloat16" if dtype == "V2" else expected.dtype.name)


def test_datasets_that_share_bytes_are_refused(tmp_path):
  path = tmp_path / "a.h5"
  with h5py.File(path, "w") as file:
    layer = _layer(file)
    for i in range(40):
      layer.create_dataset(str(i), (10_000,), "f4")
    layer["0"][:] = 1
    place = layer["0"].id.get_offset()
  nowhere = b"\3\1" + b"\xff" * 8 + (40_000).to_bytes(8, "little")
  data = path.read_bytes()
  assert data.count(nowhere) == 39
  path.write_bytes(data.replace(nowhere, b"\3\1" + place.to_bytes(8, "little") + nowhere[10:]))
  with pytest.raises(UnsafeWeightsError, match="a.h5: '/layers/dense/vars/.*' has 40000 bytes, .*: they share bytes"):
    read_weights(path)


def test_groups_that_are_opened_again_and_again_are_refused(tmp_path, monkeypatch):
  def write(file) -> None:
    file.create_group("inner/leaf")
    for i in range(30):
      file[f"inner/{i}"] = file["inner/leaf"]
      file[f"layers/{i}"] = file["inner"]

  (tmp_path / "a.h5").write_bytes(_h5(write))
  monkeypatch.setattr(h5_file, "_MOST_OPENED", 500)
  with pytest.raises(UnsafeWeightsError, match="groups and datasets with those before; expected at most 500"):
    read_weights(tmp_path / "a.h5", guard=False)


def test_what_a_limit_refuses_is_read_with_a_higher_limit(tmp_path):
  (tmp_path / "a.h5").write_bytes(_h5(lambda file: _in_chunks(file, compression="gzip").write_direct(np.ones(8, "f4"))))
  with pytest.raises(LimitExceededError, match="a.h5: '/layers/dense/vars/0', of 32 bytes, needs") as caught:
    read_weights(tmp_path / "a.h5", guard=False, limits=Limits(unpacked_bytes=0))
  limits = Limits(**{caught.value.limit: 100})
  assert list(read_weights(tmp_path / "a.h5", guard=False, limits=limits)) == ["dense/kernel"]


def _archive(
  weights: bytes = b"", config: bytes = b"{}", *, compression: int = zipfile.ZIP_STORED, others: tuple[str, ...] = ()
) -> bytes:
  buffer = io.BytesIO()
  with zipfile.ZipFile(buffer, "w", compression) as archive:
    archive.writestr("config.json", config)
    archive.writestr("model.weights.h5", weights)
    for name in others:
      archive.writestr(name, "x")
  return buffer.getvalue()


def _without(name: str) -> bytes:
  buffer = io.BytesIO()
  with zipfile.ZipFile(buffer, "w") as archive:
    for other in {"config.json", "model.weights.h5"} - {name}:
      archive.writestr(other, _h5(_good) if other.endswith("h5") else "{}")
  return buffer.getvalue()


def _duplicate() -> bytes:
  import warnings

  with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    return _archive(_h5(_good), others=("model.weights.h5",))


def _patched(find: bytes, offset: int, value: bytes) -> bytes:
  """Returns an archive with bytes of the central directory entry of its weights replaced."""
  data = bytearray(_archive(_h5(_good)))
  start = data.rindex(b"PK\x01\x02", 0, data.rindex(find))
  data[start + offset : start + offset + len(value)] = value
  return bytes(data)


_WEIGHTS = b"model.weights.h5"
_HOSTILE_ARCHIVES = {
  "not_a_zip": (lambda: b"PK\x03\x04" + bytes(100), DamagedWeightsError, "not a .keras archive"),
  "empty": (lambda: b"", DamagedWeightsError, "not a .keras archive"),
  "cut_off": (lambda: _archive(_h5(_good))[:-30], DamagedWeightsError, "not a .keras archive"),
  "cut_at_start": (lambda: _archive(_h5(_good))[200:], DamagedWeightsError, "damaged"),
  "no_weights": (lambda: _without("model.weights.h5"), DamagedWeightsError, "has no 'model.weights.h5'"),
  "no_config": (lambda: _without("config.json"), DamagedWeightsError, "has no 'config.json'"),
  "duplicate": (_duplicate, UnsafeWeightsError, "twice"),
  "outside": (lambda: _archive(_h5(_good), others=("../x",)), UnsafeWeightsError, "plain path"),
  "absolute": (lambda: _archive(_h5(_good), others=("/etc/x",)), UnsafeWeightsError, "plain path"),
  "backslash": (lambda: _archive(_h5(_good), others=("..\\x",)), UnsafeWeightsError, "plain path"),
  "many_files": (
    lambda: _archive(_h5(_good), others=tuple(f"assets/{i}" for i in range(5000))),
    LimitExceededError,
    "5002 files and folders",
  ),
  "encrypted": (lambda: _patched(_WEIGHTS, 8, b"\x01"), UnsafeWeightsError, "encrypted"),
  "unknown_compression": (lambda: _patched(_WEIGHTS, 10, b"\x62"), UnsafeWeightsError, "compressed in a way"),
  "bzip2": (lambda: _archive(_h5(_good), compression=zipfile.ZIP_BZIP2), UnsafeWeightsError, "compressed in a way"),
  "larger_than_stored": (lambda: _patched(_WEIGHTS, 24, b"\xff\xff\xff\x7f"), DamagedWeightsError, "are stored"),
  "bomb": (
    lambda: _archive(bytes(1 << 29), compression=zipfile.ZIP_DEFLATED),
    LimitExceededError,
    "'model.weights.h5' needs 536870912 bytes .* the limit unpacked_ratio",
  ),
  "config_bomb": (
    lambda: _archive(_h5(_good), bytes(1 << 27), compression=zipfile.ZIP_DEFLATED),
    UnsafeWeightsError,
    "'config.json' has 134217728 bytes",
  ),
  "config_is_not_json": (lambda: _archive(_h5(_good), b"<html>"), DamagedWeightsError, "JSONDecodeError"),
  "config_is_deep": (lambda: _archive(_h5(_good), b"[" * 200_000), DamagedWeightsError, "RecursionError"),
  "weights_are_not_hdf5": (lambda: _archive(b"\x89HDF nothing"), DamagedWeightsError, "HDF5"),
}


@pytest.mark.parametrize("case", _HOSTILE_ARCHIVES)
def test_hostile_archives_are_refused(tmp_path, case):
  make, error, message = _HOSTILE_ARCHIVES[case]
  path = tmp_path / "hostile.keras"
  path.write_bytes(make())
  with within_limits(), pytest.raises(error, match=message):
    read_weights(path, guard=False)
  assert [entry.name for entry in tmp_path.iterdir()] == ["hostile.keras"]


def _shard(*weights: str) -> bytes:
  def write(file) -> None:
    for weight in weights:
      file[weight] = _VALUES

  return _h5(write)


_SHARDS = {
  "a_00000.weights.h5": _shard("layers/dense/vars/0", "layers/my_layer/vars/0"),
  "a_00001.weights.h5": _shard("layers/my_layer/vars/1", "optimizer/vars/0"),
}
_MAP = {
  "/layers/dense/vars": "a_00000.weights.h5",
  "/layers/my_layer/vars": ["a_00000.weights.h5", "a_00001.weights.h5"],
  "/optimizer/vars": "a_00001.weights.h5",
}


def _write_shards(folder, weight_map=_MAP, content: bytes | None = None, **changed: bytes | None) -> None:
  content = json.dumps({"weight_map": weight_map}).encode() if content is None else content
  (folder / "a.weights.json").write_bytes(content)
  for name, data in {**_SHARDS, **{f"a_0000{key[-1]}.weights.h5": value for key, value in changed.items()}}.items():
    if data is not None:
      (folder / name).write_bytes(data)


def test_weights_in_several_files_are_put_together(tmp_path):
  _write_shards(tmp_path)
  assert sorted(read_weights(tmp_path / "a.weights.json")) == ["dense/kernel", "my_layer/0", "my_layer/1"]


_HOSTILE_SHARDS = {
  "not_json": ({"content": b"<html>"}, DamagedWeightsError, "not JSON"),
  "not_text": ({"content": b"\xff"}, DamagedWeightsError, "not JSON"),
  "deep": ({"content": b"[" * 200_000}, DamagedWeightsError, "RecursionError"),
  "long": ({"content": b" " * ((1 << 26) + 1)}, UnsafeWeightsError, "67108865 bytes"),
  "no_map": ({"content": b"[]"}, DamagedWeightsError, "no 'weight_map'"),
  "empty_map": ({"weight_map": {}}, DamagedWeightsError, "no 'weight_map'"),
  "number_for_a_file": ({"weight_map": {"/vars": 5}}, DamagedWeightsError, "expected names of files"),
  "no_file": ({"weight_map": {"/vars": []}}, DamagedWeightsError, "expected names of files"),
  "outside": ({"weight_map": {"/vars": "../a.h5"}}, UnsafeWeightsError, "beside it"),
  "absolute": ({"weight_map": {"/vars": "/etc/hostname"}}, UnsafeWeightsError, "beside it"),
  "the_folder": ({"weight_map": {"/vars": ".."}}, UnsafeWeightsError, "beside it"),
  "many_files": ({"weight_map": {f"/{i}/vars": f"{i}.h5" for i in range(600)}}, UnsafeWeightsError, "names 600 files"),
  "missing_file": ({"file_1": None}, DamagedWeightsError, "'a_00001.weights.h5' is missing"),
  "cut_off": ({"file_1": _SHARDS["a_00001.weights.h5"][:600]}, DamagedWeightsError, "a_00001.weights.h5: damaged"),
  "of_other_weights": ({"file_1": _SHARDS["a_00000.weights.h5"]}, DamagedWeightsError, "of other weights"),
  "twice": ({"file_1": _shard("layers/my_layer/vars/0", "optimizer/vars/0")}, DamagedWeightsError, "in two files"),
  "group_for_values": (
    {"file_1": _shard("layers/my_layer/vars/1/x", "optimizer/vars/0")},
    DamagedWeightsError,
    "expected a dataset",
  ),
}


@pytest.mark.parametrize("case", _HOSTILE_SHARDS)
def test_hostile_weights_in_several_files_are_refused(tmp_path, case):
  files, error, message = _HOSTILE_SHARDS[case]
  _write_shards(tmp_path, **files)
  with within_limits(), pytest.raises(error, match=message) as caught:
    read_weights(tmp_path / "a.weights.json", guard=False)
  assert str(caught.value).startswith(str(tmp_path / "a.weights.json"))


@pytest.mark.parametrize(
  "config", [[], {"config": 5}, {"config": {"layers": 5}}, {"config": {"layers": [{"class_name": 3, "config": []}]}}]
)
def test_odd_configurations_give_the_names_of_groups(tmp_path, config):
  path = tmp_path / "odd.keras"
  path.write_bytes(_archive(_h5(_good), json.dumps(config).encode()))
  assert list(read_weights(path)) == ["dense/kernel"]


_GOOD = _h5(_legacy)


@pytest.mark.slow  # a process for each example; finds errors of h5py that are not in the list of those it raises
@hypothesis.settings(max_examples=60, deadline=None)
@hypothesis.given(
  st.lists(st.tuples(st.integers(0, len(_GOOD) - 1), st.integers(0, 255)), min_size=1, max_size=6),
  st.integers(0, 2 * len(_GOOD)),
)
def test_a_damaged_file_is_an_error_or_weights(tmp_path_factory, changes, length):
  data = bytearray(_GOOD)
  for position, value in changes:
    data[position] = value
  path = tmp_path_factory.mktemp("damaged") / "x.h5"
  path.write_bytes(data[:length])
  try:
    read_weights(path)
  except WeightsError:
    pass
