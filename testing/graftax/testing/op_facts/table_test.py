"""Tests how evidence of many checks becomes one row per op."""

import numpy as np

from graftax.testing.op_facts.evidence import append, dtypes_of_inputs, evidence_in
from graftax.testing.op_facts.table import faults, table, table_text

_LINES = [
  {"op": "Abs", "source": "raw_op", "dtypes": {"T": "float32"}, "passed": ["value", "jit", "vmap"]},
  {"op": "Abs", "source": "generated", "dtypes": {"T": "int32"}, "passed": ["value"], "deviations": ["because"]},
  {"op": "Abs", "source": "generated", "dtypes": {"T": "int8"}, "passed": [], "refused": {"value": "E: no int8"}},
  {"op": "Abs", "source": "generated", "dtypes": {"T": "int8"}, "passed": [], "refused": {"symbolic": "E: long text"}},
  {"op": "Abs", "source": "generated", "dtypes": {"T": "int8"}, "passed": [], "refused": {"symbolic": "E: text"}},
  {"op": "If", "source": "program", "passed": ["value", "gradient"]},
  {"op": "Sin", "source": "generated", "dtypes": {"T": "half"}, "passed": [], "wrong": {"value": "1, not 2"}},
]


def test_a_row_has_what_any_check_showed_and_errors_only_if_all_were_refused():
  rows = table(_LINES)
  assert rows["Abs"] == {
    "dtypes": {"T": ["float32", "int32"]},
    "refused": {"T=int8": "E: no int8"},
    "transforms": {"jit": True, "vmap": True, "symbolic": "E: text"},
    "deviations": ["because"],
    "checks": {"generated": 4, "raw_op": 1},
  }
  assert rows["If"] == {"dtypes": {}, "transforms": {}, "gradient": True, "checks": {"program": 1}}


def test_the_gradient_of_a_program_is_not_one_of_an_op_that_is_checked_alone():
  rows = table(
    [
      {"op": "BitwiseOr", "source": "raw_op", "dtypes": {"T": "int32"}, "passed": ["value", "jit"]},
      {"op": "BitwiseOr", "source": "program", "passed": ["value", "vmap", "gradient"]},
      {"op": "Where", "source": "program", "passed": ["value", "gradient"]},
      {"op": "Where", "source": "generated", "dtypes": {"T": "float32"}, "passed": ["value"], "no_gradient": True},
    ]
  )
  assert rows["BitwiseOr"] == {
    "dtypes": {"T": ["int32"]},
    "transforms": {"jit": True},
    "checks": {"program": 1, "raw_op": 1},
  }
  assert rows["Where"]["no_gradient"]
  assert "gradient" not in rows["Where"]


def test_a_wrong_value_is_a_fault_and_no_dtype():
  assert faults(_LINES) == ["Sin {'T': 'half'}: value: 1, not 2"]
  assert table(_LINES)["Sin"]["dtypes"] == {}


def test_the_text_has_one_op_a_line():
  assert table_text(_LINES).splitlines()[2].startswith('"If": {')


def test_evidence_is_read_as_it_was_written(tmp_path):
  append(tmp_path / "a.jsonl", _LINES[:3])
  append(tmp_path / "a.jsonl", _LINES[3:])
  assert list(evidence_in(tmp_path)) == _LINES


def test_dtypes_are_those_of_inputs_and_of_attributes():
  arrays = {"input": np.zeros(3, np.int8), "dimension": np.int32(0)}
  found = dtypes_of_inputs("ArgMax", arrays, {"output_type": np.int64})
  assert found == {"T": "int8", "Tidx": "int32", "output_type": "int64"}
