"""The harness of hostile files is able to fail, and its cases are reproducible."""

import pytest

from graftax.testing.hostile.__main__ import cases_of, main
from graftax.testing.hostile.case import CaseId
from graftax.testing.hostile.draw import Draw
from graftax.testing.hostile.registry import KINDS, templates
from graftax.testing.hostile.report import Report
from graftax.testing.hostile.run import Answer, CaseLimits, run_cases
from graftax.testing.hostile.shrink import shrink

_PLANTED = "graftax.testing.hostile.planted_faults"
_LIMITS = CaseLimits(seconds=1.0, memory_mib=200.0, silent_s=3.0)
_FAULTS = (
  *("crash/signal", "crash/exit", "hang/busy", "hang/blocked", "memory/slowly", "memory/at_once", "memory/error"),
  *("untyped/type_error", "untyped/assertion", "untyped/recursion", "outside/relative", "outside/absolute"),
  *("outside/pipe", "outside/device", "outside/without_python", "outside/told", "outside/process", "outside/link"),
  *("accepted/refused", "wrong/value", "unread/honest", "broken/template"),
)
_FINE = ("fine/refused", "fine/loaded", "fine/not_found")


@pytest.fixture(scope="module")
def planted():
  cases = [CaseId(*name.split("/"), 0) for name in (*_FINE, *_FAULTS)]
  return {f"{a.id.kind}/{a.id.template}": a for a in run_cases(cases, limits=_LIMITS, module=_PLANTED)}


@pytest.mark.parametrize("name", _FAULTS)
def test_planted_faults_are_found(planted, name):
  assert planted[name].outcome == name.partition("/")[0], planted[name]
  assert planted[name].is_fault and planted[name].detail


def test_readers_without_faults_pass(planted):
  assert [planted[name].outcome for name in _FINE] == ["refused", "loaded", "refused"]
  assert not any(planted[name].is_fault for name in _FINE)


def test_a_failing_case_is_shrunk_to_the_decision_that_it_needs():
  case = next(c for c in (CaseId("untyped", "shrinkable", seed) for seed in range(9)) if Draw(c).integer(0, 9))
  (answer,) = run_cases([case], limits=_LIMITS, module=_PLANTED)
  if answer.outcome != "untyped":
    pytest.skip("the third number of this seed is 0")
  small = shrink(answer, limits=_LIMITS, module=_PLANTED)
  assert small.outcome == "untyped"
  assert small.id.dropped == (0, 1, 3, 4, 5)
  assert CaseId.parse(str(small.id)) == small.id


def test_a_dropped_decision_leaves_the_others_as_they_are():
  def drawn(*dropped: int) -> list[object]:
    draw = Draw(CaseId("k", "t", 3, dropped))
    return [draw.integer(0, 1000), draw.size(5), draw.name("x"), draw.data(4), draw.pick(0, 1, 2, 3)]

  whole = drawn()
  assert drawn() == whole
  assert drawn(1, 3) == [whole[0], 5, whole[2], bytes(4), whole[4]]


def test_there_are_at_least_900_templates_of_at_least_12_kinds():
  assert len(KINDS) >= 12
  assert len(templates()) >= 900
  assert all(sum(kind == k for k, _ in templates()) >= 15 for kind in KINDS)


def test_cases_are_spread_over_all_templates():
  cases = cases_of(KINDS, 3 * len(templates()), seed=7)
  assert {(case.kind, case.template) for case in cases} == set(templates())
  assert {case.seed for case in cases} == {7, 8, 9}


def test_the_report_counts_outcomes_and_names_a_case_of_each_cause():
  report = Report()
  for seed in range(3):
    report.add(Answer(CaseId("h5", "names", seed), "untyped", "TypeError: x at a/b.py:3", ("1",), 0.5, 10.0))
  report.add(Answer(CaseId("h5", "honest", 0), "loaded"))
  assert "| h5 | 2 | 4 |  | 1 |" in report.table()
  assert report.groups().startswith("untyped, 3 cases of h5/names\n  TypeError: x at a/b.py:3")
  assert "--replay 'h5/names/0'" in report.groups()


def test_unknown_kinds_are_an_error():
  with pytest.raises(ValueError, match="no kind 'x'; there are saved_model, "):
    main(["--kinds", "x", "--list"])
