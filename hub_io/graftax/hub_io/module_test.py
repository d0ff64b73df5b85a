import shutil
from pathlib import Path

import jax
import numpy as np
import pytest

from graftax.hub_io import load
from graftax.hub_io.errors import UnsupportedHubModuleError
from graftax.savedmodel_io.errors import DamagedSavedModelError, UnknownTagsError

_DATA = Path(__file__).parent / "testdata/2026_11_22"
_TF1 = _DATA / "tf1_module"
_TF2 = _DATA / "tf2_module"
_TF1_VARIANTS = {"none": (), "train": {"train"}, "train_fused": {"train", "batch_norm_fused"}}


def _copy(tmp_path: Path, description: bytes) -> Path:
  folder = shutil.copytree(_TF1, tmp_path / "module")
  (folder / "tfhub_module.pb").write_bytes(description)
  return folder


@pytest.mark.parametrize("variant", _TF1_VARIANTS)
@pytest.mark.parametrize("signature", ["default", "hidden"])
def test_every_variant_of_a_tf1_module_computes_what_tensorflow_hub_did(variant, signature):
  module = load(_TF1, _TF1_VARIANTS[variant])
  fn, params = module.convert(signature)
  expected = np.load(_TF1.with_suffix(".npz"))
  name = next(iter(module.signatures[signature].inputs))
  outputs, _ = jax.jit(fn)(params, **{name: expected["x"]})
  np.testing.assert_allclose(outputs[signature], expected[f"{variant}.{signature}"], rtol=1e-5, atol=1e-5)


def test_variants_differ():
  expected = np.load(_TF1.with_suffix(".npz"))
  assert not np.allclose(expected["none.default"], expected["train.default"], atol=1e-3)


def test_a_tf1_module_without_tags_is_its_variant_for_inference():
  module = load(_TF1)
  assert module.is_tf1_hub
  assert module.tags == frozenset()
  assert module.tag_sets == tuple(frozenset(tags) for tags in _TF1_VARIANTS.values())
  assert module.default_entry == "default"
  assert list(module.signatures) == ["default", "hidden", "words"]


def test_variables_of_a_tf1_module_go_by_name():
  variables = load(_TF1, {"train"}).variables
  assert {name: value.shape for name, value in variables.items()} == {
    "dense/kernel/part_0": (2, 3),
    "dense/kernel/part_1": (2, 3),
    "dense/bias": (3,),
    "norm/gamma": (3,),
    "norm/beta": (3,),
    "norm/moving_mean": (3,),
    "norm/moving_variance": (3,),
  }
  np.testing.assert_array_equal(variables["dense/kernel/part_1"], np.arange(6, 12).reshape(2, 3) / 8)
  assert not variables.info("norm/moving_mean").trainable


def test_unknown_tags_are_listed():
  with pytest.raises(UnknownTagsError, match=r"tags \['serve'\].*\['batch_norm_fused', 'train'\]"):
    load(_TF1, "serve")


def test_a_module_of_tf2_is_called_by_its_signature_or_its_function():
  module = load(_TF2)
  expected = np.load(_TF2.with_suffix(".npz"))
  assert not module.is_tf1_hub
  fn, params = module.convert()
  np.testing.assert_allclose(fn(params, x=expected["x"])[0]["y"], expected["serving_default"], rtol=1e-6)
  call, params = module.convert("__call__", jax.ShapeDtypeStruct((3, 4), np.float32), training=True)
  y, new_params = call(params, expected["x"], training=True)
  np.testing.assert_allclose(y, expected["training"], rtol=1e-6)
  np.testing.assert_allclose(new_params["mean"], expected["mean_after_training"], rtol=1e-6)


@pytest.mark.parametrize(
  ("description", "error", "message"),
  [
    (b"\x08\x02", UnsupportedHubModuleError, "format 2; expected 3"),
    (b"\x08\x03\x12\x05magic", UnsupportedHubModuleError, "features .b'magic'."),
    (b"", DamagedSavedModelError, "holds the fields"),
    (b"\x08", DamagedSavedModelError, "cannot be parsed"),
    (b"\x0a\x01x", DamagedSavedModelError, "holds the fields"),
    (b"<html>", DamagedSavedModelError, "cannot be parsed"),
    (b"\xff" * 70000, DamagedSavedModelError, "cannot be parsed"),
  ],
)
def test_a_description_that_is_not_ours_raises(tmp_path, description, error, message):
  with pytest.raises(error, match=f"tfhub_module.pb: .*{message}"):
    load(_copy(tmp_path, description))
