"""Golden models with XlaCallModule nodes, rewritten and read again."""

import shutil
from pathlib import Path

import jax
import numpy as np
import pytest

from graftax.savedmodel_io import load, rewrite, save
from graftax.savedmodel_io.errors import (
  DamagedCheckpointError,
  MissingShardError,
  NotASavedModelError,
  OutputExistsError,
)

_TESTDATA = Path(__file__).parent.parent / "testdata"
_GOLDEN = _TESTDATA / "golden/2026_11_23/tensorflow_2.21.0"
_WITHOUT_MODULES = _TESTDATA / "2026_11_21/keras_export"


@pytest.mark.parametrize("consumer", ["tensorflow-2.16", "plain"])
@pytest.mark.parametrize("name", ["stablehlo_jax2tf", "stablehlo_jax2tf_cuda", "stablehlo_graftax"])
def test_a_rewritten_model_computes_the_same(tmp_path, name, consumer):
  report = rewrite(_GOLDEN / name, tmp_path / "copy", consumer, platforms=["cpu"])
  assert report.num_nodes
  before, after = load(_GOLDEN / name), load(tmp_path / "copy")
  assert list(after.signatures) == list(before.signatures)
  assert list(after.functions) == list(before.functions)
  assert dict(after.variables.infos) == dict(before.variables.infos)
  assert after.fingerprint is None
  with np.load(_GOLDEN / f"{name}.npz") as stored:  # what TensorFlow computed with the original
    given = [stored[key] for key in stored.files if key.startswith("in:")]
    expected = {key.removeprefix("out:"): stored[key] for key in stored.files if key.startswith("out:")}
  (signature,) = after.signatures.values()
  function, params = after.convert()
  outputs, _ = function(params, **dict(zip(signature.inputs, given, strict=True)))
  for key, value in expected.items():
    np.testing.assert_allclose(outputs[key], value, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("consumer", ["tflite", "onnx", "tfjs"])
def test_top_k_of_an_open_batch_is_written_for_converters(tmp_path, consumer):
  x = jax.ShapeDtypeStruct(jax.export.symbolic_shape("b, 6"), np.float32)
  save(tmp_path / "model", (lambda x: jax.lax.top_k(x, 2), x), gradient_order=1)
  assert rewrite(tmp_path / "model", tmp_path / "copy", consumer).num_plain
  model = load(tmp_path / "copy")
  assert "TopKV2" in {node.op for function in model.graph.library.values() for node in function.nodes}
  function, params = model.convert()
  values, places = function(params, x=np.array([[1, 3, -0.0, 3, 0, 2]], np.float32))[0].values()
  assert (values.tolist(), places.tolist()) == ([[3, 3]], [[1, 3]])


def test_a_model_without_modules_is_copied_as_it_is(tmp_path):
  report = rewrite(_WITHOUT_MODULES, tmp_path / "copy", "tensorflow-2.16")
  assert report.num_nodes == 0
  assert "no XlaCallModule node" in str(report)
  assert load(tmp_path / "copy").graph.nodes == load(_WITHOUT_MODULES).graph.nodes
  for source in _WITHOUT_MODULES.rglob("variables/*"):
    assert (tmp_path / "copy" / source.relative_to(_WITHOUT_MODULES)).read_bytes() == source.read_bytes()


def test_nothing_is_replaced_without_being_asked(tmp_path):
  rewrite(_WITHOUT_MODULES, tmp_path / "copy")
  with pytest.raises(OutputExistsError):
    rewrite(_WITHOUT_MODULES, tmp_path / "copy")
  rewrite(_WITHOUT_MODULES, tmp_path / "copy", overwrite=True)


def test_a_model_whose_variables_are_cut_off_is_not_copied(tmp_path):
  shutil.copytree(_WITHOUT_MODULES, tmp_path / "model")
  (shard,) = (tmp_path / "model/variables").glob("*.data-*")
  data = shard.read_bytes()
  shard.write_bytes(data[:-1])
  with pytest.raises(DamagedCheckpointError, match=f"the file has {len(data) - 1} bytes; it is cut off"):
    rewrite(tmp_path / "model", tmp_path / "copy")
  shard.unlink()
  with pytest.raises(MissingShardError, match="data shard 0 of 1 is missing"):
    rewrite(tmp_path / "model", tmp_path / "copy")
  assert not (tmp_path / "copy").exists()


def test_another_folder_is_an_error_and_writes_nothing(tmp_path):
  with pytest.raises(
    NotASavedModelError, match=f"{tmp_path}: not the folder of a SavedModel: it has no saved_model.pb. Pass"
  ):
    rewrite(tmp_path, tmp_path.parent / "copy")
  assert not (tmp_path.parent / "copy").exists()
