import io
from pathlib import Path

import h5py
import numpy as np
from rich.console import Console

from graftax.tools.inspection.model_view import print_report
from graftax.tools.inspection.weights_report import report_weights

_DATA = Path(__file__).parents[4] / "savedmodel_io/graftax/savedmodel_io/testdata/2026_11_21"


def test_a_checkpoint_is_reported_by_its_index():
  report = report_weights(str(_DATA / "training"))
  assert report is not None and report.path.endswith("ckpt-2") and report.kind == "checkpoint of format 2"
  sizes = {parameter.name: (parameter.dtype, parameter.shape, parameter.size_bytes) for parameter in report.parameters}
  assert sizes["net/0/.ATTRIBUTES/VARIABLE_VALUE"] == ("float32", (2,), 8)
  assert sizes["_CHECKPOINTABLE_OBJECT_GRAPH"] == ("string", (), None)
  old = report_weights(str(_DATA / "partitioned_v1/model.ckpt"))
  assert old is not None and old.kind == "checkpoint of format 1"


def test_a_keras_file_is_reported_by_its_weights(tmp_path):
  path = tmp_path / "m.weights.h5"
  with h5py.File(path, "w") as file:
    file["layers/dense/vars/0"] = np.zeros((2, 3), np.float32)
  report = report_weights(str(path))
  assert report is not None
  text = io.StringIO()
  print_report(report, Console(file=text, width=100), num_rows=None)
  assert "Keras file" in text.getvalue() and "dense/kernel" in text.getvalue() and "24 bytes" in text.getvalue()
  assert report.to_json()["parameters"][0]["shape"] == (2, 3)


def test_models_and_other_paths_are_not_weights(tmp_path):
  (tmp_path / "x.pb").write_bytes(b"")
  for path in (_DATA / "module", tmp_path / "x.pb", tmp_path / "nothing", "google/yamnet/1"):
    assert report_weights(str(path)) is None
