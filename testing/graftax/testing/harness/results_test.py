"""Tests the tables of results."""

from graftax.testing.harness.results import CheckResult, counts_table, failures, signs_table, totals

_OURS = [
  CheckResult("a", "rnn", "value", True),
  CheckResult("a", "rnn", "jit", True),
  CheckResult("b", "state", "value", True),
]
_THEIRS = [
  CheckResult("a", "rnn", "value", False, "off by 1"),
  CheckResult("a", "rnn", "jit", False, "off by 2"),
  CheckResult("b", "state", "value", True),
]

_OUTCOMES = ("equal", "refused", "wrong", "accepted", "raised", "")


def test_tables_count_by_kind_and_by_check():
  assert counts_table({"graftax": _OURS, "tf2jax": _THEIRS}).splitlines() == [
    "| kind | cases | graftax | tf2jax |",
    "| --- | ---: | ---: | ---: |",
    "| rnn | 1 | 2 of 2 | 0 of 2 |",
    "| state | 1 | 1 of 1 | 1 of 1 |",
    "| all | 2 | 3 of 3 | 1 of 3 |",
  ]
  by_check = counts_table({"graftax": _OURS, "tf2jax": _THEIRS}, "check", order=("value", "jit")).splitlines()
  assert by_check[2:4] == ["| value | 2 | 2 of 2 | 1 of 2 |", "| jit | 1 | 1 of 1 | 0 of 1 |"]


def test_totals_and_failures():
  assert totals(_THEIRS) == {"cases": 2, "cases_passed": 1, "checks": 3, "checks_passed": 1}
  assert failures(_THEIRS) == "rnn/a value: off by 1\nrnn/a jit: off by 2"


def test_a_column_for_each_check_counts_the_checks_of_each_kind():
  lines = counts_table({"graftax": _OURS, "tf2jax": _THEIRS}, column="check").splitlines()
  assert lines[0] == "| kind | cases | graftax value | tf2jax value | graftax jit | tf2jax jit |"
  assert lines[2:] == [
    "| rnn | 1 | 1 of 1 | 0 of 1 | 1 of 1 | 0 of 1 |",
    "| state | 1 | 1 of 1 | 1 of 1 | 0 of 0 | 0 of 0 |",
    "| all | 2 | 2 of 2 | 1 of 2 | 1 of 1 | 0 of 1 |",
  ]


def test_signs_tell_outcomes_apart():
  found = [CheckResult("f", "", "jvp", outcome in ("equal", "refused"), "x", outcome=outcome) for outcome in _OUTCOMES]
  assert [signs_table({"a": [result]}).splitlines()[2] for result in found] == [
    f"| f | {sign} |" for sign in ("yes", "refuses", "WRONG", "ACCEPTS", "fails", "FAILS")
  ]
  assert signs_table({"a": [found[0]], "b": _OURS}).splitlines()[2] == "| f | yes | - | - | - | - | - |"
  assert failures(found[1:4]) == "f jvp: wrong: x\nf jvp: accepted: x"
