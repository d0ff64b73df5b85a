from pathlib import Path

import pytest

from graftax.savedmodel_io.errors import DamagedSavedModelError
from graftax.savedmodel_io.files.fingerprint import read_fingerprint

_DATA = Path(__file__).parents[1] / "testdata/2026_11_21"


def test_a_fingerprint_tells_models_apart():
  module, keras = (read_fingerprint(str(_DATA / name)) for name in ("module", "keras_export"))
  assert module.uuid.isdigit()
  assert module.saved_model_checksum != keras.saved_model_checksum


def test_a_model_may_have_no_fingerprint():
  assert read_fingerprint(str(_DATA / "tf1_partitioned")) is None


def test_a_damaged_fingerprint_is_an_error(tmp_path):
  (tmp_path / "fingerprint.pb").write_bytes(b"\xff\xff")
  with pytest.raises(DamagedSavedModelError, match="fingerprint.pb: cannot be parsed"):
    read_fingerprint(str(tmp_path))
