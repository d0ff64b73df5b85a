import os
import shutil
from pathlib import Path

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from flax import nnx

from graftax.convert.modules import nnx_module
from graftax.graphdef_ir import GraftaxError
from graftax.savedmodel_io import SavedModel, load, read_checkpoint, write_checkpoint
from graftax.savedmodel_io.errors import (
  CheckpointWriteError,
  DamagedCheckpointError,
  DamagedSavedModelError,
  OutputExistsError,
  TensorValueError,
  UnknownNameError,
  UnsupportedCheckpointError,
  VariableValueError,
)

_DATA = Path(__file__).parents[1] / "testdata/2026_11_21"
_MODELS = ("keras_export", "module", "tf1_partitioned")
_BIAS = "sequential/head/bias"


def _files(folder: Path) -> dict[str, bytes]:
  return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def _graph_files(folder: Path) -> dict[str, bytes]:
  return {name: data for name, data in _files(folder).items() if not name.startswith(("variables", "fingerprint"))}


def _assert_same_values(a: dict, b: dict, *, but: str = "") -> None:
  assert a.keys() == b.keys()
  for key, value in a.items():
    if key != but:
      np.testing.assert_array_equal(value, b[key], strict=True, err_msg=key)


@pytest.mark.parametrize("name", _MODELS)
def test_a_model_saved_without_new_values_is_the_same(tmp_path, name):
  model = load(_DATA / name)
  model.save(tmp_path / "m")
  assert _graph_files(tmp_path / "m") == _graph_files(_DATA / name)
  checkpoints = [read_checkpoint(folder / "variables/variables") for folder in (_DATA / name, tmp_path / "m")]
  _assert_same_values(*checkpoints)
  again = load(tmp_path / "m")
  assert {key: e.slices for key, e in again.checkpoint.entries.items()} == {
    key: e.slices for key, e in model.checkpoint.entries.items()
  }


@pytest.mark.parametrize("name", _MODELS)
def test_every_variable_can_get_a_new_value(tmp_path, name):
  model = load(_DATA / name)
  rng = np.random.default_rng(0)
  new = {
    key: rng.integers(0, 2, value.shape).astype(value.dtype)
    for key, value in model.variables.items()
    if value.dtype != object
  }
  model.save(tmp_path / "m", new)
  again = load(tmp_path / "m", verify=True)
  _assert_same_values({**model.variables, **new}, dict(again.variables))
  assert {key: e.slices for key, e in again.checkpoint.entries.items()} == {
    key: e.slices for key, e in model.checkpoint.entries.items()
  }


def test_one_piece_of_a_partitioned_variable_can_get_a_new_value(tmp_path):
  model = load(_DATA / "tf1_partitioned")
  name, info = next((name, info) for name, info in model.variables.infos.items() if info.part is not None)
  new = np.full_like(model.variables[name], 9)
  model.save(tmp_path / "m", {name: jnp.asarray(new)})
  again = load(tmp_path / "m")
  np.testing.assert_array_equal(again.variables[name], new)
  _assert_same_values(dict(model.variables), dict(again.variables), but=name)
  assert again.checkpoint.entry(info.checkpoint_key).slices == model.checkpoint.entry(info.checkpoint_key).slices


@pytest.mark.parametrize("whole", [True, False])
def test_a_tensor_cut_otherwise_than_its_variables_gets_their_values(tmp_path, whole):
  """A partitioned variable may be restored from a tensor that is stored whole, or in other slices."""
  shutil.copytree(_DATA / "tf1_partitioned", tmp_path / "source")
  prefix = tmp_path / "source/variables/variables"
  tensors = read_checkpoint(prefix)
  if whole:
    write_checkpoint(prefix, tensors, overwrite=True)
  model = load(tmp_path / "source")
  pieces = {name: info for name, info in model.variables.infos.items() if info.part is not None}
  name = list(pieces)[1]
  new = np.full_like(model.variables[name], 9)
  model.save(tmp_path / "m", {name: new})
  again = load(tmp_path / "m")
  np.testing.assert_array_equal(again.variables[name], new)
  _assert_same_values(dict(model.variables), dict(again.variables), but=name)


def test_parameters_of_a_conversion_are_written_back(tmp_path):
  model = load(_DATA / "keras_export")
  predict, params = model.convert("serving_default")
  features = jnp.ones((3, 2))
  doubled = jax.tree.map(lambda p: p * 2 if jnp.issubdtype(p.dtype, jnp.floating) else p, params)
  expected = predict(doubled, features=features)[0]["output_0"]
  model.save(tmp_path / "m", doubled)
  predict_again, params_again = load(tmp_path / "m").convert("serving_default")
  np.testing.assert_array_equal(predict_again(params_again, features=features)[0]["output_0"], expected)
  assert not np.array_equal(predict(params, features=features)[0]["output_0"], expected)


