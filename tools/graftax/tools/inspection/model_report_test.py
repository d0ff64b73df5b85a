import io
import json
import shutil
from pathlib import Path

import pytest
from rich.console import Console

from graftax import hub_io
from graftax.graphdef_ir import GraftaxError
from graftax.savedmodel_io import load
from graftax.tools.examples.digits import model_path
from graftax.tools.inspection.model_report import OpReport, TensorReport, Verdict, report_model
from graftax.tools.inspection.model_view import print_report, verdict_text

_DATA = Path(__file__).parents[4] / "savedmodel_io/graftax/savedmodel_io/testdata"
_MODELS = sorted({path.parent for path in _DATA.glob("*/*/saved_model.pb")})


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
  (blocker,) = signature.verdict.blockers
  assert signature.verdict == Verdict(("CompanySecret",), None, blockers=(blocker,))
  assert (blocker.op, blocker.count, blocker.nodes[0][0]) == ("CompanySecret", 1, "secret")
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
  verdict = Verdict(("StringLower",), "table 'words' has string keys")
  assert str(verdict_text(verdict)) == "no: StringLower without a lowering; table 'words' has string keys"


def test_layers_that_draw_random_numbers_in_an_export_are_warned_about():
  for seed, is_warned in (("flip/seed_generator_state", True), ("seed_generator_state_1", True), ("mean", False)):
    text = str(verdict_text(Verdict((), None, updates=("count", seed))))
    assert ("as in training" in text and "training=False" in text) == is_warned


def test_ops_of_the_host_are_not_blockers():
  verdict = Verdict(("Odd", "StringLower"), None, splits=True, host_ops=("StringLower",))
  assert str(verdict_text(verdict)) == "with split: Odd without a lowering; StringLower on the host"
  report = report_model(load(next(_DATA.glob("golden/*_text/tensorflow_2.21.0/text_bert_uncased"))))
  on_host = [op for op in report.ops if op.on_host]
  assert on_host and all(op.supported for op in on_host)
  assert not [op for op in report.ops if not op.supported]
  console = Console(file=io.StringIO(), width=120)
  print_report(report, console, num_rows=None)
  assert "no lowering" not in console.file.getvalue() and "on the host  " in console.file.getvalue()


def _answer(verdict):
  return str(verdict_text(verdict)).splitlines()[0]


def test_a_signature_that_draws_random_numbers_needs_a_key():
  (noise,) = (
    s for s in report_model(load(_DATA / "2026_11_22/text_and_shapes", verify=False)).signatures if s.name == "noise"
  )
  assert noise.verdict.needs_rng
  assert str(verdict_text(noise.verdict)) == "yes\nneeds rng="


@pytest.mark.parametrize("folder", _MODELS)
def test_what_converts_is_what_convert_takes(folder):
  model = load(folder, verify=False)
  report = report_model(model)
  for signature in report.signatures:
    assert (_answer(signature.verdict) == "yes") == _converts(model, signature.name), signature
  for function in report.functions:
    verdicts = [_answer(verdict) for _, verdict in function.traces]
    if len(verdicts) == 1:
      assert (verdicts == ["yes"]) == _converts(model, model.functions[function.path]), function


def _converts(model, entry):
  try:
    model.convert(entry)
  except GraftaxError:
    return False
  return True


def test_control_flow_of_tf1_converts():
  report = report_model(load(_DATA / "2026_11_22/tf1_control_flow"))
  (signature,) = report.signatures
  assert signature.verdict == Verdict((), None)
  assert {"StatelessWhile", "StatelessIf"} <= {op.op for op in report.ops if op.supported}
  assert not any(op.op in ("Enter", "Exit", "Switch", "Merge") for op in report.ops)


def test_each_trace_of_a_function_is_judged_by_itself():
  report = report_model(load(_DATA / "2026_11_22/text_and_shapes"))
  score = next(function for function in report.functions if function.path == "score")
  assert [(text, str(verdict_text(verdict))) for text, verdict in score.traces] == [
    ("(float32[?], True) -> float32[?]", "with split: table 'table' has string keys"),
    ("(float32[?], False) -> float32[?]", "yes"),
  ]


def test_tracing_names_the_sizes_and_the_node_that_stops_it():
  report = report_model(load(_DATA / "2026_11_22/text_and_shapes"), trace=True)
  traces = {signature.name: signature.verdict.trace for signature in report.signatures}
  noise = traces["noise"]
  assert (noise.open_sizes, noise.example_sizes, noise.problem) == (("batch",), (), None)
  assert {cost.scope for cost in noise.costs} == {"", "random_normal"}
  assert (traces["pairs"].open_sizes, traces["pairs"].example_sizes) == (("batch", "x_1"), (2, 32))
  assert "(batch, x_1)" in traces["pairs"].problem and "Reshape node 'Reshape'" in traces["pairs"].problem
  functions = {(f.path, text): verdict for f in report.functions for text, verdict in f.traces}
  words = functions["embed", "(string[?], True) -> string[?]"]
  assert str(verdict_text(words)) == "yes; does not trace: words: holds strings, which JAX cannot trace"
  assert functions["embed", "(string[?], False) -> float32[?]"].trace is None


def test_tracing_says_what_each_loop_becomes():
  report = report_model(load(_DATA / "2026_11_22/tf1_control_flow"), trace=True)
  loop = "'while' (function 'serving_default') becomes a scan of 3 iterations, which are known while tracing"
  assert report.signatures[0].verdict.trace.loops == (loop,)
  assert str(verdict_text(report.signatures[0].verdict)).endswith(f"\nloop {loop}")


def test_parameters_that_no_signature_reads_are_counted_unless_all_are_asked_for():
  report = report_model(load(_DATA / "2026_11_22/tf1_control_flow"))
  for num_rows, is_listed in ((30, False), (None, True)):
    console = Console(file=io.StringIO(), width=120)
    print_report(report, console, num_rows=num_rows)
    shown = console.file.getvalue()
    assert ("spare" in shown) == is_listed
    assert ("... 1 that no signature reads, shown with --all" in shown) != is_listed


def test_a_report_reads_no_values(tmp_path):
  """Values that are read are verified, so a report on damaged values shows that none was read."""
  path = shutil.copytree(model_path(), tmp_path / "model")
  (data,) = (path / "variables").glob("variables.data-*")
  contents = data.read_bytes()
  # The object graph, which a report does read, comes last.
  data.write_bytes(bytes(byte ^ 1 for byte in contents[:1024]) + contents[1024:])
  model = load(path)
  report_model(model, trace=True)
  with pytest.raises(GraftaxError, match="checksum"):
    model.convert("serving_default")


def test_a_graph_by_itself_is_reported_as_what_it_is(tmp_path):
  path = tmp_path / "frozen.pbtxt"
  path.write_text(
    'node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }'
    'node { name: "y" op: "Abs" input: "x" attr { key: "T" value { type: DT_FLOAT } } }'
  )
  report = report_model(hub_io.load(path))
  assert (report.kind, report.graph_size_bytes) == ("GraphDef", path.stat().st_size)
  (signature,) = report.signatures
  assert [tensor.name for tensor in (*signature.inputs, *signature.outputs)] == ["x", "y"]
  assert signature.verdict.problem is None
