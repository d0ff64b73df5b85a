import io
import json

import pytest
from rich.console import Console

from graftax.savedmodel_io import load
from graftax.tools.examples.digits import model_path
from graftax.tools.model_report import OpReport, SignatureReport, TensorReport, report_model
from graftax.tools.model_view import signature_table


def test_a_tf1_model_reports_the_ops_that_its_signature_needs(write_model):
  nodes = [
    ("x", "Placeholder", []),
    ("twice", "AddV2", ["x", "x"]),
    ("secret", "CompanySecret", ["twice"]),
    ("y", "Neg", ["secret"]),
    ("unused", "Tanh", ["x"]),
  ]
  report = report_model(load(write_model(nodes, {"x": "x:0"}, {"y": "y:0"})))
  assert report.format == "TF1"
  assert report.ops == (OpReport("CompanySecret", 1, False), OpReport("AddV2", 1, True), OpReport("Neg", 1, True))
  (signature,) = report.signatures
  assert signature.inputs == (TensorReport("x", "float32", (None,)),)
  assert signature.unsupported_ops == ("CompanySecret",)
  assert report.parameters == ()


def test_functions_that_several_signatures_share_count_once():
  report = report_model(load(model_path()))
  assert [signature.name for signature in report.signatures] == ["serve", "serving_default"]
  assert OpReport("Conv2D", 2, True) in report.ops
  assert [function.path + function.signature for function in report.functions] == ["serve(images)"]


def test_parameters_are_counted_without_reading_them():
  report = report_model(load(model_path()))
  used = [parameter for parameter in report.parameters if parameter.is_used]
  assert len(used) == 14
  assert sum(parameter.size_bytes for parameter in used) == 96_360
  assert {parameter.name for parameter in used if not parameter.trainable} == {
    f"digits/norm{i}/moving_{statistic}" for i in (1, 2) for statistic in ("mean", "variance")
  }


def test_a_report_is_json():
  report = report_model(load(model_path()))
  assert json.loads(json.dumps(report.to_json()))["format"] == "TF2"


@pytest.mark.parametrize(
  ("shape", "text"), [((None, 3), "float32[?, 3]"), ((), "float32[]"), (None, "float32[unknown rank]")]
)
def test_tensors_are_written_like_types(shape, text):
  assert str(TensorReport("x", "float32", shape)) == text


def test_what_does_not_convert_is_named_beside_missing_ops():
  signature = SignatureReport("words", (), (), ("StringLower",), "table 'words' has string keys")
  console = Console(file=io.StringIO(), width=200)
  console.print(signature_table([signature]))
  assert "no: StringLower without a lowering; table 'words' has string keys" in console.file.getvalue()
