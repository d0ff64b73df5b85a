import io
from pathlib import Path

from rich.console import Console

from graftax.savedmodel_io import load
from graftax.tools.examples.digits import model_path
from graftax.tools.inspection.html import html_report
from graftax.tools.inspection.model_comparison import compare
from graftax.tools.inspection.model_report import report_model
from graftax.tools.inspection.model_view import print_comparison

_TEXT = Path(__file__).parents[4] / "savedmodel_io/graftax/savedmodel_io/testdata/2026_11_22/text_and_shapes"


def test_a_model_differs_from_itself_in_nothing():
  report = report_model(load(model_path(), verify=False))
  found = compare(report, report)
  assert found.differences == ()
  assert found.num_equal["signature"] == 2 and found.num_equal["parameter"] == 29


def test_what_two_models_differ_in_is_told_by_name():
  digits, text = (report_model(load(path, verify=False)) for path in (model_path(), _TEXT))
  found = compare(digits, text)
  by_name = {(d.kind, d.name): (d.here, d.there) for d in found.differences}
  assert by_name["parameter", "scale"] == (None, "float32[]")
  assert by_name["op", "Mul"] == ("12 nodes", "5 nodes")
  assert by_name["signature", "pairs"] == (None, "(x: float32[?, ?]) -> {y: float32[?, 2]}, converts")
  shown = io.StringIO()
  print_comparison(found, Console(file=shown, width=120), num_rows=None)
  assert "float32[]" in shown.getvalue() and "5 nodes" in shown.getvalue()
  page = html_report(digits, {}, found)
  assert "Compared with" in page and "12 nodes" in page
