"""The table of functions by consumers."""

from graftax.testing.consumers.page import Column, broken_consumers, errors_text, outcome, table_text, wrong_results

_COLUMNS = [
  Column(
    "onnx", "tf2onnx 1", {"mlp": None, "rem": "wrong: differs by 1", "sort": "refused: UnsupportedPrimitiveError: x"}
  ),
  Column("iree", "iree 3", {"mlp": "CompilerToolError: /opt/venv/bin/iree-compile said ``no``", "resnet": None}),
]


def test_errors_are_of_four_kinds():
  assert [outcome(error) for error in _COLUMNS[0].errors.values()] == ["right", "wrong", "refused"]
  assert outcome("ValueError: refused") == "failed"


def test_only_other_results_are_wrong():
  assert wrong_results(_COLUMNS) == ["rem in onnx"]


def test_a_consumer_in_which_all_fails_is_broken():
  failed = Column("tfjs", "tfjs 4", {"mlp": "exit 1: Error: Cannot find module", "sort": "refused: x"})
  assert broken_consumers([*_COLUMNS, failed, Column("tflite", "", {"sort": "refused: x"})]) == ["tfjs"]


def test_the_table_has_a_row_of_sums_and_a_dash_where_nothing_ran():
  assert table_text(["mlp", "rem", "sort", "resnet"], _COLUMNS).splitlines() == [
    "| | onnx | iree |",
    "| --- | --- | --- |",
    "| mlp | right | failed |",
    "| rem | wrong | - |",
    "| sort | refused | - |",
    "| resnet | - | right |",
    "| **right** | 1 of 3 | 1 of 2 |",
  ]


def test_errors_name_no_folder_of_the_machine():
  text = errors_text(_COLUMNS)
  assert "- mlp, iree: `` CompilerToolError: iree-compile said ` `no` ` ``" in text
  assert "/opt" not in text
  assert "- rem, onnx: `` wrong: differs by 1 ``" in text