def test_the_fingerprint_tells_the_copy_from_the_model(tmp_path):
  model = load(_DATA / "keras_export")
  model.save(tmp_path / "a")
  model.save(tmp_path / "b", {_BIAS: np.ones(1, np.float32)})
  prints = [load(folder).fingerprint for folder in (_DATA / "keras_export", tmp_path / "a", tmp_path / "b")]
  assert len({p.uuid for p in prints}) == len({p.checkpoint_hash for p in prints}) == 3
  assert len({p.graph_def_program_hash for p in prints}) == 1


def _model_with_a_damaged_fingerprint(folder: Path) -> SavedModel:
  shutil.copytree(_DATA / "keras_export", folder)
  (folder / "fingerprint.pb").write_bytes(b"\xff\xff")
  return load(folder)


def test_a_damaged_fingerprint_is_an_error(tmp_path):
  model = _model_with_a_damaged_fingerprint(tmp_path / "source")
  with pytest.raises(DamagedSavedModelError, match="fingerprint.pb of the model cannot be parsed"):
    model.save(tmp_path / "m")
  assert os.listdir(tmp_path) == ["source"]


_WRONG = [
  ({"sequential/head/bais": 1}, UnknownNameError, "no variable 'sequential/head/bais'.*sequential/head/bias"),
  ({_BIAS: 1.0}, TensorValueError, "the value of variable 'sequential/head/bias' is 1.0 of type float"),
  ({_BIAS: np.ones((1, 1), np.float32)}, VariableValueError, r"has shape \[1\], but its new value has shape \[1, 1\]"),
  ({_BIAS: np.float32(1)}, VariableValueError, r"new value has shape \[\]"),
  (
    {_BIAS: np.ones(1, ml_dtypes.bfloat16)},
    VariableValueError,
    "is float32, but its new value is bfloat16; pass cast=True",
  ),
  ({_BIAS: np.ones(1)}, VariableValueError, "is float32, but its new value is float64; pass cast=True"),
  ({_BIAS: np.ones(1, np.int32)}, VariableValueError, "is int32, which is not a number of the same kind"),
  ({_BIAS: b"a"}, VariableValueError, "is object; expected numbers"),
]


@pytest.mark.parametrize(("params", "error", "message"), _WRONG)
def test_a_value_that_does_not_fit_raises_before_anything_is_written(tmp_path, params, error, message):
  with pytest.raises(error, match=message):
    load(_DATA / "keras_export").save(tmp_path / "m", params)
  assert os.listdir(tmp_path) == []


def test_a_value_of_another_precision_is_cast_only_if_asked_for(tmp_path):
  model = load(_DATA / "keras_export")
  model.save(tmp_path / "m", {_BIAS: jnp.full(1, 1.5, jnp.bfloat16)}, cast=True)
  assert load(tmp_path / "m").variables[_BIAS].tolist() == [1.5]
  with pytest.raises(TensorValueError, match=f"variable {_BIAS!r} cannot be cast .*1e.300.* does not fit float32"):
    model.save(tmp_path / "n", {_BIAS: np.full(1, 1e300)}, cast=True)
  assert os.listdir(tmp_path) == ["m"]


def test_integers_are_cast_if_they_fit(tmp_path):
  model = load(_DATA / "module")
  name, value = next((name, value) for name, value in model.variables.items() if value.dtype.kind == "i")
  model.save(tmp_path / "m", {name: np.full_like(value, 7, np.int16)}, cast=True)
  assert load(tmp_path / "m").variables[name].tolist() == np.full_like(value, 7).tolist()
  with pytest.raises(TensorValueError, match=f"does not fit {value.dtype.name}"):
    model.save(tmp_path / "n", {name: np.full_like(value, 2**63, np.uint64)}, cast=True)


def test_a_model_is_replaced_only_if_asked_for_and_only_by_a_model(tmp_path):
  model = load(_DATA / "keras_export")
  model.save(tmp_path / "m")
  with pytest.raises(OutputExistsError, match="m exists already; pass overwrite=True"):
    model.save(tmp_path / "m")
  (tmp_path / "notes").mkdir()
  (tmp_path / "notes" / "todo.txt").touch()
  with pytest.raises(OutputExistsError, match="holds no saved_model.pb, so it is something else"):
    model.save(tmp_path / "notes", overwrite=True)
  for folder in (tmp_path, tmp_path / "m" / "inside"):
    (tmp_path / "saved_model.pb").touch()
    with pytest.raises(OutputExistsError, match="lies within the other"):
      load(tmp_path / "m").save(folder, overwrite=True)


def test_a_model_can_be_saved_in_place_again_and_again(tmp_path):
  load(_DATA / "keras_export").save(tmp_path / "m")
  model = load(tmp_path / "m", verify=False)
  for value in range(3):
    model.save(tmp_path / "m", {_BIAS: np.full(1, value, np.float32)}, overwrite=True)
    assert load(tmp_path / "m").variables[_BIAS].tolist() == [value]
  assert os.listdir(tmp_path) == ["m"]
  _assert_same_values(dict(load(_DATA / "keras_export").variables), dict(model.variables))


