"""Tests the tables of results."""

from graftax.testing.differential.report import failures, table, totals
from graftax.testing.differential.runner import CheckResult

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


def test_tables_count_by_kind_and_by_check():
  assert table({"graftax": _OURS, "tf2jax": _THEIRS}).splitlines() == [
    "| kind | cases | graftax | tf2jax |",
    "| --- | ---: | ---: | ---: |",
    "| rnn | 1 | 2 of 2 | 0 of 2 |",
    "| state | 1 | 1 of 1 | 1 of 1 |",
    "| all | 2 | 3 of 3 | 1 of 3 |",
  ]
  by_check = table({"graftax": _OURS, "tf2jax": _THEIRS}, by="check").splitlines()
  assert by_check[2:4] == ["| value | 2 | 2 of 2 | 1 of 2 |", "| jit | 1 | 1 of 1 | 0 of 1 |"]


def test_totals_and_failures():
  assert totals(_THEIRS) == {"cases": 2, "cases_passed": 1, "checks": 3, "checks_passed": 1}
  assert failures(_THEIRS) == "rnn/a value: off by 1\nrnn/a jit: off by 2"
