"""Hostile files that run with the tests: a few of each kind, and in the slow lane some of each template."""

import pytest

from graftax.testing.hostile.__main__ import cases_of
from graftax.testing.hostile.known_faults import KNOWN_FAULTS
from graftax.testing.hostile.registry import KINDS
from graftax.testing.hostile.report import Report
from graftax.testing.hostile.run import run_cases

_FEW = 4


def _report(cases) -> Report:
  report = Report()
  for answer in run_cases([case for case in cases if f"{case.kind}/{case.template}" not in KNOWN_FAULTS]):
    report.add(answer)
  return report


# 10 s of processor time for 72 files, children included.
def test_a_few_files_of_each_kind_are_refused_or_read():
  cases = []
  for kind in KINDS:
    every = cases_of([kind], 200, seed=1)
    cases += every[:: len(every) // _FEW][:_FEW]
  report = _report(cases)
  assert not report.faults, report.groups()
  assert {answer.outcome for answer in report.answers} == {"refused", "loaded"}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_files_of_every_template_are_refused_or_read(kind):
  report = _report(cases_of([kind], 60, seed=50))
  assert not report.faults, report.groups()