def test_a_model_saved_in_place_keeps_the_values_it_was_loaded_with_although_it_never_read_them(tmp_path):
  shutil.copytree(_DATA / "tf1_partitioned", tmp_path / "m")
  prefix = tmp_path / "m/variables/variables"
  write_checkpoint(prefix, read_checkpoint(prefix), max_shard_bytes=1, overwrite=True)
  model = load(tmp_path / "m", verify=False)
  new = {name: np.full(info.shape.dims, 9, np.float32) for name, info in model.variables.infos.items()}
  model.save(tmp_path / "m", new, overwrite=True)
  _assert_same_values(dict(load(_DATA / "tf1_partitioned").variables), dict(model.variables))
  _assert_same_values(new, dict(load(tmp_path / "m").variables))


def test_an_error_while_writing_leaves_the_old_model(tmp_path, monkeypatch):
  model = load(_DATA / "module")
  model.save(tmp_path / "m")
  before = _files(tmp_path)

  def full(source, target):
    raise OSError(28, "No space left on device")

  monkeypatch.setattr(shutil, "copyfile", full)
  with pytest.raises(CheckpointWriteError, match="cannot be written .No space left on device.") as raised:
    model.save(tmp_path / "m", overwrite=True)
  assert raised.value.errno == 28

  def stop(written, total):
    raise KeyboardInterrupt

  monkeypatch.undo()
  with pytest.raises(KeyboardInterrupt):
    model.save(tmp_path / "m", overwrite=True, progress=stop)
  assert _files(tmp_path) == before and os.listdir(tmp_path) == ["m"]


def test_a_read_only_source_behind_links_is_copied(tmp_path):
  shutil.copytree(_DATA / "module", tmp_path / "blobs")
  (tmp_path / "source").mkdir()
  for path in (tmp_path / "blobs").iterdir():
    (tmp_path / "source" / path.name).symlink_to(path)
    path.chmod(0o555)
  (tmp_path / "source" / "circle").symlink_to(tmp_path / "source")
  load(tmp_path / "source", allow_files_in=tmp_path / "blobs").save(tmp_path / "m")
  assert _graph_files(tmp_path / "m") == _graph_files(_DATA / "module")
  assert not any(path.is_symlink() for path in (tmp_path / "m").rglob("*"))
  os.rename(tmp_path / "m" / "assets", tmp_path / "m" / "moved")  # the copy can be changed


def test_damage_is_not_copied_even_if_the_model_was_read_without_verifying(tmp_path):
  shutil.copytree(_DATA / "tf1_partitioned", tmp_path / "source")
  (data,) = (tmp_path / "source/variables").glob("variables.data-*")
  data.write_bytes(bytes([data.read_bytes()[0] ^ 1]) + data.read_bytes()[1:])
  with pytest.raises(DamagedCheckpointError, match="at byte 0: its checksum is"):
    load(tmp_path / "source", verify=False).save(tmp_path / "m")
  assert os.listdir(tmp_path) == ["source"]


def test_a_checkpoint_in_format_1_raises(tmp_path):
  shutil.copytree(_DATA / "tf1_partitioned", tmp_path / "source")
  model = load(tmp_path / "source")
  object.__setattr__(model, "checkpoint", type(model.checkpoint)(_DATA / "partitioned_v1/model.ckpt"))
  with pytest.raises(UnsupportedCheckpointError, match="format 1, which we do not write"):
    model.save(tmp_path / "m")


def test_saved_models_with_damage_give_typed_errors_or_the_right_values(tmp_path):
  model = load(_DATA / "keras_export")
  model.save(tmp_path / "m")
  expected = dict(model.variables)
  rng = np.random.default_rng(0)
  num_refused = 0
  for path in (tmp_path / "m/variables").iterdir():
    contents = path.read_bytes()
    for _ in range(20):
      damaged = bytearray(contents)
      damaged[int(rng.integers(len(damaged)))] ^= 1 << int(rng.integers(8))
      path.write_bytes(damaged if rng.integers(2) else damaged[: int(rng.integers(len(damaged)))])
      try:
        _assert_same_values(expected, dict(load(tmp_path / "m", verify=True).variables))
      except GraftaxError:
        num_refused += 1
    path.write_bytes(contents)
  assert num_refused >= 30


@pytest.mark.parametrize(
  "state",
  [
    nnx.state,
    lambda module: nnx.state(module, nnx.Param),
    lambda module: nnx.split(module)[1],
    lambda module: nnx.to_pure_dict(nnx.state(module)),
    lambda module: nnx.state(module)["variables"],
  ],
)
def test_the_state_of_a_module_of_nnx_is_saved(tmp_path, state):
  model = load(_DATA / "keras_export")
  predict, params = model.convert("serving_default")
  module = nnx_module(predict, params)
  module.variables[_BIAS].set_value(jnp.float32([7]))
  model.save(tmp_path / "tuned", state(module), cast=True)
  assert load(tmp_path / "tuned").variables[_BIAS] == 7
